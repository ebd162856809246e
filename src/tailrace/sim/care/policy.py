"""The name of the cleanup.policy that a log follows."""

from tailrace.storage.log_config import LogConfig


def policy_name(config: LogConfig) -> str:
    """Return the policy as a topic's config names it, its words in alphabetical order."""
    words = {"compact": config.cleanup_policy_compact, "delete": config.cleanup_policy_delete}
    return ",".join(word for word, is_followed in words.items() if is_followed)

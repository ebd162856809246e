"""The topics and groups that a mirror copies: those that match, without internal ones. Pure."""

import re

from tailrace.spark.mirror.error import MirrorError

TOPICS_EXCLUDED = re.compile(r"__.*|_tailrace_.*|.*[-.]internal|.*\.replica|heartbeats|.*\.heartbeats")
"""Topics of brokers, of Connect and of mirrors; MirrorMaker 2 leaves out the same. Heartbeats are handled apart."""
GROUPS_EXCLUDED = re.compile(r"console-consumer-.*|connect-.*|__.*|tailrace-mirror\..*")
"""Groups of programs that do not move to another cluster."""


def read_pattern(option: str, text: str) -> re.Pattern[str]:
    """Return the compiled pattern of an option; raises `MirrorError`."""
    try:
        return re.compile(text)
    except re.error as error:
        raise MirrorError(f"{option} {text!r} is not a regular expression: {error}") from None


def selects_topic(pattern: re.Pattern[str], topic: str) -> bool:
    """Return whether a mirror with this pattern copies the topic."""
    return pattern.fullmatch(topic) is not None and TOPICS_EXCLUDED.fullmatch(topic) is None


def selects_group(pattern: re.Pattern[str], group_id: str) -> bool:
    """Return whether a mirror with this pattern translates the offsets of the group."""
    return pattern.fullmatch(group_id) is not None and GROUPS_EXCLUDED.fullmatch(group_id) is None

"""The rule for valid topic names, which is checked before a name is used in a path or a metric."""

import re

LENGTH_MAX = 249  # "-" and a partition number must still fit into a file name of 255 bytes
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


def topic_name_problem(name: str) -> str | None:
    """Return why `name` is not a valid topic name, or None if it is."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in {".", ".."}:
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > LENGTH_MAX:
        return f"Topic name is invalid: the length of {len(name)} characters is above the maximum of {LENGTH_MAX}"
    if not _LEGAL.fullmatch(name):
        return "Topic name is invalid: only ASCII letters, digits, '.', '_' and '-' are allowed"
    return None


def collision_key(name: str) -> str:
    """Return the name with '.' replaced: names with the same key share a metric, where '.' and '_' are the same."""
    return name.replace(".", "_")

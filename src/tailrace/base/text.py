"""Text of peers: its control characters, and its escaping for log lines."""

from tailrace.base.limits import LOG_TEXT_LENGTH_MAX

_C1_CONTROL = range(0x7F, 0xA0)


def printable(text: str) -> str:
    """Return `text` on one line, with control characters escaped and its length capped, against forged log lines."""
    shown = text if text.isprintable() else text.encode("unicode_escape").decode("ascii")
    return shown if len(shown) <= LOG_TEXT_LENGTH_MAX else shown[:LOG_TEXT_LENGTH_MAX] + "…"


def is_control(letter: str) -> bool:
    """Return whether a letter is an ISO control character, which no name in a path may have."""
    return ord(letter) < 0x20 or ord(letter) in _C1_CONTROL

"""Making what a peer sent fit for a log line."""

from runnel.base.limits import LOG_TEXT_LENGTH_MAX


def printable(text: str) -> str:
    """`text` on one line, control characters escaped and its length capped, so that nobody can forge a log line."""
    shown = text if text.isprintable() else text.encode("unicode_escape").decode("ascii")
    return shown if len(shown) <= LOG_TEXT_LENGTH_MAX else shown[:LOG_TEXT_LENGTH_MAX] + "…"

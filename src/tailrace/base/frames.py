"""Errors that are kept as values, without what they hold."""

from typing import TypeVar

E = TypeVar("E", bound=BaseException)


def without_frames(error: E) -> E:
    """Remove from an error the frames that raised it and the errors before it, which hold whatever was worked on."""
    error.__traceback__ = error.__context__ = error.__cause__ = None
    return error

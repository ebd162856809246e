"""Checks of what must be true whatever a peer or a disk does."""


class InvariantError(Exception):
    """A bug in Runnel itself: nobody handles it, the process stops and says where."""


def invariant(condition: object, message: str) -> None:
    """Raise when `condition` is false. Unlike `assert`, it stays under `python -O`."""
    if not condition:
        raise InvariantError(message)

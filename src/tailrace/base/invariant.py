"""Checks of conditions that hold regardless of input from peers or disks."""


class InvariantError(Exception):
    """A bug in Tailrace itself, after which the state that it was found in cannot be trusted.

    What is not trusted stops, loudly, and the broker goes on. A replica of a partition goes offline, as if its disk had
    failed (`runtime.partition`). So does the shard of a coordinator (`runtime.coordinator.shard`). Where neither is
    concerned it costs one request (`server.dispatch`) or restarts one background task (`runtime.background`).
    """


def invariant(condition: object, message: str) -> None:
    """Raise when `condition` is false. Unlike `assert`, it stays under `python -O`."""
    if not condition:
        raise InvariantError(message)

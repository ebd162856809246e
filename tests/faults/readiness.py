"""Waiting for a process to say something."""

import select
from typing import IO


def has_output(output: IO[bytes], timeout_s: float) -> bool:
    """Whether there is something to read before the time is up; also in a process with very many open files."""
    poll = select.poll()
    poll.register(output, select.POLLIN | select.POLLHUP)
    return bool(poll.poll(timeout_s * 1000))

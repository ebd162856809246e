"""Threads that a test started: itself, or by a thread that it started.

A test that counts all threads of its process also counts those of brokers that other tests keep, which come and go.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch


class StartedThreads:
    """What `started_threads` has seen so far."""

    def __init__(self) -> None:
        self._owners = {threading.current_thread()}
        self._started: list[threading.Thread] = []

    def note(self, thread: threading.Thread) -> None:
        """Keep a thread if this test, or a thread of this test, is the one that starts it."""
        if threading.current_thread() in self._owners:
            self._owners.add(thread)
            self._started.append(thread)

    def running(self) -> list[threading.Thread]:
        """Those that have not ended."""
        return [thread for thread in self._started if thread.is_alive()]


@contextmanager
def started_threads() -> Iterator[StartedThreads]:
    """Watch the start of threads until the block ends."""
    seen = StartedThreads()
    start = threading.Thread.start

    def start_and_note(thread: threading.Thread) -> None:
        seen.note(thread)
        start(thread)

    with patch.object(threading.Thread, "start", start_and_note):
        yield seen

"""A Connect service behind a socket, in a thread, with applications that need no Spark."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import pytest
from tests.unit.connect.conftest import use_fake_applications

from tailrace.connect.process import ConnectServer, Listening
from tailrace.connect.service import ServiceOptions

START_TIMEOUT_S = 60.0


@contextmanager
def served(options: ServiceOptions) -> Iterator[str]:
    """Serve during the block, and provide the URL."""
    loop, ready = asyncio.new_event_loop(), Event()
    server = ConnectServer(options, Listening())

    def serve() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(server.run(ready.set))

    with pytest.MonkeyPatch.context() as patch:
        use_fake_applications(patch)
        thread = Thread(target=serve)
        thread.start()
        try:
            assert ready.wait(START_TIMEOUT_S), "the service is not ready"
            yield server.url
        finally:
            loop.call_soon_threadsafe(server.stop)
            thread.join()
            loop.close()

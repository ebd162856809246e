"""Lines from files and pipes, many at a time, without holding up the event loop.

A thread reads, because neither a file nor a terminal can be read by the loop on every system.
It reads the descriptor itself: a thread that is still waiting in a buffered reader when the
program ends would take the whole program down with it.
"""

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

from runnel.base.limits import LINE_BYTES_MAX

_CHUNK_BYTES = 1024 * 1024
_CHUNKS_AHEAD_MAX = 4
_STDIN = 0
STDIN_PATH = Path("-")


class LineTooLong(ValueError):  # noqa: N818 - it says what is wrong with the input
    """A line that no broker would take as a record."""


async def read_lines(paths: Sequence[Path]) -> AsyncGenerator[tuple[list[bytes], int], None]:
    """The lines of these files without their ends, in chunks, each with the number of bytes it was read from.

    `-` is stdin. A line ends with a newline or with its file, and the carriage return of a file
    from Windows belongs to its end, as Kafka's console producer has it.
    """
    source = _Source(paths)
    rest = b""
    try:
        while (chunk := await source.next()) is not None:
            if not chunk:  # a file ends
                if rest:
                    yield [_without_return(rest)], 0
                rest = b""
                continue
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > LINE_BYTES_MAX:
                raise LineTooLong(f"a line is longer than {LINE_BYTES_MAX} bytes")
            yield [_without_return(line) for line in lines], len(chunk)
    finally:
        source.stop()


def _without_return(line: bytes) -> bytes:
    return line[:-1] if line.endswith(b"\r") else line


class _Stopped(Exception):  # noqa: N818 - it is no error
    """Nobody wants the rest."""


class _Source:
    """The chunks of some files, read ahead by a thread: an empty one after each file, and None at the end."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._loop = asyncio.get_running_loop()
        self._chunks: asyncio.Queue[bytes | OSError | None] = asyncio.Queue()
        self._room = threading.Semaphore(_CHUNKS_AHEAD_MAX)
        self._is_stopped = False
        threading.Thread(target=self._run, name="runnel-input", daemon=True).start()

    async def next(self) -> bytes | None:
        """The next chunk; raises what kept a file from being read."""
        chunk = await self._chunks.get()
        self._room.release()
        if isinstance(chunk, OSError):
            raise chunk
        return chunk

    def stop(self) -> None:
        """Let the thread end, unless it waits for somebody to type."""
        self._is_stopped = True
        self._room.release()

    def _run(self) -> None:
        try:
            for path in self._paths:
                self._read(path)
            self._put(None)
        except (_Stopped, RuntimeError):
            pass  # a loop that is closed raises RuntimeError
        except OSError as error:
            with contextlib.suppress(_Stopped, RuntimeError):
                self._put(error)

    def _read(self, path: Path) -> None:
        descriptor = _STDIN if path == STDIN_PATH else os.open(path, os.O_RDONLY)
        try:
            while chunk := os.read(descriptor, _CHUNK_BYTES):
                self._put(chunk)
        finally:
            if descriptor != _STDIN:
                os.close(descriptor)
        self._put(b"")

    def _put(self, item: bytes | OSError | None) -> None:
        self._room.acquire()
        if self._is_stopped:
            raise _Stopped
        self._loop.call_soon_threadsafe(self._chunks.put_nowait, item)

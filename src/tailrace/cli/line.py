"""Lines from files and pipes, read in chunks without blocking the event loop.

A thread reads, because event loops cannot read files and terminals on every system. It reads the descriptor
directly: a thread that is blocked in a buffered reader when the program ends would crash the interpreter.
"""

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

from tailrace.base.limits import LINE_BYTES_MAX

_CHUNK_BYTES = 1024 * 1024
_CHUNKS_AHEAD_MAX = 4
_STDIN = 0
STDIN_PATH = Path("-")


class LineTooLong(ValueError):
    """A line is larger than any record that a broker accepts."""


async def read_lines(paths: Sequence[Path]) -> AsyncGenerator[tuple[list[bytes], int], None]:
    """Yield the lines of these files without their ends, in chunks, each with the number of bytes it was read from.

    `-` is stdin. A line ends with a newline or with its file, and the carriage return of a file
    from Windows belongs to its end, as in Kafka's console producer.
    """
    source = _Source(paths)
    rest = b""
    try:
        while (chunk := await source.next()) is not None:
            if not chunk:  # end of a file
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


class _Stopped(Exception):
    """The reader was closed before the end."""


class _Source:
    """Chunks of files, read ahead by a thread: an empty chunk after each file, and None at the end."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._loop = asyncio.get_running_loop()
        self._chunks: asyncio.Queue[bytes | OSError | None] = asyncio.Queue()
        self._room = threading.Semaphore(_CHUNKS_AHEAD_MAX)
        self._is_stopped = False
        threading.Thread(target=self._run, name="tailrace-input", daemon=True).start()

    async def next(self) -> bytes | None:
        """Return the next chunk; raises the error of a file that cannot be read."""
        chunk = await self._chunks.get()
        self._room.release()
        if isinstance(chunk, OSError):
            raise chunk
        return chunk

    def stop(self) -> None:
        """Let the thread end, unless it is waiting for terminal input."""
        self._is_stopped = True
        self._room.release()

    def _run(self) -> None:
        try:
            for path in self._paths:
                self._read(path)
            self._put(None)
        except (_Stopped, RuntimeError):
            pass  # raised by a closed loop
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

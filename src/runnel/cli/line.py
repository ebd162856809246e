"""Lines from files and pipes, many at a time, without holding up the event loop.

A thread reads, because neither a file nor a terminal can be read by the loop on every system.
It reads the descriptor itself: a thread that is still waiting in a buffered reader when the
program ends would take the whole program down with it.
"""

import asyncio
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
    chunks: asyncio.Queue[bytes | OSError | None] = asyncio.Queue()
    room = threading.Semaphore(_CHUNKS_AHEAD_MAX)
    loop = asyncio.get_running_loop()
    threading.Thread(target=_read, args=(paths, chunks, room, loop), name="runnel-input", daemon=True).start()
    rest = b""
    while (chunk := await chunks.get()) is not None:
        room.release()
        if isinstance(chunk, OSError):
            raise chunk
        if not chunk:  # a file ends
            if rest:
                yield [_without_return(rest)], 0
            rest = b""
            continue
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > LINE_BYTES_MAX:
            raise LineTooLong(f"a line is longer than {LINE_BYTES_MAX} bytes")
        yield [_without_return(line) for line in lines], len(chunk)


def _without_return(line: bytes) -> bytes:
    return line[:-1] if line.endswith(b"\r") else line


def _read(
    paths: Sequence[Path],
    chunks: "asyncio.Queue[bytes | OSError | None]",
    room: threading.Semaphore,
    loop: asyncio.AbstractEventLoop,
) -> None:
    """Put the chunks of every file into the queue, an empty one after each file, and None at the end."""

    def put(item: bytes | OSError | None) -> None:
        room.acquire()
        loop.call_soon_threadsafe(chunks.put_nowait, item)

    try:
        for path in paths:
            descriptor = _STDIN if path == STDIN_PATH else os.open(path, os.O_RDONLY)
            try:
                while chunk := os.read(descriptor, _CHUNK_BYTES):
                    put(chunk)
            finally:
                if descriptor != _STDIN:
                    os.close(descriptor)
            put(b"")
        put(None)
    except OSError as error:
        put(error)
    except RuntimeError:
        return  # the loop has closed: nobody wants the rest

"""A comparison of ways to send a range of a segment: `python -m bench.fetch_path` prints a table.

One process serves pieces of 1 MiB of a file from an asyncio transport, another receives them over loopback. The figure
is the server's CPU seconds per GB, with the file in the page cache, as the median of rounds in which all ways take
turns. Cold reads are not measured: their time is that of the disk, and the event loop must not wait for them.
"""

from __future__ import annotations

import argparse
import asyncio
import mmap
import multiprocessing
import os
import resource
import socket
import statistics
import tempfile
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import uvloop

PIECE_BYTES = 1 << 20
FILE_BYTES = 256 << 20

Read = Callable[[int], bytes | bytearray | memoryview]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=1.0, help="to send for each way and round (default 1)")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "segment"
        with path.open("wb") as file:
            for _ in range(FILE_BYTES // PIECE_BYTES):
                file.write(os.urandom(PIECE_BYTES))
        costs: dict[str, list[float]] = {name: [] for name in WAYS}
        for _ in range(arguments.rounds):
            for name in WAYS:
                costs[name].append(_measure(name, path, arguments.gigabytes))
    print(f"{'way':<24} CPU s/GB (median of {arguments.rounds})   MB/s a core")
    for name, seconds in costs.items():
        median = statistics.median(seconds)
        print(f"{name:<24} {median:>8.3f} {1000 / median:>24.0f}")


def _pread(descriptor: int) -> Read:
    return lambda position: os.pread(descriptor, PIECE_BYTES, position)


def _preadv_no_wait(descriptor: int) -> Read:
    def read(position: int) -> bytearray:
        piece = bytearray(PIECE_BYTES)
        os.preadv(descriptor, [piece], position, os.RWF_NOWAIT)
        return piece

    return read


def _map(descriptor: int) -> Read:
    view = memoryview(mmap.mmap(descriptor, FILE_BYTES, prot=mmap.PROT_READ))
    return lambda position: view[position : position + PIECE_BYTES]


WAYS: dict[str, Callable[[int], Read] | None] = {
    "pread": _pread,
    "preadv RWF_NOWAIT": _preadv_no_wait,
    "slice of a mapped file": _map,
    "sendfile": None,
}


def _measure(name: str, path: Path, gigabytes: float) -> float:
    """Return the CPU seconds per GB of a new process that serves the file in one way to this process."""
    fork = multiprocessing.get_context("fork")
    ours, theirs = _loopback_pair()
    result, answer = fork.Pipe(duplex=False)
    piece_count = int(gigabytes * 1e9) // PIECE_BYTES
    server = fork.Process(target=_serve, args=(name, path, piece_count, ours, theirs, answer))
    server.start()
    ours.close()
    buffer = bytearray(PIECE_BYTES)
    while theirs.recv_into(buffer):
        pass
    theirs.close()
    cpu: float = result.recv()
    server.join()
    return cpu / (piece_count * PIECE_BYTES / 1e9)


def _serve(
    name: str, path: Path, piece_count: int, ours: socket.socket, theirs: socket.socket, answer: Connection
) -> None:
    theirs.close()
    before = _cpu_seconds()
    uvloop.run(_send_all(WAYS[name], ours, os.open(path, os.O_RDONLY), piece_count))
    answer.send(_cpu_seconds() - before)


async def _send_all(make: Callable[[int], Read] | None, ours: socket.socket, descriptor: int, piece_count: int) -> None:
    if make is None:
        _send_files(ours, descriptor, piece_count)
        ours.close()
    else:
        await _write_pieces(ours, make(descriptor), piece_count)


async def _write_pieces(connection: socket.socket, read: Read, piece_count: int) -> None:
    _, writer = await asyncio.open_connection(sock=connection)
    for index in range(piece_count):
        writer.write(read(index * PIECE_BYTES % FILE_BYTES))
        await writer.drain()
    writer.close()
    await writer.wait_closed()


def _send_files(connection: socket.socket, descriptor: int, piece_count: int) -> None:
    connection.setblocking(True)
    for index in range(piece_count):
        position, end = index * PIECE_BYTES % FILE_BYTES, index * PIECE_BYTES % FILE_BYTES + PIECE_BYTES
        while position < end:
            position += os.sendfile(connection.fileno(), descriptor, position, end - position)


def _loopback_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
    ours.setblocking(False)
    return ours, theirs


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()

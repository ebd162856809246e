"""The upper limit: the speed of sending bytes from one process to another over loopback.

A broker cannot be faster than this. The receiver counts and discards the data, like a broker that neither checks nor
stores anything.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection

CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Copy:
    """The figures of one copy."""

    byte_count: int
    seconds: float
    receiver_cpu_s: float
    sender_cpu_s: float


def copy(byte_count: int) -> Copy:
    """Send `byte_count` bytes to another process over a loopback socket."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    receiver = context.Process(target=_receive, args=(theirs, byte_count))
    receiver.start()
    port = ours.recv()
    with socket.create_connection(("127.0.0.1", port)) as sender:
        payload = os.urandom(CHUNK_BYTES)
        cpu_before = time.process_time()
        started = time.perf_counter()
        for sent in range(0, byte_count, CHUNK_BYTES):
            sender.sendall(payload[: min(CHUNK_BYTES, byte_count - sent)])
        receiver_cpu_s = ours.recv()
        seconds = time.perf_counter() - started
        sender_cpu_s = time.process_time() - cpu_before
    receiver.join()
    return Copy(byte_count, seconds, receiver_cpu_s, sender_cpu_s)


def _receive(pipe: Connection, byte_count: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        pipe.send(server.getsockname()[1])
        connection, _ = server.accept()
        with connection:
            buffer = bytearray(CHUNK_BYTES)
            cpu_before = time.process_time()
            received = 0
            while received < byte_count:
                received += connection.recv_into(buffer)
            pipe.send(time.process_time() - cpu_before)

"""The broker side of the log size benchmark: raw requests, and the broker's CPU time for them."""

from __future__ import annotations

import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from bench.timed_batch import BATCH_RECORDS, TimedBatches
from tailrace.protocol.frame import decode_response, encode_request
from tailrace.protocol.message import Message
from tailrace.protocol.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from tailrace.protocol.messages.offset import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from tailrace.protocol.messages.produce import ProduceRequest, ProduceRequestPartition, ProduceRequestTopic
from tailrace.protocol.messages.topic import CreateTopicsRequest, CreateTopicsRequestConfig, CreateTopicsRequestTopic
from tailrace.protocol.registry import response_type

OPERATIONS = 100
TIMEOUT_S = 120.0
VERSIONS = {ProduceRequest: 9, FetchRequest: 12, ListOffsetsRequest: 7, CreateTopicsRequest: 5}


class Process:
    """`tailrace start` on a folder, and one connection to it."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "tailrace.cli.main", "start", "--data", str(folder), "--listen", "127.0.0.1:0"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if self._process.stdout is None:
            raise RuntimeError("the broker has no output")
        host, port = self._process.stdout.readline().rsplit(" ", 1)[-1].strip().rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request: Message) -> Any:
        """Send one request and return its reply."""
        version = VERSIONS[type(request)]
        self._socket.sendall(b"".join(encode_request(1, "bench", request, version)))
        (size_bytes,) = struct.unpack(">i", self._receive(4))
        key = request.SCHEMA.key
        if key is None:
            raise RuntimeError("the message is not a request")
        return decode_response(response_type(key), self._receive(size_bytes), version)[1]

    def _receive(self, size_bytes: int) -> bytes:
        data = bytearray()
        while len(data) < size_bytes:
            part = self._socket.recv(size_bytes - len(data))
            if not part:
                raise RuntimeError("the broker closed the connection")
            data += part
        return bytes(data)

    def cpu_us(self) -> float:
        """Return the CPU time of all threads, in nanoseconds if the kernel has that precision."""
        tasks = Path(f"/proc/{self._process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e3

    def stop(self) -> None:
        self._socket.close()
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(TIMEOUT_S)
        if self._process.stdout is not None:
            self._process.stdout.close()


def make_topics(folder: Path, names: Sequence[str]) -> None:
    """Create topics of one partition each without retention."""
    process = Process(folder)
    configs = [CreateTopicsRequestConfig(name="retention.ms", value="-1")]
    asked = [
        CreateTopicsRequestTopic(name=name, num_partitions=1, replication_factor=1, configs=configs) for name in names
    ]
    reply = process.ask(CreateTopicsRequest(topics=asked, timeout_ms=10_000))
    process.stop()
    if any(topic.error_code for topic in reply.topics):
        raise RuntimeError(f"cannot create a topic: {reply}")


class BrokerSide:
    """Requests of each kind for one partition."""

    KINDS = ("produce", "fetch_at_random", "list_offsets_by_time")

    def __init__(self, process: Process, topic: str, batches: TimedBatches, random: Random) -> None:
        self._process = process
        self._topic = topic
        self._batches = batches
        self._random = random

    def measure(self, kind: str) -> float:
        """Return the broker's CPU time for one request of a kind, in microseconds."""
        calls: dict[str, Callable[[], object]] = {
            "produce": self._produce,
            "fetch_at_random": self._fetch,
            "list_offsets_by_time": self._find_time,
        }
        before_us = self._process.cpu_us()
        for _ in range(OPERATIONS):
            calls[kind]()
        return (self._process.cpu_us() - before_us) / OPERATIONS

    def _produce(self) -> None:
        data = ProduceRequestPartition(index=0, records=self._batches.make())
        topics = [ProduceRequestTopic(name=self._topic, partition_data=[data])]
        reply = self._process.ask(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=topics))
        if reply.responses[0].partition_responses[0].error_code:
            raise RuntimeError(str(reply))

    def _fetch(self) -> None:
        offset = self._random.randrange(self._batches.next_offset // BATCH_RECORDS) * BATCH_RECORDS
        wanted = FetchRequestPartition(partition=0, fetch_offset=offset, partition_max_bytes=self._batches.size_bytes)
        topics = [FetchRequestTopic(topic=self._topic, partitions=[wanted])]
        reply = self._process.ask(
            FetchRequest(replica_id=-1, max_wait_ms=0, min_bytes=1, max_bytes=2**20, session_epoch=-1, topics=topics)
        )
        if len(reply.responses[0].partitions[0].records) != self._batches.size_bytes:
            raise RuntimeError(f"the fetch at offset {offset} did not return one batch")

    def _find_time(self) -> None:
        offset = self._random.randrange(self._batches.next_offset)
        wanted = ListOffsetsRequestPartition(partition_index=0, timestamp=self._batches.timestamp_of(offset))
        topics = [ListOffsetsRequestTopic(name=self._topic, partitions=[wanted])]
        reply = self._process.ask(ListOffsetsRequest(replica_id=-1, topics=topics))
        if reply.topics[0].partitions[0].offset != offset:
            raise RuntimeError(f"the timestamp of offset {offset} was not found")

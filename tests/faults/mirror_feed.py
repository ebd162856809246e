"""What is written to the source of a mirror while things are killed, and what both sides have in the end."""

from __future__ import annotations

import hashlib
import random
import threading
import time
from typing import Any, NamedTuple

import tailrace
from tailrace.client.error import ClientError
from tailrace.protocol.errors import ApiError, RemoteProtocolError

PLAIN, TRANSACTIONAL, COMPACTED = "plain", "transactional", "compacted"
TOPICS = (PLAIN, TRANSACTIONAL, COMPACTED)
PARTITION_COUNT = 3
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_TIMEOUTS: dict[str, Any] = {"request_timeout_ms": 10_000, "delivery_timeout_ms": 20_000}
_FAILURES = (ClientError, ApiError, RemoteProtocolError)


def create_topics(servers: str, replica_count: int) -> None:
    """Create the topics of the source."""
    compacted = {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01"}
    with tailrace.Admin(servers) as admin:
        for name in TOPICS:
            configs = compacted if name == COMPACTED else {}
            admin.create_topics([tailrace.NewTopic(name, PARTITION_COUNT, replica_count, configs)])


class MirrorFeed:
    """Writes numbered records in a thread: plain ones, and transactions of which every fourth is aborted."""

    def __init__(self, servers: str, *, pause_s: float = 0.05, seed: int = 1) -> None:
        self.servers = servers
        self.count = 0
        self._pause_s = pause_s
        self._random = random.Random(seed)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def abandon(self) -> None:
        """Stop without waiting for a thread whose brokers are gone."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._write()
            except _FAILURES:
                time.sleep(0.2)  # a broker is down; what was cut off stays cut off

    def _write(self) -> None:
        codec = self._random.choice(CODECS)
        with (
            tailrace.Producer(self.servers, compression_type=codec, **_TIMEOUTS) as plain,
            tailrace.Producer(self.servers, transactional_id="feed", compression_type=codec, **_TIMEOUTS) as producer,
        ):
            for _ in range(100):
                if self._stopping.wait(self._pause_s):
                    return
                producer.begin_transaction()
                for _ in range(self._random.randrange(1, 20)):
                    self.count += 1
                    key = b"%d" % self._random.randrange(200)
                    plain.send(PLAIN, b"%d" % self.count, key, headers=[("number", b"%d" % self.count)])
                    producer.send(TRANSACTIONAL, b"%d" % self.count, key)
                    producer.send(COMPACTED, None if self.count % 11 == 0 else b"%d" % self.count, key)
                producer.flush()
                if self._random.random() < 0.25:
                    producer.abort_transaction()
                else:
                    producer.commit_transaction()


class Content(NamedTuple):
    """The committed records of a topic: their number and a hash of all of them in order."""

    record_count: int
    digest: str


def content(servers: str, topic: str, *, with_offsets: bool = False) -> Content:
    """Return the content of a topic; of a compacted one, the newest record of each key in each partition."""
    try:
        rows = committed_rows(servers, topic, with_offsets=with_offsets)
    except _FAILURES:
        return Content(-1, "it cannot be read")
    if topic == COMPACTED:
        newest = {(row[0], row[1]): row for row in rows}
        rows = sorted(row for row in newest.values() if row[2] is not None)
    digest = hashlib.sha256(repr(rows).encode()).hexdigest()
    return Content(len(rows), digest[:16])


def committed_rows(servers: str, topic: str, *, with_offsets: bool = False) -> list[tuple[Any, ...]]:
    """Return partition, key, value, timestamp, headers and perhaps offset of all committed records in order."""
    columns = ["partition", "key", "value", "timestamp", "headers", *(["offset"] if with_offsets else [])]
    table = tailrace.read_table(servers, topic, columns=columns, isolation_level="read_committed")
    return [tuple(str(row[name]) if name == "headers" else row[name] for name in columns) for row in table.to_pylist()]

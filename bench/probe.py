"""A probe of the latency of single requests while a broker does other work."""

from __future__ import annotations

import asyncio
import statistics
import threading
import time
from types import TracebackType
from typing import Self

import psutil

from tailrace.client.address import parse_addresses
from tailrace.client.connection import Connection
from tailrace.protocol.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic, FetchResponse
from tailrace.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
)
from tailrace.records.builder import BatchBuilder

PAUSE_S = 0.002
TIMEOUT_MS = 30_000
VALUE_BYTES = 1000
NAMED_PRODUCE_VERSION = NAMED_FETCH_VERSION = 12  # later versions use topic ids


class Probe:
    """A thread that repeatedly produces and fetches one record, and records the latencies."""

    def __init__(self, bootstrap_servers: str, topic: str, pid: int) -> None:
        self.produce_ms: list[float] = []
        self.fetch_ms: list[float] = []
        self.rss_bytes_max = 0
        self._bootstrap_servers = bootstrap_servers
        self._topic = topic
        self._process = psutil.Process(pid)
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="probe")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def figures(self) -> dict[str, dict[str, float]]:
        """Return percentiles in milliseconds."""
        return {"produce": percentiles(self.produce_ms), "fetch": percentiles(self.fetch_ms)}

    def _run(self) -> None:
        try:
            asyncio.run(self._probe())
        except BaseException as error:
            self._failure = error

    async def _probe(self) -> None:
        (address,) = parse_addresses(self._bootstrap_servers)
        connection = await Connection.open(address, request_timeout_ms=TIMEOUT_MS)
        while not self._stopping.is_set():
            began = time.perf_counter()
            produced = await connection.request(self._produce(), ProduceResponse, version_max=NAMED_PRODUCE_VERSION)
            self.produce_ms.append((time.perf_counter() - began) * 1000)
            outcome = produced.responses[0].partition_responses[0]
            if outcome.error_code:
                raise RuntimeError(f"the probe's record was rejected with error code {outcome.error_code}")
            began = time.perf_counter()
            fetch = self._fetch(outcome.base_offset)
            await connection.request(fetch, FetchResponse, version_max=NAMED_FETCH_VERSION)
            self.fetch_ms.append((time.perf_counter() - began) * 1000)
            self.rss_bytes_max = max(self.rss_bytes_max, self._process.memory_info().rss)
            await asyncio.sleep(PAUSE_S)
        await connection.close()

    def _produce(self) -> ProduceRequest:
        builder = BatchBuilder()
        builder.append(int(time.time() * 1000), b"key", bytes(VALUE_BYTES))
        partition = ProduceRequestPartition(index=0, records=builder.build())
        topic = ProduceRequestTopic(name=self._topic, partition_data=[partition])
        return ProduceRequest(acks=-1, timeout_ms=TIMEOUT_MS, topic_data=[topic])

    def _fetch(self, offset: int) -> FetchRequest:
        partition = FetchRequestPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        topic = FetchRequestTopic(topic=self._topic, partitions=[partition])
        return FetchRequest(max_wait_ms=0, min_bytes=1, topics=[topic])


def percentiles(values: list[float]) -> dict[str, float]:
    """Return the median, two high percentiles and the maximum."""
    cuts = statistics.quantiles(values, n=1000, method="inclusive")
    return {
        "count": len(values),
        "p50": round(cuts[499], 2),
        "p99": round(cuts[989], 2),
        "p99.9": round(cuts[998], 2),
        "max": round(max(values), 2),
    }

"""The blocking calls by which the data source uses brokers.

Only this module uses the client. The calls run on the event loop of one thread, and clusters stay connected: Spark
reuses a Python worker for the next micro-batch, with its open connections. A forked worker starts without them.
"""

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from tailrace.base.limits import SPARK_CLUSTERS_KEPT_MAX, SPARK_RANGES_AHEAD_MAX
from tailrace.base.sentinel import NO_OFFSET
from tailrace.client.backoff import Deadline
from tailrace.client.cluster import Cluster
from tailrace.client.error import AuthenticationError, BootstrapError, ClientError
from tailrace.client.fetch.request import FetchOptions
from tailrace.client.loop_thread import LoopThread
from tailrace.client.metadata import Topic
from tailrace.client.offset import EARLIEST, LATEST, OffsetAt, list_offsets
from tailrace.client.produce.core import open_cluster
from tailrace.client.produce.producer import Producer
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from tailrace.records.arrow.decode import ColumnDecoder
from tailrace.records.error import RecordError
from tailrace.spark.client_setting import BOOTSTRAP_SERVERS, ClientSettings
from tailrace.spark.data_loss import Loss
from tailrace.spark.error import BrokerError, OptionError, RetriableBrokerError
from tailrace.spark.plan import OffsetRange
from tailrace.spark.position import Offsets
from tailrace.spark.range_fetch import NothingArrived, OutOfRange, RangeFetch
from tailrace.spark.retriable import broker_error
from tailrace.spark.topic_writer import TopicWriter

T = TypeVar("T")

_NEW_TOPIC_TIMEOUT_MS = 5_000  # the broker may create the topic first
TASK_PATIENCE_MS = 30_000  # long enough for the restart of a broker


class TopicIO:
    """The topics of one cluster. Created by `topic_io`; failures are `BrokerError`s."""

    def __init__(self, settings: ClientSettings, thread: LoopThread) -> None:
        self.settings = settings
        self._consumer = settings.consumer
        self._thread = thread
        self._cluster: Cluster | None = None
        self._producer: Producer | None = None
        self._required: set[str | None] = set()

    # --- topics and offsets

    def partition_counts(self, topics: Sequence[str] | None) -> dict[str, int]:
        """Return the partition counts of these topics, if they exist, or of all but internal ones for None."""

        async def look(cluster: Cluster) -> dict[str, int]:
            view = await cluster.retry(lambda: cluster.refresh(topics), timeout_ms=cluster.request_timeout_ms)
            found = [view.topics.get(name) for name in topics] if topics is not None else view.topics.values()
            return {
                topic.name: len(topic.partitions)
                for topic in found
                if topic is not None and _is_usable(topic) and (topics is not None or not topic.is_internal)
            }

        return self._run(look)

    def offsets(self, asked: Mapping[TopicPartition, int], *, patience_ms: int = 0) -> dict[TopicPartition, int | None]:
        """Return the first offset at or after a time in each partition, or None; -2 is earliest and -1 latest."""

        async def look(cluster: Cluster) -> dict[TopicPartition, int | None]:
            by_topic: dict[str, dict[int, int]] = {}
            for partition, time_ms in asked.items():
                by_topic.setdefault(partition.topic, {})[partition.partition] = time_ms
            isolation = self.settings.isolation
            answers = await asyncio.gather(
                *(list_offsets(cluster, topic, times, isolation) for topic, times in by_topic.items())
            )
            found = {}
            for topic, answer in zip(by_topic, answers, strict=True):
                found.update({TopicPartition(topic, index): _offset(at) for index, at in answer.items()})
            return found

        return self._run(look, patience_ms=patience_ms) if asked else {}

    def edges(self, partitions: Sequence[TopicPartition], *, patience_ms: int = 0) -> tuple[Offsets, Offsets]:
        """Return the log start offset and the log end offset of each partition."""
        first, last = (
            self.offsets(dict.fromkeys(partitions, edge), patience_ms=patience_ms) for edge in (EARLIEST, LATEST)
        )
        return {key: offset or 0 for key, offset in first.items()}, {key: offset or 0 for key, offset in last.items()}

    # --- records

    def read(
        self, wanted: Sequence[OffsetRange], columns: Sequence[str], *, timeout_ms: int, loss: Loss
    ) -> Iterator[Any]:
        """Yield the records of some ranges as `pyarrow.RecordBatch`es."""
        # The driver has just reached the brokers, so a task waits for them to return.
        fetches = self._run(lambda cluster: self._begin(cluster, wanted, timeout_ms), patience_ms=timeout_ms)
        try:
            for index, (fetch, one) in enumerate(zip(fetches, wanted, strict=True)):
                self._thread.call(_start(fetches[index : index + SPARK_RANGES_AHEAD_MAX]))
                yield from self._read_one(fetch, one, columns, timeout_ms, loss)
        finally:
            self._thread.call(_stop(fetches))

    def _read_one(
        self, fetch: RangeFetch, wanted: OffsetRange, columns: Sequence[str], timeout_ms: int, loss: Loss
    ) -> Iterator[Any]:
        decoder = ColumnDecoder(wanted.topic, wanted.partition, columns, check_crcs=self._consumer.check_crcs)
        try:
            while True:
                try:
                    fetched = self._run(lambda _: fetch.next())
                except (OutOfRange, NothingArrived) as reason:
                    if not self._go_on(fetch, wanted, reason, timeout_ms, loss):
                        return
                    continue
                if fetched is None:
                    return
                for decoded in decoder.decode(fetched.data, fetched.offset, wanted.end, fetched.aborted):
                    if decoded.record_batch.num_rows:
                        yield decoded.record_batch
        except RecordError as error:
            raise BrokerError(f"{wanted}: {error}") from None

    async def _begin(self, cluster: Cluster, wanted: Sequence[OffsetRange], timeout_ms: int) -> list[RangeFetch]:
        options = FetchOptions(
            isolation=self.settings.isolation,
            max_wait_ms=self._consumer.fetch_max_wait_ms,
            min_bytes=self._consumer.fetch_min_bytes,
            partition_bytes_max=self._consumer.max_partition_fetch_bytes,
        )
        return [RangeFetch(cluster, one, options, timeout_ms) for one in wanted]

    def _go_on(
        self, fetch: RangeFetch, wanted: OffsetRange, reason: OutOfRange | NothingArrived, timeout_ms: int, loss: Loss
    ) -> bool:
        """Return whether a range with deleted records has any left."""
        partition = TopicPartition(wanted.topic, wanted.partition)
        first, last = (edge[partition] for edge in self.edges([partition]))
        if first <= reason.offset < last:
            # An open transaction or a slow follower delays records only for a while.
            raise RetriableBrokerError(
                f"{partition}: no record arrived at offset {reason.offset} within {timeout_ms} ms "
                "(option kafkaConsumer.pollTimeoutMs)"
            )
        loss.report(
            f"records of {wanted} were deleted: offset {reason.offset} is out of range, "
            f"the partition has offsets from {first} to {last}"
        )
        fetch.seek(first)
        return reason.offset < first < wanted.end

    @contextmanager
    def writer(self, topic: str | None) -> Iterator[TopicWriter]:
        """Provide the writer of one task's rows, to one topic or to the topics that the rows name."""
        # The producer is reused by the next task, unless this one fails.
        producer = self._producer or Producer(config=self.settings.producer)
        self._producer = None
        try:
            # Here, too, the driver has just reached the brokers.
            yield TopicWriter(producer, topic, partial(self.require_topic, patience_ms=TASK_PATIENCE_MS))
        except BaseException:
            producer.close(0)
            raise
        self._producer = producer

    def require_topic(self, name: str | None, *, patience_ms: int = 0) -> None:
        """Raise `OptionError` unless a topic exists or the brokers create it; for None only connect."""
        if name in self._required:
            return

        async def look(cluster: Cluster) -> None:
            if name is not None:
                await cluster.topic(name, allow_auto_create=True, timeout_ms=_NEW_TOPIC_TIMEOUT_MS)

        try:
            self._run(look, patience_ms=patience_ms, raw=True)
        except ApiError as error:
            if error.code.retriable and error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise self._explain(error) from None
            where = f"{BOOTSTRAP_SERVERS} ({self.settings.bootstrap_servers})"
            reason = f"topic {name} cannot be written at {where}: {error}. Create it first, or change the option"
            raise OptionError("topic", reason) from None
        self._required.add(name)

    # --- the loop

    def _run(self, action: Callable[[Cluster], Awaitable[T]], *, patience_ms: int = 0, raw: bool = False) -> T:
        """Run an action with the cluster; `patience_ms` is the time to wait for a broker to answer.

        With `raw`, errors of brokers are raised unchanged.
        """

        async def run() -> T:
            return await action(self._cluster or await self._connect(patience_ms))

        try:
            return self._thread.call(run())
        except (ClientError, ApiError, RemoteProtocolError) as error:
            if raw and isinstance(error, ApiError):
                raise
            raise self._explain(error) from None

    async def _connect(self, patience_ms: int) -> Cluster:
        deadline = Deadline(patience_ms)
        while True:
            cluster = open_cluster(self._consumer)
            try:
                await cluster.connect()
            except BootstrapError:
                if deadline.is_over:
                    raise
                await asyncio.sleep(cluster.backoff.wait_s(1))
            else:
                self._cluster = cluster
                return cluster

    def _explain(self, error: Exception) -> BrokerError:
        servers = f"{BOOTSTRAP_SERVERS} ({self.settings.bootstrap_servers})"
        if isinstance(error, BootstrapError):
            text = f"no broker answers at {servers}: {error}. Start one, or change the option"
        elif isinstance(error, AuthenticationError):
            text = f"cannot authenticate at {servers}: {error}"
        elif isinstance(error, ApiError):
            text = f"the brokers at {servers} answered {error}"
        else:
            text = f"lost the brokers at {servers}: {error}"
        return broker_error(text, error)

    async def close(self) -> None:
        """Close the connections; on the loop."""
        if self._producer is not None:
            self._producer.close(0)
            self._producer = None
        if self._cluster is not None:
            await self._cluster.close()
            self._cluster = None


async def _start(fetches: Iterable[RangeFetch]) -> None:
    for fetch in fetches:
        fetch.start()


async def _stop(fetches: Iterable[RangeFetch]) -> None:
    for fetch in fetches:
        fetch.stop()


def _is_usable(topic: Topic) -> bool:
    return topic.error is ErrorCode.NONE and bool(topic.partitions)


def _offset(found: OffsetAt) -> int | None:
    return None if found.offset == NO_OFFSET else found.offset


class _Process:
    """The open connections of this process."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.thread = LoopThread("tailrace-spark")
        self.opened: dict[ClientSettings, TopicIO] = {}


_lock = threading.Lock()
_process: _Process | None = None


def topic_io(settings: ClientSettings) -> TopicIO:
    """Return the topics for these configs, with existing connections if there are any."""
    global _process  # noqa: PLW0603 - a worker's connections live as long as the worker
    with _lock:
        if _process is None or _process.pid != os.getpid():
            _process = _Process()
        found = _process.opened.pop(settings, None) or TopicIO(settings, _process.thread)
        _process.opened[settings] = found
        while len(_process.opened) > SPARK_CLUSTERS_KEPT_MAX:
            oldest = next(iter(_process.opened))
            _process.thread.call(_process.opened.pop(oldest).close())
        return found

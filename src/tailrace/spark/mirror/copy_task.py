"""The task that copies the partitions of one bucket, exactly once.

Each transaction has copies of records, the offset syncs that say where they are, and the offsets of the source up to
which everything has been copied, committed for the mirror's group in the target. A task begins by taking the
transactional id of its bucket: an older task of the bucket can write nothing from then on, and its last transaction is
either committed with its progress or aborted. Then the task reads the progress, and goes on from there. So each
committed record of the source is copied once, whichever processes are killed, and the target needs only Kafka's
transactions.
"""

import asyncio
import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence

from tailrace.base.mirror_limits import MIRROR_ERROR_LENGTH_MAX
from tailrace.client.cluster import Cluster
from tailrace.client.error import ClientError
from tailrace.client.fetch.isolation import Isolation
from tailrace.client.fetch.request import Fetched
from tailrace.client.group.coordinator import Coordinator
from tailrace.client.group.offset import OffsetAndMetadata, fetch_offsets
from tailrace.client.loop_thread import LoopThread
from tailrace.client.offset import EARLIEST, list_offsets
from tailrace.client.produce.core import open_cluster
from tailrace.client.setting import AdminSettings
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.errors import ApiError, RemoteProtocolError
from tailrace.records.error import RecordError
from tailrace.records.record import read_batches
from tailrace.spark.mirror.batch_copy import copy_batches
from tailrace.spark.mirror.claim import check_claim
from tailrace.spark.mirror.error import MirrorReplaced
from tailrace.spark.mirror.job import ClusterConfig, CopyJob, CopyReport, PartitionJob, TopicReport
from tailrace.spark.mirror.keep_append import KeepAppender
from tailrace.spark.mirror.record import encode_sync
from tailrace.spark.mirror.source_reader import SourceReader
from tailrace.spark.mirror.target_writer import TargetWriter
from tailrace.spark.mirror.translation import Span, join_spans

COMMIT_INTERVAL_S = 0.1
"""The time between the beginnings of two transactions of a task, unless there is much to copy."""
_FULL_BYTES = 4 * 1024 * 1024
_CONNECT_TIMEOUT_MS = 30_000

Spans = Mapping[TopicPartition, Sequence[Span]]


class CopyTask:
    """Copies the partitions of a job on connected clusters."""

    def __init__(self, job: CopyJob, source: Cluster, target: Cluster) -> None:
        self._job = job
        self._source = source
        self._target = target
        self._by_source = {one.source: one for one in job.partitions}
        self._keeper = None if job.claims is None else KeepAppender(target, job.claims)
        self._report = CopyReport(job.bucket, {one.topic: TopicReport() for one in job.partitions})

    async def run(self) -> CopyReport:
        """Copy until the time is over, and return the report. Errors of brokers are in the report."""
        job = self._job
        writer = TargetWriter(
            self._target, dict(job.target.configs), job.name.transactional_id(job.bucket), job.name.group_id
        )
        reader: SourceReader | None = None
        try:
            await _learn(self._source, [one.source for one in job.partitions])
            await _learn(self._target, [one.target for one in job.partitions])
            await writer.start()
            isolation = Isolation.READ_COMMITTED if self._keeper is None else Isolation.READ_UNCOMMITTED
            reader = SourceReader(self._source, await self._find_positions(), isolation=isolation)
            await self._copy(reader, writer)
        except MirrorReplaced as error:
            self._report.is_replaced, self._report.error = True, str(error)
        except (ClientError, ApiError, RemoteProtocolError, RecordError) as error:
            self._report.error = str(error)[:MIRROR_ERROR_LENGTH_MAX]
        finally:
            if reader is not None:
                self._summarise(reader)
                await reader.close()
                await self._source.close_lane(reader)
            if self._keeper is not None:
                await self._keeper.close()
            await writer.close()
        self._blame(writer)
        return self._report

    async def _find_positions(self) -> dict[TopicPartition, int]:
        """Return the offsets of the source at which to go on; after the transactional id is taken."""
        name = self._job.name
        claim = TopicPartition(name.syncs_topic, 0)
        coordinator = Coordinator(self._target, name.group_id)
        committed = await coordinator.retry(
            lambda: fetch_offsets(coordinator, [claim, *(one.target for one in self._job.partitions)]),
            timeout_ms=_CONNECT_TIMEOUT_MS,
        )
        check_claim(committed[claim].metadata if claim in committed else None, self._job.run_id, name)
        if self._keeper is not None:
            return await self._keeper.find_positions(self._job.partitions)
        found = {one.source: committed[one.target].offset for one in self._job.partitions if one.target in committed}
        missing: dict[str, list[int]] = {}
        for one in self._job.partitions:
            if one.source not in found:
                missing.setdefault(one.topic, []).append(one.partition)
        for topic, partitions in missing.items():
            firsts = await list_offsets(self._source, topic, dict.fromkeys(partitions, EARLIEST))
            found |= {TopicPartition(topic, partition): at.offset for partition, at in firsts.items()}
        return found

    async def _copy(self, reader: SourceReader, writer: TargetWriter) -> None:
        ends_at_s = time.monotonic() + self._job.duration_s
        began_at_s = 0.0
        waiting: list[Fetched] = []
        while (left_s := ends_at_s - time.monotonic()) > 0:
            waiting += await reader.next(min(left_s, COMMIT_INTERVAL_S) if waiting else left_s)
            is_done = self._job.until is not None and reader.is_at(self._job.until)
            is_due = time.monotonic() - began_at_s >= COMMIT_INTERVAL_S
            if waiting and (is_due or is_done or sum(len(one.data) for one in waiting) >= _FULL_BYTES):
                began_at_s = time.monotonic()
                await self._write(writer, waiting)
                waiting = []
            if is_done:
                self._report.is_done = True
                return
        if waiting:
            await self._write(writer, waiting)

    async def _write(self, writer: TargetWriter, chunks: list[Fetched]) -> None:
        """Write the records of some fetches, their offset syncs, and the progress."""
        written: dict[str, TopicReport] = {}
        spans: Spans = {}
        if self._keeper is not None:
            spans = await self._keep(self._keeper, chunks)
        await writer.begin()
        try:
            if self._keeper is None:
                written = await self._add(writer, chunks)
                spans = await writer.flush()
            by_target = {one.target: one.source for one in self._job.partitions}
            syncs = [encode_sync(by_target[target], span) for target, found in spans.items() for span in found]
            if syncs:
                await writer.write(self._job.name.syncs_topic, syncs)
            ends = {self._job_of(fetched): fetched.next_offset for fetched in chunks}
            await writer.commit({one.target: OffsetAndMetadata(end, one.route) for one, end in ends.items()})
        except BaseException as error:
            await writer.abort(error)
            raise
        for topic, report in written.items():
            self._report.topics[topic].add(report)

    async def _add(self, writer: TargetWriter, chunks: Sequence[Fetched]) -> dict[str, TopicReport]:
        """Add the copies to a transaction, and return what has been added by topic."""
        written: dict[str, TopicReport] = {}
        for fetched in chunks:
            one = self._job_of(fetched)
            report = written.setdefault(one.topic, TopicReport())
            for batch in copy_batches(fetched):
                await writer.add(one.target, batch)
                report.record_count += batch.record_count
                report.size_bytes += len(batch.data)
        return written

    async def _keep(self, keeper: KeepAppender, chunks: Sequence[Fetched]) -> Spans:
        """Append the batches at their offsets, all partitions at the same time; this needs no transaction."""
        by_partition: dict[PartitionJob, list[Fetched]] = {}
        for fetched in chunks:
            by_partition.setdefault(self._job_of(fetched), []).append(fetched)

        async def append(one: PartitionJob, parts: Sequence[Fetched]) -> list[Span]:
            spans = []
            for fetched in parts:
                spans.append(await keeper.append(one, fetched))
                report = self._report.topics[one.topic]
                report.record_count += sum(header.record_count for _, header in read_batches(fetched.data))
                report.size_bytes += len(fetched.data)
            return join_spans(spans)

        appends = [append(one, parts) for one, parts in by_partition.items()]
        outcomes = dict(zip(by_partition, await asyncio.gather(*appends, return_exceptions=True), strict=True))
        for one, outcome in outcomes.items():
            if isinstance(outcome, ApiError):
                self._report.topics[one.topic].error = str(outcome)[:MIRROR_ERROR_LENGTH_MAX]
        for outcome in outcomes.values():
            if isinstance(outcome, BaseException):
                raise outcome
        return {one.target: spans for one, spans in outcomes.items() if not isinstance(spans, BaseException)}

    def _job_of(self, fetched: Fetched) -> PartitionJob:
        return self._by_source[TopicPartition(fetched.topic, fetched.partition)]

    def _summarise(self, reader: SourceReader) -> None:
        for partition, position in reader.positions.items():
            report = self._report.topics[partition.topic]
            report.lost += position.lost
            report.error = report.error or position.error
            if position.end_offset >= 0:
                report.behind[partition.partition] = max(0, position.end_offset - position.offset)
        if reader.error is not None and self._report.error is None:
            self._report.error = f"the source cannot be read: {reader.error}"[:MIRROR_ERROR_LENGTH_MAX]

    def _blame(self, writer: TargetWriter) -> None:
        """Note the errors of topics that could not be written, under their names in the source."""
        copies: dict[str, PartitionJob] = {one.copy: one for one in self._job.partitions}
        for copy, error in writer.failed.items():
            if copy in copies:
                self._report.topics[copies[copy].topic].error = error[:MIRROR_ERROR_LENGTH_MAX]


async def _learn(cluster: Cluster, partitions: Iterable[TopicPartition]) -> None:
    """Request the metadata of topics that are new, or have new partitions since they were looked up."""
    unknown = set()
    for topic, partition in partitions:
        found = cluster.known_topic(topic)
        if found is None or partition >= len(found.partitions):
            unknown.add(topic)
    if unknown:
        await cluster.retry(lambda: cluster.refresh(unknown), timeout_ms=_CONNECT_TIMEOUT_MS)


# --- in an executor


class _Process:
    """The event loop and the connected clusters of this process, which later tasks use again."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.thread = LoopThread("tailrace-mirror")
        self.clusters: dict[ClusterConfig, Cluster] = {}

    async def cluster(self, config: ClusterConfig) -> Cluster:
        """Return the connected cluster with these configs; waits for its brokers for a while."""
        if config not in self.clusters:
            self.clusters[config] = await connect(config)
        return self.clusters[config]


async def connect(config: ClusterConfig) -> Cluster:
    """Return a connected cluster; raises `BootstrapError` if no broker answers."""
    given = {name: text for name, text in config.configs if name in AdminSettings.options}
    cluster = open_cluster(AdminSettings(None, {"client.id": "tailrace-mirror", **given}, {}))
    await cluster.connect()
    return cluster


_lock = threading.Lock()
_process: _Process | None = None


def run_copy(job: CopyJob) -> CopyReport:
    """Run a job in this process, as a task of Spark."""
    global _process  # noqa: PLW0603 - connections live as long as the Python worker
    with _lock:
        if _process is None or _process.pid != os.getpid():
            _process = _Process()
        process = _process

    async def run() -> CopyReport:
        try:
            clusters = await asyncio.gather(process.cluster(job.source), process.cluster(job.target))
        except (ClientError, RemoteProtocolError) as error:
            return CopyReport(job.bucket, error=str(error)[:MIRROR_ERROR_LENGTH_MAX])
        return await CopyTask(job, *clusters).run()

    return process.thread.call(run())

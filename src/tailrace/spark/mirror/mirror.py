"""A mirror: what its driver does before, between and beside the rounds of tasks.

A round is one job of Spark: each task copies the partitions of its bucket for some seconds and returns a report. The
records go from the source's brokers to the target's in the Python worker of the task, and never through the JVM. The
driver has no state of its own: progress, claim, offset syncs and the state of topics are in the target.
"""

import asyncio
import logging
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Self

from tailrace.client.admin.core import Admin
from tailrace.client.cluster import Cluster
from tailrace.client.error import ClientError
from tailrace.client.fetch.isolation import Isolation
from tailrace.client.offset import LATEST, list_offsets
from tailrace.client.produce.aio import Producer
from tailrace.client.setting import ProducerSettings
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.errors import ApiError, RemoteProtocolError
from tailrace.spark.mirror.claim_store import take_claim
from tailrace.spark.mirror.copy_task import connect
from tailrace.spark.mirror.error import MirrorError, MirrorReplaced
from tailrace.spark.mirror.group_sync import GroupSync
from tailrace.spark.mirror.job import ClusterConfig, CopyJob, CopyReport, TopicReport, split_jobs
from tailrace.spark.mirror.keep_sync import KeepSync
from tailrace.spark.mirror.name import HEARTBEATS_TOPIC
from tailrace.spark.mirror.option import MirrorOptions
from tailrace.spark.mirror.record import Heartbeat, encode_heartbeat
from tailrace.spark.mirror.rename import SAME_NAME
from tailrace.spark.mirror.state import TopicStatus
from tailrace.spark.mirror.sync_follower import SyncFollower
from tailrace.spark.mirror.topic_sync import TopicSync, TopicView

_log = logging.getLogger(__name__)

SYNC_INTERVAL_S = 0.5
"""The time between two translations of the offsets of groups."""
PAUSE_S = 30.0
"""How long a topic that cannot be written is left out, so that the others of its task go on."""

_FAILURES = (ClientError, ApiError, RemoteProtocolError)


class Mirror:
    """One run of a mirror. Nothing is changed before `start` has checked everything."""

    def __init__(self, options: MirrorOptions) -> None:
        self.options = options
        self.run_id = str(uuid.uuid4())
        self.statuses: dict[str, TopicStatus] = {}
        """The state of each topic of the source."""
        self.error: str | None = None
        """The error of the last round that is not one of a topic."""
        self.sync_error: str | None = None
        """The error of the last translation of groups."""
        self._closing = AsyncExitStack()
        self._view = TopicView()
        self._keeper: KeepSync | None = None
        self._paused: dict[str, float] = {}
        self._syncing: asyncio.Task[None] | None = None
        self._until: dict[TopicPartition, int] | None = None
        self._done: set[TopicPartition] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # --- before the first round

    async def start(self, *, once: bool = False) -> None:
        """Check both clusters, create what is missing, and claim the mirror. Raises `MirrorError`.

        With `once`, rounds end when everything is copied that is in the source now.
        """
        options = self.options
        self._source = await self._connect("--from", options.source)
        self._target = await self._connect("--to", options.target)
        source_id = await _cluster_id(self._source, options.source)
        target_id = await _cluster_id(self._target, options.target)
        if source_id == target_id and options.template == SAME_NAME:
            raise MirrorError(
                f"--from and --to are the same cluster ({source_id}): copying topics to their own names would form a "
                "cycle. Choose another cluster, or other names with --rename"
            )
        if options.keep_offsets:
            self._keeper = KeepSync(Admin(self._target), source_id, self.run_id)
        ids = source_id, target_id
        self._topics = TopicSync(options, Admin(self._source), Admin(self._target), ids, self._keeper)
        self._view = await self._topics.look()
        if once and not self._view.names.keys() - {HEARTBEATS_TOPIC} and not self._view.errors:
            raise MirrorError(f"no topic of --from matches --topics {options.topics.pattern}")
        await self._topics.check(self._view)
        await self._topics.create_own()
        await take_claim(self._target, options, self.run_id, source_id)
        await self._topics.apply(self._view)
        self._note_errors()
        self._follower = SyncFollower(self._target, options.name.syncs_topic)
        self._closing.push_async_callback(self._follower.close)
        await self._follower.read()
        await self._restore_progress()
        given = {name: text for name, text in options.target.configs if name in ProducerSettings.options}
        self._producer = Producer(config={"client.id": "tailrace-mirror", **given})
        await self._closing.enter_async_context(self._producer)
        self._groups = GroupSync(options, Admin(self._source), Admin(self._target), self._producer)
        if once:
            self._until = await self._ends()
        self._syncing = asyncio.get_running_loop().create_task(self._sync())

    async def _connect(self, option: str, config: ClusterConfig) -> Cluster:
        try:
            cluster = await connect(config)
        except (ClientError, RemoteProtocolError) as error:
            raise MirrorError(f"{option} {config.bootstrap_servers}: {error}") from None
        self._closing.push_async_callback(cluster.close)
        return cluster

    async def _restore_progress(self) -> None:
        """Commit progress that the group has forgotten, from the offset syncs.

        Brokers delete the offsets of a group without members after a week (offsets.retention.minutes). The last sync of
        a partition stays, so long as the copy still has the records that it names.
        """
        group_id = self.options.name.group_id
        admin = Admin(self._target)
        committed = await admin.list_group_offsets(group_id)
        found: dict[TopicPartition, int] = {}
        for job in self._view.jobs:
            translation = self._follower.translations.get(job.source)
            last = None if translation is None else translation.last
            if job.target in committed or last is None:
                continue
            end = (await list_offsets(self._target, job.copy, {job.partition: LATEST}))[job.partition].offset
            if end >= last.target_end:
                found[job.target] = last.source_end
        if found:
            _log.warning("the progress of %d partitions is restored from offset syncs", len(found))
            for error in (await admin.alter_group_offsets(group_id, found)).values():
                if error is not None:
                    raise error

    async def _ends(self) -> dict[TopicPartition, int]:
        """Return the end of the committed records of each partition."""
        by_topic: dict[str, list[int]] = {}
        for job in self._view.jobs:
            by_topic.setdefault(job.topic, []).append(job.partition)
        found = {}
        for topic, partitions in by_topic.items():
            asked = dict.fromkeys(partitions, LATEST)
            for partition, at in (await list_offsets(self._source, topic, asked, Isolation.READ_COMMITTED)).items():
                found[TopicPartition(topic, partition)] = at.offset
        return found

    # --- rounds

    async def plan_round(self) -> list[CopyJob]:
        """Return the tasks of the next round, after looking for new topics and partitions; none if all is done."""
        if self._until is None:
            try:
                self._view = await self._topics.look()
                await self._topics.apply(self._view)
                self._note_errors()
            except _FAILURES as error:
                self.error = f"looking for topics: {error}"
        now_s = time.monotonic()
        jobs = [
            job for job in self._view.jobs if self._paused.get(job.topic, 0.0) <= now_s and job.source not in self._done
        ]
        options = self.options
        return [
            CopyJob(
                options.name,
                self.run_id,
                bucket,
                options.source,
                options.target,
                partitions,
                options.round_s,
                None if self._until is None else {one.source: self._until[one.source] for one in partitions},
                None if self._keeper is None else {one.copy: self._keeper.claims[one.copy] for one in partitions},
            )
            for bucket, partitions in split_jobs(jobs, options.task_count).items()
        ]

    async def take_reports(self, jobs: Sequence[CopyJob], reports: Sequence[CopyReport], elapsed_s: float) -> None:
        """Take the reports of a round, and write the state of topics; raises `MirrorReplaced`."""
        merged: dict[str, TopicReport] = {}
        self.error = None
        for job, report in zip(jobs, reports, strict=True):
            if report.is_replaced:
                raise MirrorReplaced(report.error or "another run has replaced this one")
            self.error = self.error or report.error
            if report.is_done:
                self._done |= {one.source for one in job.partitions}
            for topic, one in report.topics.items():
                merged.setdefault(topic, TopicReport()).add(one)
                if one.error is not None:
                    self._paused[topic] = time.monotonic() + PAUSE_S
        now_ms = time.time_ns() // 1_000_000
        for topic, one in merged.items():
            self._status(topic).take(one, elapsed_s, now_ms)
        with suppress(*_FAILURES):
            await self._write_states()

    def _status(self, topic: str) -> TopicStatus:
        return self.statuses.setdefault(topic, TopicStatus(topic, self._view.names.get(topic, "")))

    def _note_errors(self) -> None:
        for topic, error in self._view.errors.items():
            self._status(topic).error = error

    async def _write_states(self) -> None:
        for status in self.statuses.values():
            topic = self.options.name.state_topic
            await self._producer.send(topic, status.encode(), status.topic.encode(), partition=0)
        await self._producer.flush(5.0)

    # --- beside the rounds

    async def _sync(self) -> None:
        """Translate the offsets of groups and write heartbeats, until the mirror is closed."""
        while True:
            started_at_s = time.monotonic()
            await self.sync_once()
            await asyncio.sleep(max(0.0, SYNC_INTERVAL_S - (time.monotonic() - started_at_s)))

    async def sync_once(self) -> None:
        """Translate the offsets of groups once, with all offset syncs that there are."""
        try:
            await self._follower.read()
            await self._groups.run_once(self._follower.translations, self._view.names)
            await self._write_heartbeats(self._view.names)
            self.sync_error = None
        except _FAILURES as error:
            self.sync_error = f"translating offsets of groups: {error}"
            _log.debug("%s", self.sync_error)

    async def _write_heartbeats(self, names: Mapping[str, str]) -> None:
        """Write a heartbeat, and in place of a source without heartbeats the copy of one."""
        name, now_ms = self.options.name, time.time_ns() // 1_000_000
        record = encode_heartbeat(Heartbeat(name.source, name.target, now_ms))
        await self._producer.send(HEARTBEATS_TOPIC, record.value, record.key, partition=0)
        if HEARTBEATS_TOPIC not in names:
            record = encode_heartbeat(Heartbeat(name.target, name.source, now_ms))
            await self._producer.send(name.remote_heartbeats_topic, record.value, record.key, partition=0)

    async def finish(self) -> None:
        """Translate the offsets of groups a last time."""
        await self._stop_syncing()
        await self.sync_once()

    async def _stop_syncing(self) -> None:
        if self._syncing is not None:
            self._syncing.cancel()
            await asyncio.gather(self._syncing, return_exceptions=True)
            self._syncing = None

    async def close(self) -> None:
        """Close every connection."""
        await self._stop_syncing()
        await self._closing.aclose()


async def _cluster_id(cluster: Cluster, config: ClusterConfig) -> str:
    """Return the id of a cluster; one without an id is known by its address."""
    return (await cluster.refresh([])).cluster_id or config.bootstrap_servers

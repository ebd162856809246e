"""A folder of logs in use, and the ledgers of what its users were told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from tests.faults.crash_check import check_consistent, check_files, check_live, check_promise, check_retries, scan
from tests.faults.crash_handover import Handovers
from tests.faults.crash_ledger import TRANSACTIONAL_ID, Ledger, Sent, require, violate
from tests.unit.storage.compacting import compact, dirt_of

from tailrace.records.batch import read_header
from tailrace.records.builder import BatchBuilder
from tailrace.records.compression import Compression
from tailrace.records.control import ControlType, EndTransactionMarker, build_end_transaction_marker
from tailrace.storage.error import StorageError
from tailrace.storage.log import Log
from tailrace.storage.log_config import LogConfig
from tailrace.storage.log_dir import LogDir
from tailrace.storage.memory_fs import MemoryFileSystem
from tailrace.storage.retention import delete_files, first_file_offset

PATH = "/data"
NO_PRODUCER = -1
KEY_COUNT = 4
_SMALL = LogConfig(segment_bytes=700, index_interval_bytes=150, retention_ms=-1, file_delete_delay_ms=10)
CONFIGS = {
    "plain": _SMALL,
    "safe": replace(_SMALL, flush_messages=1),
    "other": _SMALL,
    "keyed": replace(
        _SMALL, segment_bytes=420, cleanup_policy_delete=False, cleanup_policy_compact=True, delete_retention_ms=0
    ),
}

Step = tuple[Any, ...]


class ManualClock:
    """Both clocks stand still until a step moves them."""

    def __init__(self) -> None:
        self.time_ms = 1_000_000

    def now_ms(self) -> int:
        return self.time_ms

    def monotonic_ms(self) -> int:
        return self.time_ms


@dataclass
class Topic:
    """A partition that was made, or is being made or taken away."""

    topic_id: UUID
    ledger: Ledger = field(default_factory=Ledger)
    handovers: Handovers = field(default_factory=Handovers)
    is_making: bool = True
    is_going: bool = False
    is_synced: bool = False

    @property
    def is_certain(self) -> bool:
        return not self.is_making and not self.is_going


class World:
    """One log folder from start to start. Steps are named after what they do; see `script`."""

    def __init__(self, fs: MemoryFileSystem) -> None:
        self.fs = fs
        self.clock = ManualClock()
        self.topics: dict[str, Topic] = {}
        self.log_dir: LogDir | None = None
        self._id_count = 0

    # Lives

    def start(self) -> None:
        self.log_dir = None
        self.log_dir = LogDir.open(self.fs, PATH, self.clock, CONFIGS.__getitem__, self._new_id)

    def _new_id(self) -> str:
        self._id_count += 1
        return f"{self._id_count:032x}"

    @property
    def is_offline(self) -> bool:
        return self.log_dir is None or self.log_dir.is_offline

    def recover(self, *, is_lossy: bool, is_on_disk: bool) -> None:
        """Start after a crash, hold everything against the ledgers, and go on from there."""
        self.start()
        logs = self._dir.logs
        for name, topic in list(self.topics.items()):
            log = logs.get((name, 0))
            if log is None:
                is_lost = topic.is_certain and (topic.is_synced or topic.ledger.durable_end > 0)
                require(not is_lost, f"the topic {name} is lost")
                del self.topics[name]
                continue
            require(self._dir.topic_ids.get((name, 0)) == topic.topic_id, f"the topic {name} is another one")
            # One that was being made was found, but is not on the disk before something is flushed to it.
            topic.is_synced = is_on_disk or (topic.is_synced and topic.is_certain)
            topic.is_making = topic.is_going = False
            found = scan(self.fs, log)
            check_promise(log, found, topic.ledger, is_lossy=is_lossy)
            check_consistent(self.fs, log, found)
            check_files(self.fs, log)
            topic.handovers.recover(log, found, is_vanishing=topic.ledger.is_vanishing)
            topic.ledger.resume(found, log.log_start_offset, log.log_end_offset, is_on_disk=is_on_disk)
            check_retries(log, topic.ledger)
        returned = {name for name, _ in logs} - set(self.topics)
        require(not returned, f"deleted topics are back: {returned}")

    def run(self, step: Step) -> None:
        """Do one step. Raises `StorageError` only when the folder is offline then."""
        try:
            self._do(step)
        except StorageError:
            if self.is_offline:
                raise
            self.check()

    def _do(self, step: Step) -> None:
        name, *arguments = step
        action: Callable[..., None] = getattr(self, name)
        is_for_all = name in ("make", "tick", "checkpoint", "purge", "sweep", "reopen")
        if is_for_all or (arguments[0] in self.topics and self.topics[arguments[0]].is_certain):
            action(*arguments)

    def check(self, only: str | None = None) -> None:
        """Hold the logs in use against their ledgers. Nothing fails or counts meanwhile."""
        hook, call_count = self.fs.hook, self.fs.call_count
        self.fs.hook = None
        for name, topic in self.topics.items():
            if topic.is_certain and only in (None, name):
                found = check_live(self.fs, self._log(name), topic.ledger)
                topic.handovers.check(self._log(name), found)
                if topic.ledger.is_compacted:
                    # What is cut from now on does not bring back what a compaction took away for it.
                    topic.ledger.held = found
                check_retries(self._log(name), topic.ledger)
        self.fs.hook, self.fs.call_count = hook, call_count

    @property
    def _dir(self) -> LogDir:
        if self.log_dir is None:
            violate("the folder is closed")
        return self.log_dir

    def _log(self, name: str) -> Log:
        return self._dir.logs[name, 0]

    # Steps

    def tick(self, step_ms: int) -> None:
        self.clock.time_ms += step_ms

    def make(self, name: str) -> None:
        """Make a topic that is not there."""
        topic = self.topics.get(name)
        if topic is not None and not (topic.is_making and (name, 0) not in self._dir.logs):
            return
        if topic is None:
            self._id_count += 1
            ledger = Ledger(is_compacted=CONFIGS[name].cleanup_policy_compact)
            topic = self.topics[name] = Topic(UUID(int=self._id_count), ledger)
        self._dir.create(name, 0, topic.topic_id, CONFIGS[name])
        topic.is_making = False
        topic.is_synced = True

    def delete(self, name: str) -> None:
        self.topics[name].is_going = True
        self._dir.delete(name, 0)
        del self.topics[name]

    def purge(self) -> None:
        self._dir.purge()

    def append(
        self, name: str, producer_id: int, count: int, codec: Compression = Compression.NONE, drift_ms: int = 0
    ) -> None:
        """Write as the partition's leader does: look at the sequence numbers, then append."""
        log, ledger = self._log(name), self.topics[name].ledger
        sequence = self._next_sequence(log, ledger, producer_id)
        builder = BatchBuilder(
            codec,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=sequence,
            is_transactional=producer_id == TRANSACTIONAL_ID,
        )
        for number in range(count):
            value = b"%s %d %d" % (name.encode(), ledger.end_offset + number, self.clock.time_ms)
            offset = ledger.end_offset + number
            key = b"key %d" % (offset % KEY_COUNT) if ledger.is_compacted else None
            is_deletion = key is not None and offset % 7 == 3
            builder.append(self.clock.time_ms + drift_ms * number, key, None if is_deletion else value)
        data = bytearray(builder.build())
        require(log.producers.check(read_header(data)) is None, f"sequence {sequence} is taken for a repetition")
        self._append(name, data)
        if producer_id >= 0:
            require(log.producers.check(read_header(data)) is not None, "a repetition is not known")

    def _next_sequence(self, log: Log, ledger: Ledger, producer_id: int) -> int:
        if producer_id < 0:
            return -1
        entry = log.producers.entries.get(producer_id)
        last_offset = entry.batches[-1].last_offset if entry is not None and entry.batches else -1
        if entry is not None and (ledger.is_compacted or last_offset < log.log_start_offset):
            # The log may remember or forget who wrote only what is deleted or compacted away.
            return entry.last_sequence + 1
        return ledger.next_sequence(producer_id)

    def end_transaction(self, name: str, control_type: ControlType) -> None:
        marker = EndTransactionMarker(control_type, 1)
        time_ms = self.clock.time_ms
        data = build_end_transaction_marker(
            marker, producer_id=TRANSACTIONAL_ID, producer_epoch=0, timestamp_ms=time_ms
        )
        self._append(name, bytearray(data))

    def _append(self, name: str, data: bytearray) -> None:
        log, ledger = self._log(name), self.topics[name].ledger
        sent = Sent.at(data, ledger.end_offset, ledger.leader_epoch)
        ledger.offer(sent)
        try:
            base_offset = log.append(data, read_header(data), ledger.leader_epoch)
            if log.is_flush_wanted:
                log.flush()
        except StorageError:
            # One that is in the log although its flush failed has nobody who could read it.
            if log.log_end_offset == ledger.end_offset:
                ledger.refuse(sent)
            else:
                require(self.is_offline, "an append failed half way and the folder is in use")
            raise
        require(base_offset == sent.base_offset, f"{sent} was put at {base_offset}")
        ledger.acknowledge(sent, is_flushed=CONFIGS[name].flush_messages == 1)

    def elect(self, name: str) -> None:
        self.topics[name].ledger.leader_epoch += 1

    def roll(self, name: str) -> None:
        self._log(name).roll()

    def flush(self, name: str) -> None:
        self._log(name).flush()
        ledger = self.topics[name].ledger
        ledger.note_flush(ledger.end_offset)

    def flush_sealed(self, name: str) -> None:
        """What the flusher does after a roll, with records coming in meanwhile."""
        log = self._log(name)
        flush = log.begin_flush(sealed_only=True)
        self.append(name, NO_PRODUCER, 1)
        flush.run()
        log.end_flush(flush)
        self.topics[name].ledger.note_flush(flush.end_offset)

    def flush_slowly(self, name: str) -> None:
        """A flush that takes so long that the log is cut and grows again before it ends."""
        log = self._log(name)
        flush = log.begin_flush()
        self.truncate(name, 0.8)
        self.append(name, NO_PRODUCER, 1)
        flush.run()
        log.end_flush(flush)

    def checkpoint(self) -> None:
        self._dir.checkpoint()
        for name, topic in self.topics.items():
            log = self._log(name) if topic.is_certain else None
            # One that is where the first segment begins is not written down: the segment's name tells it.
            if log is not None and log.log_start_offset > first_file_offset(log):
                topic.ledger.durable_start = max(topic.ledger.durable_start, log.log_start_offset)

    def compact(self, name: str) -> None:
        """Roll, flush and compact all there is, as the cleaner does in a thread of its own."""
        log, ledger = self._log(name), self.topics[name].ledger
        if not ledger.is_compacted:
            return
        log.roll()
        self.flush(name)
        if dirt_of(log).dirty_bytes:
            compact(log, self.clock.time_ms)
            self._dir.checkpoint_cleaner()
        found = scan(self.fs, log)
        check_promise(log, found, ledger, is_lossy=False)
        ledger.held = found

    def delete_records(self, name: str, fraction: float) -> None:
        """As the request does: move the start, write it down, and let retention remove the files."""
        log, ledger = self._log(name), self.topics[name].ledger
        if ledger.is_compacted:
            return  # its policy does not allow it
        offset = log.log_start_offset + int(fraction * (log.log_end_offset - log.log_start_offset))
        ledger.start_offset = offset
        log.advance_log_start(offset)
        self.checkpoint()
        log.apply_retention(self.clock.time_ms)
        self._delete_files(name)

    def retain(self, name: str, size_bytes: int) -> None:
        """Let retention.bytes remove segments, perhaps all there are, with records coming in meanwhile."""
        self.retain_slowly(name, size_bytes)
        self.append(name, NO_PRODUCER, 1)
        self._delete_files(name)

    def retain_slowly(self, name: str, size_bytes: int) -> None:
        """Let segments leave while the thread has no time in which their files are renamed."""
        log, ledger = self._log(name), self.topics[name].ledger
        if ledger.is_compacted:
            return
        log.reconfigure(replace(CONFIGS[name], retention_bytes=size_bytes))
        ledger.start_offset = ledger.end_offset
        try:
            log.apply_retention(self.clock.time_ms)
        finally:
            log.reconfigure(CONFIGS[name])
        ledger.note_start(log.log_start_offset, 0)

    def sweep(self) -> None:
        """What that thread does when it has time: rename what left, remove what was renamed long ago."""
        for name, topic in self.topics.items():
            if topic.is_certain:
                self._delete_files(name)
        self._dir.remove_deleted_files()

    def _delete_files(self, name: str) -> None:
        log, ledger = self._log(name), self.topics[name].ledger
        is_deleting = log.folder.deletions.is_leaving(log.directory)
        delete_files(log)
        # What was deleted stays deleted: the names are gone for good when this returns.
        ledger.note_start(log.log_start_offset, log.segments[0].base_offset if is_deleting else 0)

    def truncate(self, name: str, fraction: float) -> None:
        """Cut as a follower does; what is cut may be above and below the recovery point and the log's start."""
        log, ledger, handovers = self._log(name), self.topics[name].ledger, self.topics[name].handovers
        first = log.segments[0].base_offset
        offset = first + int(fraction * (log.log_end_offset - first))
        if offset >= log.log_end_offset:
            return
        with ledger.refusable(lambda: self.is_offline):
            end_offset = ledger.begin_truncation(offset, first)
            if offset <= first:
                ledger.begin_restart()
                handovers.begin_at_start(offset)
            log.truncate_to(offset)
        if ledger.is_vanishing:
            ledger.restart(offset)
            handovers.end()
        ledger.end_truncation()
        require(log.log_end_offset == end_offset, f"cut at {offset}, the log ends at {log.log_end_offset}")
        self.check(name)

    def truncate_fully(self, name: str, move: int) -> None:
        """Begin again as a follower does whose log and its leader's have nothing in common."""
        ledger, handovers = self.topics[name].ledger, self.topics[name].handovers
        offset = max(0, ledger.end_offset + move)
        log = self._log(name)
        producers = handovers.begin(log, offset, self.clock.time_ms)
        with ledger.refusable(lambda: self.is_offline):
            ledger.begin_restart()
            log.truncate_fully(offset, producers)
        ledger.restart(offset)
        handovers.end()
        self.check(name)

    def reopen(self) -> None:
        """Stop cleanly and start: nothing is scanned and nothing is lost."""
        log_dir = self._dir
        self.log_dir = None  # a stop that fails is one as well
        log_dir.close()
        for name, topic in self.topics.items():
            if topic.is_certain:
                topic.ledger.note_flush(topic.ledger.end_offset)
                topic.ledger.note_start(topic.ledger.start_offset, log_dir.logs[name, 0].log_start_offset)
        self.start()
        require(self._dir.was_clean, "a clean stop was not seen as one")
        for name, topic in self.topics.items():
            if topic.is_certain:
                require((name, 0) in self._dir.logs, f"the topic {name} is lost")
        self.check()

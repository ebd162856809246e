"""A log does what a list does, whatever is done to it and however often it stops.

The model is a list of batches. A clean stop and a killed process must keep all of it; a power
loss must keep what was flushed, and a beginning of the rest. In memory everything can happen; on
the real disk everything but a power loss.
"""

import tempfile
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.unit.storage.workbench import AnyBench, FolderBench, Workbench

from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.records.compression import Compression
from tailrace.records.record import read_batches, read_records
from tailrace.storage.folder_check import check_partition
from tailrace.storage.fs import RealFileSystem
from tailrace.storage.log_config import LogConfig
from tailrace.storage.memory_fs import MemoryFileSystem

CONFIG = LogConfig(segment_bytes=500, index_interval_bytes=120, segment_ms=50, retention_ms=-1)
PRODUCER_ID = 3


class Batch(NamedTuple):
    """Where a batch stands, its values with their times, and who was the leader."""

    base_offset: int
    records: list[tuple[bytes, int]]
    epoch: int

    @property
    def end(self) -> int:
        return self.base_offset + len(self.records)


class LogMachine(RuleBasedStateMachine):
    """A log and its model. A subclass says where the files are."""

    can_lose_power = True

    def make_bench(self) -> AnyBench:
        raise NotImplementedError

    @property
    def memory(self) -> MemoryFileSystem:
        assert isinstance(self.bench.fs, MemoryFileSystem)
        return self.bench.fs

    @initialize(seed=st.integers(0, 2**32))
    def start(self, seed: int) -> None:
        self.bench = self.make_bench()
        if self.can_lose_power:
            self.memory.random = Random(seed)
        self.log = self.bench.open(CONFIG)
        self.batches: list[Batch] = []
        self.start_offset = 0
        self.end_offset = 0
        self.flushed_offset = 0
        self.epoch = 0
        self.counter = 0
        # The recovery point as a checkpoint would have it on the disk.
        self.checkpoint = 0
        self.log.on_truncation = self.write_checkpoint

    def write_checkpoint(self) -> None:
        self.checkpoint = self.log.recovery_point

    # Writing

    @rule(
        count=st.integers(1, 4),
        step_ms=st.integers(-5, 20),
        with_producer=st.booleans(),
        codec=st.sampled_from([Compression.NONE, Compression.NONE, Compression.LZ4]),
    )
    def append(self, count: int, step_ms: int, with_producer: bool, codec: Compression) -> None:
        self.bench.clock.time_ms += step_ms
        records = [(b"value %d" % (self.counter + number), self.bench.clock.time_ms) for number in range(count)]
        sequence = -1
        if with_producer:
            entry = self.log.producers.entries.get(PRODUCER_ID)
            sequence = entry.last_sequence + 1 if entry else 0
        data, header = self.bench.batch(
            *[value for value, _ in records],
            compression=codec,
            producer_id=PRODUCER_ID if with_producer else -1,
            producer_epoch=0 if with_producer else -1,
            base_sequence=sequence,
        )
        assert self.log.producers.check(header) is None
        assert self.log.append(data, header, self.epoch) == self.end_offset
        if with_producer:
            repeat = self.log.producers.check(header)
            assert repeat is not None
            assert repeat.base_offset == self.end_offset
        self.batches.append(Batch(self.end_offset, records, self.epoch))
        self.end_offset += count
        self.counter += count

    @rule()
    def elect(self) -> None:
        self.epoch += 1

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.flushed_offset = self.end_offset

    @rule(sealed_only=st.booleans())
    def flush_while_it_grows(self, sealed_only: bool) -> None:
        flush = self.log.begin_flush(sealed_only=sealed_only)
        self.append(1, 0, False, Compression.NONE)
        flush.run()
        self.log.end_flush(flush)
        self.flushed_offset = max(self.flushed_offset, flush.end_offset)

    @rule()
    def checkpoint_recovery_point(self) -> None:
        self.write_checkpoint()

    # Cutting

    @precondition(lambda self: self.end_offset > self.start_offset)
    @rule(fraction=st.floats(0, 1))
    def truncate(self, fraction: float) -> None:
        offset = self.start_offset + int(fraction * (self.end_offset - self.start_offset))
        kept = [batch for batch in self.batches if batch.end <= offset]
        if len(kept) < len(self.batches):
            self.end_offset = min(offset, self.batches[len(kept)].base_offset)
            self.start_offset = min(self.start_offset, self.end_offset)
        self.batches = kept
        self.flushed_offset = min(self.flushed_offset, self.end_offset)
        self.log.truncate_to(offset)

    @rule(move=st.integers(-5, 5))
    def begin_again(self, move: int) -> None:
        offset = max(0, self.end_offset + move)
        self.log.truncate_fully(offset)
        self.batches = []
        self.start_offset = self.end_offset = self.flushed_offset = offset
        assert not self.log.producers.entries

    @rule(fraction=st.floats(0, 1))
    def advance_start(self, fraction: float) -> None:
        self.start_offset += int(fraction * (self.end_offset - self.start_offset))
        self.log.advance_log_start(self.start_offset)
        self.log.apply_retention(0)

    @rule(size_bytes=st.integers(0, 1500))
    def retain(self, size_bytes: int) -> None:
        self.log.reconfigure(replace(CONFIG, retention_bytes=size_bytes))
        self.log.apply_retention(self.bench.clock.time_ms)
        self.log.reconfigure(CONFIG)
        # Whole segments go, none that would leave less than was asked for.
        assert self.start_offset <= self.log.log_start_offset <= self.end_offset
        self.start_offset = self.log.log_start_offset

    # Stopping and starting

    @rule()
    def reopen_cleanly(self) -> None:
        self.log.close()
        self.flushed_offset = self.checkpoint = self.end_offset
        self.reopen(is_clean=True)
        self.check_files()

    @rule()
    def kill(self) -> None:
        if self.can_lose_power:
            self.memory.kill()
        self.reopen(is_clean=False)
        self.check_files()

    @precondition(lambda self: self.can_lose_power)
    @rule()
    def lose_power(self) -> None:
        self.memory.lose_power()
        self.reopen(is_clean=False)
        # A log that lost its records down to below its start begins again there.
        assert self.flushed_offset <= self.log.log_end_offset <= self.end_offset
        self.end_offset = self.log.log_end_offset
        self.batches = [batch for batch in self.batches if batch.end <= self.end_offset]

    def reopen(self, *, is_clean: bool) -> None:
        self.log = self.bench.open(
            CONFIG, log_start_offset=self.start_offset, recovery_point=self.checkpoint, is_clean=is_clean
        )
        self.log.on_truncation = self.write_checkpoint

    def check_files(self) -> None:
        """The files agree with each other; a power loss may bring back a deleted segment without its indexes."""
        findings = check_partition(self.bench.fs, self.log.directory, lambda: None, lambda *_: None)
        assert [finding for finding in findings if finding.text != "missing"] == []

    # Looking

    @rule(
        fraction=st.floats(0, 1.2), size_bytes=st.integers(1, 2000), up_to=st.floats(0, 1), min_one_batch=st.booleans()
    )
    def read(self, fraction: float, size_bytes: int, up_to: float, min_one_batch: bool) -> None:
        offset = int(fraction * self.end_offset)
        up_to_offset = int(up_to * self.end_offset)
        if not self.start_offset <= offset <= self.end_offset:
            with pytest.raises(ApiError) as caught:
                self.log.read(offset, size_bytes, up_to_offset, min_one_batch)
            assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
            return
        data = self.log.read(offset, size_bytes, up_to_offset, min_one_batch)
        found = [(header.base_offset, [r.value for r in read_records(data, at)]) for at, header in read_batches(data)]
        possible = [batch for batch in self.batches if batch.end > offset and batch.end <= up_to_offset]
        assert found == [(batch.base_offset, [value for value, _ in batch.records]) for batch in possible][: len(found)]
        assert len(data) <= size_bytes or (min_one_batch and len(found) == 1)
        if min_one_batch and possible and possible[0].base_offset <= offset:
            assert found

    @rule(drift_ms=st.integers(-40, 10))
    def look_up_a_time(self, drift_ms: int) -> None:
        time_ms = self.bench.clock.time_ms + drift_ms
        expected = next(((time, offset) for offset, _, time in self.records() if time >= time_ms), None)
        found = self.log.offset_for_timestamp(time_ms)
        assert (found and tuple(found[:2])) == expected

    @invariant()
    def epochs_end_where_the_next_begins(self) -> None:
        if not hasattr(self, "log"):
            return
        visible = [batch for batch in self.batches if batch.end > self.start_offset]
        for batch in visible:
            later = [other.base_offset for other in visible if other.epoch > batch.epoch]
            end_offset = min(later, default=self.end_offset)
            if not later and self.log.latest_epoch > batch.epoch:
                continue  # the new leader has written nothing yet
            assert self.log.end_offset_for_epoch(batch.epoch) == (batch.epoch, end_offset)

    def records(self) -> list[tuple[int, bytes, int]]:
        """Offset, value and time of each record that a consumer sees."""
        return [
            (batch.base_offset + number, value, time_ms)
            for batch in self.batches
            for number, (value, time_ms) in enumerate(batch.records)
            if batch.base_offset + number >= self.start_offset
        ]

    @invariant()
    def the_log_is_the_list(self) -> None:
        if not hasattr(self, "log"):
            return
        expected = self.records()
        found = [(record.offset, record.value, record.timestamp) for record in self.bench.records(self.log)]
        assert found == expected
        assert self.log.log_start_offset == self.start_offset
        assert self.log.log_end_offset == self.end_offset
        assert self.log.recovery_point <= self.end_offset
        newest = max((time_ms for _, _, time_ms in expected), default=None)
        answer = self.log.max_timestamp_offset()
        assert (answer.timestamp if answer else None) == newest
        assert self.log.end_offset_for_epoch(self.log.latest_epoch)[1] in (self.end_offset, -1)


def run(machine: type[LogMachine], example_count: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=example_count, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


def test_a_log_in_memory_is_a_list() -> None:
    class MemoryMachine(LogMachine):
        def make_bench(self) -> AnyBench:
            return Workbench()

    run(MemoryMachine, 60)


def test_a_log_on_disk_is_a_list(tmp_path: Path) -> None:
    class DiskMachine(LogMachine):
        can_lose_power = False

        def make_bench(self) -> AnyBench:
            return FolderBench(RealFileSystem(), tempfile.mkdtemp(dir=tmp_path))

    run(DiskMachine, 15)

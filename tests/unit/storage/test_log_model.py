"""A log does what a list does, whatever is done to it and however often it stops.

The model is a list of batches, each a base offset and its values. A clean stop and a killed
process must keep all of it; a power loss must keep what was flushed, and a beginning of the
rest.
"""

from random import Random

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

from runnel.storage.folder_check import check_partition
from runnel.storage.log_config import LogConfig

CONFIG = LogConfig(segment_bytes=500, index_interval_bytes=120, segment_ms=50)
PRODUCER_ID = 3


def machine_for(make_bench) -> type[RuleBasedStateMachine]:
    class LogMachine(RuleBasedStateMachine):
        @initialize(seed=st.integers(0, 2**32))
        def start(self, seed: int) -> None:
            self.bench = make_bench()
            self.bench.fs.random = Random(seed)
            self.log = self.bench.open(CONFIG)
            self.batches: list[tuple[int, list[tuple[bytes, int]]]] = []
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

        @rule(count=st.integers(1, 4), step_ms=st.integers(-5, 20), with_producer=st.booleans())
        def append(self, count: int, step_ms: int, with_producer: bool) -> None:
            self.bench.clock.time_ms += step_ms
            values = [(b"value %d" % (self.counter + number), self.bench.clock.time_ms) for number in range(count)]
            sequence = -1
            if with_producer:
                entry = self.log.producers.entries.get(PRODUCER_ID)
                sequence = entry.last_sequence + 1 if entry else 0
            data, header = self.bench.batch(
                *[value for value, _ in values],
                producer_id=PRODUCER_ID if with_producer else -1,
                producer_epoch=0 if with_producer else -1,
                base_sequence=sequence,
            )
            assert self.log.producers.check(header) is None
            assert self.log.append(data, header, self.epoch) == self.end_offset
            if with_producer:
                assert self.log.producers.check(header) is not None
            self.batches.append((self.end_offset, values))
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

        @rule()
        def checkpoint_recovery_point(self) -> None:
            self.write_checkpoint()

        @precondition(lambda self: self.end_offset > self.start_offset)
        @rule(fraction=st.floats(0, 1))
        def truncate(self, fraction: float) -> None:
            offset = self.start_offset + int(fraction * (self.end_offset - self.start_offset))
            kept = [(base, values) for base, values in self.batches if base + len(values) <= offset]
            if len(kept) < len(self.batches):
                self.end_offset = min(offset, self.batches[len(kept)][0])
                self.start_offset = min(self.start_offset, self.end_offset)
            self.batches = kept
            self.flushed_offset = min(self.flushed_offset, self.end_offset)
            self.log.truncate_to(offset)

        @rule(fraction=st.floats(0, 1))
        def advance_start(self, fraction: float) -> None:
            self.start_offset += int(fraction * (self.end_offset - self.start_offset))
            self.log.advance_log_start(self.start_offset)
            self.log.apply_retention(0)

        @rule()
        def reopen_cleanly(self) -> None:
            self.log.close()
            self.flushed_offset = self.checkpoint = self.end_offset
            self.reopen(is_clean=True)
            self.check_files()

        @rule()
        def kill(self) -> None:
            self.bench.fs.kill()
            self.reopen(is_clean=False)
            self.check_files()

        @rule()
        def lose_power(self) -> None:
            self.bench.fs.lose_power()
            self.reopen(is_clean=False)
            assert self.flushed_offset <= self.log.log_end_offset <= self.end_offset
            self.end_offset = self.log.log_end_offset
            # A log that lost its records down to below its start begins again there.
            self.batches = [(base, values) for base, values in self.batches if base + len(values) <= self.end_offset]

        def reopen(self, *, is_clean: bool) -> None:
            self.log = self.bench.open(
                CONFIG, log_start_offset=self.start_offset, recovery_point=self.checkpoint, is_clean=is_clean
            )
            self.log.on_truncation = self.write_checkpoint

        def check_files(self) -> None:
            """The files agree with each other; a power loss may bring back a deleted segment without its indexes."""
            findings = check_partition(self.bench.fs, self.log.directory, lambda: None, lambda *_: None)
            assert [finding for finding in findings if finding.text != "missing"] == []

        @invariant()
        def the_log_is_the_list(self) -> None:
            if not hasattr(self, "log"):
                return
            expected = [
                (base + number, value, time_ms)
                for base, values in self.batches
                for number, (value, time_ms) in enumerate(values)
                if base + number >= self.start_offset
            ]
            records = [(record.offset, record.value, record.timestamp) for record in self.bench.records(self.log)]
            assert records == expected
            assert self.log.log_start_offset == self.start_offset
            assert self.log.log_end_offset == self.end_offset
            assert self.log.recovery_point <= self.end_offset
            newest = max((time_ms for _, _, time_ms in expected), default=None)
            found = self.log.max_timestamp_offset()
            assert (found.timestamp if found else None) == newest
            if newest is not None:
                first = next(offset for offset, _, time_ms in expected if time_ms >= newest)
                assert self.log.offset_for_timestamp(newest)[:2] == (newest, first)
            assert self.log.end_offset_for_epoch(self.log.latest_epoch)[1] in (self.end_offset, -1)

    return LogMachine


def test_a_log_is_a_list(make_bench) -> None:
    run_state_machine_as_test(
        machine_for(make_bench),
        settings=settings(
            max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )

"""A log with transactions, whatever happens to it: cut, killed, without power, opened again.

Readers of committed records see exactly these, from any offset and in pieces of any size. Producers are known as they
were, and who comes too late is refused. The judge is a plain list of what was written.
"""

from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from tests.unit.storage.transaction_oracle import Oracle, Producer, Written
from tests.unit.storage.workbench import Workbench

from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.records.batch import BatchHeader, read_header
from tailrace.records.control import ControlType, EndTransactionMarker, build_end_transaction_marker
from tailrace.records.record import read_batches, read_records
from tailrace.records.transaction_filter import TransactionFilter
from tailrace.storage.folder_check import check_partition
from tailrace.storage.log_config import LogConfig
from tailrace.storage.producer_replay import recall_batches

CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=120, retention_ms=-1, producer_id_expiration_ms=2**60)
PRODUCER_IDS = st.integers(1, 3)


class TransactionLogMachine(RuleBasedStateMachine):
    """A log and the list of what it holds."""

    @initialize(seed=st.integers(0, 2**32))
    def start(self, seed: int) -> None:
        self.bench = Workbench()
        self.bench.fs.random = Random(seed)
        self.log = self.bench.open(CONFIG)
        self.batches: list[Written] = []
        self.high_watermark = 0
        self.flushed_offset = 0
        self.checkpoint = 0
        self.coordinator_epoch = 1
        self.has_lost_power = False
        self.log.on_truncation = self.write_checkpoint
        self.oracle = Oracle([])

    def write_checkpoint(self) -> None:
        self.checkpoint = self.log.checkpoint_offset

    @property
    def end_offset(self) -> int:
        return self.batches[-1].end if self.batches else 0

    def producer(self, producer_id: int) -> Producer:
        return self.oracle.producers.get(producer_id, Producer(epoch=0))

    def took_in(self, batch: Written, data: bytearray, header: BatchHeader) -> None:
        assert self.log.append(data, header, 0) == batch.base_offset
        self.batches.append(batch)
        self.oracle = Oracle(self.batches)

    # What producers and coordinators write.

    @rule(producer_id=PRODUCER_IDS, count=st.integers(1, 3), transactional=st.booleans(), raises=st.booleans())
    def write(self, producer_id: int, count: int, transactional: bool, raises: bool) -> None:
        """`raises` is another producer of the same transactional id; what the older one left open must be over."""
        producer = self.producer(producer_id)
        is_open = producer.open_offset >= 0
        epoch, sequence = producer.epoch, producer.next_sequence
        if raises and not is_open:
            epoch, sequence = epoch + 1, 0
        batch = Written(self.end_offset, count, producer_id, epoch, sequence, transactional)
        data, header = self.batch(batch)
        if is_open and not transactional:
            self.refused(header, ErrorCode.INVALID_TXN_STATE)
        else:
            assert self.log.producers.check(header) is None
            self.took_in(batch, data, header)

    @rule(producer_id=PRODUCER_IDS, commits=st.booleans(), raises=st.booleans(), elected=st.booleans())
    def end(self, producer_id: int, commits: bool, raises: bool, elected: bool) -> None:
        """`raises` is an end of KIP-890, `elected` one that comes from another coordinator."""
        self.coordinator_epoch += elected
        epoch = self.producer(producer_id).epoch + raises
        self.log.producers.check_marker(
            producer_id, epoch, coordinator_epoch=self.coordinator_epoch, transaction_version=2 if raises else 0
        )
        marker = EndTransactionMarker(ControlType.COMMIT if commits else ControlType.ABORT, self.coordinator_epoch)
        data = bytearray(
            build_end_transaction_marker(
                marker, producer_id=producer_id, producer_epoch=epoch, timestamp_ms=self.bench.clock.time_ms
            )
        )
        batch = Written(self.end_offset, 1, producer_id, epoch, -1, True, commits, self.coordinator_epoch)
        self.took_in(batch, data, read_header(data))

    def batch(self, batch: Written) -> tuple[bytearray, BatchHeader]:
        values = [b"%d" % offset for offset in range(batch.base_offset, batch.end)]
        return self.bench.batch(
            *values,
            producer_id=batch.producer_id,
            producer_epoch=batch.epoch,
            base_sequence=batch.sequence,
            is_transactional=batch.is_transactional,
        )

    # Who is refused.

    def refused(self, header: BatchHeader, code: ErrorCode) -> None:
        with pytest.raises(ApiError) as caught:
            self.log.producers.check(header)
        assert caught.value.code is code

    @rule(producer_id=PRODUCER_IDS, skipped=st.integers(1, 9))
    def write_out_of_order(self, producer_id: int, skipped: int) -> None:
        if producer_id not in self.oracle.producers:
            return
        producer = self.producer(producer_id)
        wrong = Written(0, 1, producer_id, producer.epoch, producer.next_sequence + skipped, True)
        self.refused(self.batch(wrong)[1], ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        wrong = Written(0, 1, producer_id, producer.epoch + 1, skipped, True)
        self.refused(self.batch(wrong)[1], ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)

    @rule(producer_id=PRODUCER_IDS)
    def come_too_late(self, producer_id: int) -> None:
        producer = self.producer(producer_id)
        if producer_id not in self.oracle.producers or producer.epoch == 0:
            return
        self.refused(
            self.batch(Written(0, 1, producer_id, producer.epoch - 1, 0, True))[1], ErrorCode.INVALID_PRODUCER_EPOCH
        )
        self.marker_refused(producer_id, producer.epoch - 1, self.coordinator_epoch, ErrorCode.INVALID_PRODUCER_EPOCH)
        if producer.open_offset >= 0:
            # In the second generation no end has the epoch of what it ends.
            self.marker_refused(producer_id, producer.epoch, self.coordinator_epoch, ErrorCode.INVALID_PRODUCER_EPOCH)
        older = producer.coordinator_epoch - 1
        if older >= 0:
            self.marker_refused(producer_id, producer.epoch + 1, older, ErrorCode.TRANSACTION_COORDINATOR_FENCED)

    def marker_refused(self, producer_id: int, epoch: int, coordinator_epoch: int, code: ErrorCode) -> None:
        with pytest.raises(ApiError) as caught:
            self.log.producers.check_marker(
                producer_id, epoch, coordinator_epoch=coordinator_epoch, transaction_version=2
            )
        assert caught.value.code is code

    @rule(producer_id=PRODUCER_IDS, index=st.integers(0, 4))
    def repeat(self, producer_id: int, index: int) -> None:
        """One of the last five batches, which is answered with its offset."""
        producer = self.producer(producer_id)
        if not producer.batches:
            return
        batch = producer.batches[index % len(producer.batches)]
        header = self.batch(batch)[1]
        try:
            duplicate = self.log.producers.check(header)
        except ApiError:
            assert recall_batches(self.log.producers, self.log.segments)
            duplicate = self.log.producers.check(header)
        assert duplicate is not None
        assert (duplicate.base_offset, duplicate.last_offset) == (batch.base_offset, batch.end - 1)

    # What happens to the log.

    @rule(fraction=st.floats(0, 1))
    def replicate(self, fraction: float) -> None:
        reached = self.high_watermark + int(fraction * (self.end_offset - self.high_watermark))
        self.high_watermark = max((batch.end for batch in self.batches if batch.end <= reached), default=0)
        self.log.producers.acknowledge(self.high_watermark)

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.flushed_offset = self.end_offset
        self.write_checkpoint()

    @rule(fraction=st.floats(0, 1))
    def truncate(self, fraction: float) -> None:
        """Down to the high watermark at most, as a follower."""
        offset = self.high_watermark + int(fraction * (self.end_offset - self.high_watermark))
        self.keep([batch for batch in self.batches if batch.end <= offset])
        self.log.truncate_to(offset)

    def keep(self, batches: list[Written]) -> None:
        self.batches = batches
        self.oracle = Oracle(batches)
        self.flushed_offset = min(self.flushed_offset, self.end_offset)
        self.high_watermark = min(self.high_watermark, self.end_offset)

    @rule(is_clean=st.booleans())
    def restart(self, is_clean: bool) -> None:
        if is_clean:
            self.log.close()
            self.flushed_offset = self.checkpoint = self.end_offset
        else:
            self.bench.fs.kill()
        self.reopen(is_clean=is_clean)
        # A power loss may leave a snapshot without its bytes, which is found out when somebody wants it.
        findings = check_partition(self.bench.fs, self.log.directory, lambda: None, lambda *_: None)
        assert self.has_lost_power or findings == []

    @rule()
    def lose_power(self) -> None:
        self.has_lost_power = True
        self.bench.fs.lose_power()
        self.reopen(is_clean=False)

    def reopen(self, *, is_clean: bool) -> None:
        self.log = self.bench.open(CONFIG, recovery_point=self.checkpoint, is_clean=is_clean)
        self.log.on_truncation = self.write_checkpoint
        assert self.flushed_offset <= self.log.log_end_offset <= self.end_offset
        self.keep([batch for batch in self.batches if batch.end <= self.log.log_end_offset])
        # A leader that starts alone has nobody to wait for.
        self.high_watermark = self.end_offset

    # What always holds.

    @invariant()
    def producers_are_known(self) -> None:
        found = {
            entry.producer_id: (entry.producer_epoch, entry.current_txn_first_offset, entry.coordinator_epoch)
            for entry in self.log.producers.entries.values()
        }
        assert found == {
            producer_id: (producer.epoch, producer.open_offset, producer.coordinator_epoch)
            for producer_id, producer in self.oracle.producers.items()
        }
        for producer_id, producer in self.oracle.producers.items():
            assert self.log.producers.entries[producer_id].last_sequence == producer.next_sequence - 1

    @invariant()
    def what_is_stable_is_stable(self) -> None:
        assert self.log.last_stable_offset(self.high_watermark) == self.oracle.last_stable_offset(self.high_watermark)

    @rule(fraction=st.floats(0, 1), size_bytes=st.integers(1, 900))
    def read_committed(self, fraction: float, size_bytes: int) -> None:
        up_to = self.log.last_stable_offset(self.high_watermark)
        start = offset = int(fraction * up_to)
        seen: list[int] = []
        while offset < up_to:
            found = self.log.locate(offset, size_bytes, up_to, min_one_batch=True)
            data = found.read()
            hidden = TransactionFilter(self.log.aborted_in(offset, found))
            batches = list(read_batches(data))
            assert batches, f"nothing at {offset} below {up_to}"
            for position, header in batches:
                if not hidden.hides(data, position, header):
                    seen += [record.offset for record in read_records(data, position) if record.offset >= start]
                offset = header.next_offset
        assert seen == self.oracle.committed(start, up_to)


def test_a_log_with_transactions_is_what_was_written() -> None:
    run_state_machine_as_test(
        TransactionLogMachine,
        settings=settings(
            max_examples=30,
            stateful_step_count=40,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )

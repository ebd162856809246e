"""Random producers, time, lost answers and crashes: what is promised holds, and the log alone brings everything back.

The coordinator is the real one, and so is the producer state of each partition. The model knows which transaction
every record belongs to, who has been answered what, and which producers have been replaced.
"""

from collections.abc import Callable
from typing import TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.unit.machines.transaction.transaction_partition import ModelPartition
from tests.unit.machines.transaction.transaction_script import ID, ORDERS, TIMEOUT_MS, TOTALS, TransactionScript

from tailrace.machines.transaction.coordinator import TransactionCoordinator
from tailrace.machines.transaction.decision import EndMarkers
from tailrace.machines.transaction.record import TRANSACTION_RECORDS
from tailrace.machines.transaction.setting import TransactionSetting
from tailrace.machines.transaction.state import EMPTY, ONGOING, PREPARED
from tailrace.machines.transaction.transaction import (
    CLIENT_VERSION_1,
    CLIENT_VERSION_2,
    PRODUCER_EPOCH_MAX,
    Identity,
)
from tailrace.protocol.errors import ErrorCode

T = TypeVar("T")

PARTITIONS = [ORDERS, TOTALS, ("orders", 1)]
SOME_PARTITION = st.sampled_from(PARTITIONS)
SOME_INDEX = st.integers(0, 7)
CRASHES = st.sampled_from(["no", "no", "no", "answer lost", "record lost"])
NONE = ErrorCode.NONE


class TransactionModel(RuleBasedStateMachine):
    """One transactional id in a world where everything goes wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.script = TransactionScript(TransactionSetting(is_two_phase_enabled=True))
        self.logs = {partition: ModelPartition() for partition in PARTITIONS}
        self.issued: list[Identity] = []
        self.replaced: set[Identity] = set()
        self.outstanding: list[EndMarkers] = []
        self.old_markers: list[EndMarkers] = []
        self.serial = 0
        self.decided: dict[int, bool] = {}
        self.last_outcome = False
        self.state = EMPTY

    @initialize(epoch=st.sampled_from([0, PRODUCER_EPOCH_MAX - 3]), version=st.sampled_from([4, 5]))
    def begin(self, epoch: int, version: int) -> None:
        self.end_version = version
        self.client_version = CLIENT_VERSION_1 if version == 4 else CLIENT_VERSION_2
        self.issued.append(self.script.place(producer_epoch=epoch).identity)

    # How a step may end.

    def step(self, crash: str, act: Callable[[], T]) -> tuple[T | None, bool]:
        """Do something that may write; its answer if that arrives, and whether records were written."""
        size = len(self.script.log)
        answer = act()
        wrote = len(self.script.log) > size
        if crash == "record lost":
            # The broker was replaced before the records were committed: nobody has heard of them.
            del self.script.log[size:]
            self.script.take_markers()
            self.restart()
            return None, False
        self.follow()
        if crash == "answer lost":
            self.restart()
            return None, wrote
        return answer, wrote

    def restart(self) -> None:
        self.old_markers += self.outstanding
        self.script.restart()
        self.script.take_records()
        self.outstanding = self.script.take_markers()

    def follow(self) -> None:
        """Note which transactions began, and how they were decided."""
        for transaction in self.script.take_transactions():
            assert transaction is not None
            if transaction.state is ONGOING and self.state is not ONGOING:
                self.serial += 1
            elif transaction.state in PREPARED:
                self.last_outcome = transaction.is_commit
                if self.state is ONGOING:
                    self.decided[self.serial] = transaction.is_commit
            self.state = transaction.state
        self.outstanding += self.script.take_markers()

    def some_producer(self, index: int) -> Identity:
        """Mostly one of the newest."""
        return self.issued[-1 - index % len(self.issued)]

    # What producers do.

    @rule(crash=CRASHES, keep=st.booleans(), two_phase=st.booleans())
    def another_producer(self, crash: str, keep: bool, two_phase: bool) -> None:
        answer, _ = self.step(crash, lambda: self.script.init(keep_prepared=keep, two_phase=two_phase))
        if answer is not None and answer.error_code == NONE:
            new = Identity(answer.producer_id, answer.producer_epoch)
            assert new not in self.issued
            self.replaced |= set(self.issued)
            self.issued.append(new)

    @rule(crash=CRASHES, index=SOME_INDEX)
    def the_same_producer(self, crash: str, index: int) -> None:
        old = self.some_producer(index)
        answer, wrote = self.step(crash, lambda: self.script.init(old))
        assert not (wrote and old in self.replaced)
        if answer is not None and answer.error_code == NONE:
            self.issued.append(Identity(answer.producer_id, answer.producer_epoch))

    @rule(crash=CRASHES, index=SOME_INDEX, partition=SOME_PARTITION)
    def add(self, crash: str, index: int, partition: tuple[str, int]) -> None:
        identity = self.some_producer(index)
        code, wrote = self.step(crash, lambda: self.script.add(identity, partition, client_version=self.client_version))
        assert not (wrote and identity in self.replaced)
        assert code is not NONE or identity not in self.replaced

    @rule(index=SOME_INDEX, partition=SOME_PARTITION)
    def write(self, index: int, partition: tuple[str, int]) -> None:
        identity = self.some_producer(index)
        if self.script.verify(identity, partition) == [NONE]:
            assert self.logs[partition].write(identity, self.serial)

    @rule(crash=CRASHES, index=SOME_INDEX, commit=st.booleans())
    def end(self, crash: str, index: int, commit: bool) -> None:
        identity = self.some_producer(index)
        before = self.state
        answer, wrote = self.step(crash, lambda: self.script.end(identity, commit=commit, version=self.end_version))
        assert not (wrote and identity in self.replaced)
        if answer is None or answer.error_code != NONE:
            return
        assert self.last_outcome is commit
        assert wrote or before is not ONGOING
        if self.end_version >= 5:
            self.issued.append(Identity(answer.producer_id, answer.producer_epoch))

    # What the world does.

    @rule(index=SOME_INDEX, partition=SOME_PARTITION, is_heard=st.booleans())
    def deliver(self, index: int, partition: tuple[str, int], is_heard: bool) -> None:
        if not self.outstanding:
            return
        markers = self.outstanding[index % len(self.outstanding)]
        if partition in markers.partitions:
            assert self.logs[partition].end(markers)
            if is_heard:
                self.confirm(markers, partition)

    def confirm(self, markers: EndMarkers, partition: tuple[str, int]) -> None:
        self.script.confirm(markers, [partition])
        self.follow()
        if self.state not in PREPARED and markers in self.outstanding:
            self.outstanding.remove(markers)
            self.old_markers.append(markers)

    @rule(index=SOME_INDEX, partition=SOME_PARTITION)
    def deliver_late(self, index: int, partition: tuple[str, int]) -> None:
        """A marker that was thought lost. In the first generation nothing would tell it from one of the next end."""
        late = [markers for markers in self.old_markers if markers.transaction_version >= CLIENT_VERSION_2]
        if late:
            markers = late[-1 - index % len(late)]
            if partition in markers.partitions:
                self.logs[partition].end(markers)

    @rule(duration_ms=st.sampled_from([1, 20_000, 3 * TIMEOUT_MS]))
    def pass_time(self, duration_ms: int) -> None:
        before = self.script.transaction
        self.script.pass_time(duration_ms)
        self.follow()
        if before.state is ONGOING and before.is_two_phase:
            assert self.state is ONGOING

    @rule()
    def crash(self) -> None:
        self.restart()

    # What always holds.

    @invariant()
    def every_partition_ends_as_it_was_decided(self) -> None:
        for log in self.logs.values():
            for serial, is_commit in log.outcomes.items():
                assert self.decided[serial] is is_commit

    @invariant()
    def nothing_hangs(self) -> None:
        """What is open in a log is the newest transaction, and its coordinator knows of that partition."""
        for partition, log in self.logs.items():
            assert log.open_producers == set(log.open_serials)
            for serial in log.open_serials.values():
                assert serial == self.serial
                assert self.state is ONGOING or self.state in PREPARED
                assert partition in self.script.transaction.partitions

    @invariant()
    def the_log_is_everything(self) -> None:
        again = TransactionCoordinator(self.script.setting, 0, lambda: 0)
        for key, value in self.script.log:
            again.replay(TRANSACTION_RECORDS.decode(key, value))
        assert again.transactions == self.script.machine.transactions
        if self.state is not EMPTY:
            last = again.transactions[ID].last_producer_epoch
            assert last in (self.script.transaction.last_producer_epoch, -1)

    def teardown(self) -> None:
        """In the end every marker arrives, and only what is undecided is open."""
        for markers in list(self.outstanding):
            for partition in sorted(markers.partitions):
                assert self.logs[partition].end(markers)
                self.confirm(markers, partition)
        assert self.state not in PREPARED
        assert self.outstanding == []
        if self.state is not ONGOING:
            assert all(not log.open_producers for log in self.logs.values())


TestTransactionModel = TransactionModel.TestCase
TestTransactionModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None, derandomize=True)

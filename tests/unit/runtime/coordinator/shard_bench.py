"""A coordinator that counts, on a partition in memory: the machine, the format and the bench of the shard's tests."""

from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from tests.unit.runtime.test_partition_role import Bench as PartitionBench

from tailrace.machines.decision import Decision, Timer, Token
from tailrace.machines.log_record import CorruptRecord, UnknownRecord
from tailrace.protocol.messages.producer import InitProducerIdResponse
from tailrace.protocol.primitive import Buffer
from tailrace.records.compression import Compression
from tailrace.runtime.coordinator.log import CoordinatorLog
from tailrace.runtime.coordinator.shard import Answer, CoordinatorShard

ACKNOWLEDGEMENT_TIMEOUT_MS = 60_000


class Add(NamedTuple):
    """A record of the counting coordinator: a name, and how much is added to its count; None forgets it."""

    name: str
    amount: int | None


class AddFormat:
    """Records as text."""

    def encode(self, record: Add) -> tuple[bytes, bytes | None]:
        return record.name.encode(), None if record.amount is None else b"%d" % record.amount

    def decode(self, key: Buffer, value: Buffer | None) -> Add:
        name = bytes(key).decode()
        if name == "unknown":
            raise UnknownRecord("a kind of a later version")
        if name == "corrupt":
            raise CorruptRecord("no name")
        return Add(name, None if value is None else int(bytes(value)))


class CountMachine:
    """Counts what was added to each name, and answers with the count as a producer id."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.waiting: list[Token] = []
        self.fired: list[tuple[str, ...]] = []
        self.loaded_ms: int | None = None
        self.failure: Exception | None = None

    def replay(self, record: Add) -> None:
        if self.failure is not None:
            raise self.failure
        if record.amount is None:
            self.counts.pop(record.name, None)
        else:
            self.counts[record.name] = record.amount

    def decide_add(self, token: Token, name: str, amount: int) -> Decision[Add]:
        decision: Decision[Add] = Decision([Add(name, self.counts.get(name, 0) + amount)])
        return decision.reply(token, InitProducerIdResponse(producer_id=self.counts.get(name, 0) + amount))

    def on_timer(self, _now_ms: int, key: tuple[str, ...]) -> Decision[Add]:
        self.fired.append(key)
        return Decision([Add("timer", len(self.fired))])

    def on_loaded(self, now_ms: int) -> Decision[Add]:
        self.loaded_ms = now_ms
        return Decision()

    def on_unloaded(self) -> Decision[Add]:
        decision: Decision[Add] = Decision()
        for token in self.waiting:
            decision.reply(token, InitProducerIdResponse(error_code=16))
        return decision


class Counters:
    """Takes down what a shard tells."""

    def __init__(self) -> None:
        self.loads: list[tuple[str, int]] = []
        self.writes: list[tuple[Sequence[Add], tuple[str, ...] | None]] = []

    def loaded(self, _machine: CountMachine, name: str, record_count: int, _duration_ms: int) -> None:
        self.loads.append((name, record_count))

    def wrote(self, _machine: CountMachine, records: Sequence[Add], timer_key: tuple[str, ...] | None) -> None:
        self.writes.append((list(records), timer_key))


class ShardBench(PartitionBench):
    """A shard on broker 1's replica of a partition with replicas on 1, 2 and 3."""

    def __init__(self, *, isr: tuple[int, ...] = (1,), epoch: int = 0, read_bytes: int = 2**20, **configs: str) -> None:
        super().__init__(high_watermark=0, **configs)
        self.lead(epoch, isr)
        self.machine, self.counters = CountMachine(), Counters()
        self.timers: dict[Hashable, int | None] = {}
        self.worker = ThreadPoolExecutor(1)
        self.log = CoordinatorLog(self.partition, AddFormat(), Compression.NONE, read_bytes, self.worker)
        self.shard = self.new_shard()

    def new_shard(self) -> CoordinatorShard[CountMachine, Add]:
        """A shard with a machine that knows nothing yet."""
        self.machine = CountMachine()
        return CoordinatorShard(
            self.machine, self.log, self.clock, self._set_timer, self.counters, ACKNOWLEDGEMENT_TIMEOUT_MS
        )

    def _set_timer(self, _shard: object, timer: Timer) -> None:
        self.timers[timer.key] = timer.at_ms

    def add(self, name: str, amount: int) -> Answer:
        return self.shard.ask(lambda machine, _now_ms, token: machine.decide_add(token, name, amount))

    def ask(self, decide: Callable[[CountMachine, int, Token], Decision[Add]]) -> Answer:
        return self.shard.ask(decide)

"""What a broker tells of transactions: what becomes of them, which are open, and whose ends are late.

What Kafka has it has in three places, and its names are kept: how long it took to load
(`transaction-coordinator-metrics`), what keeps markers from being written (`TransactionMarkerChannelManager`), and the
producers that logs remember (`ReplicaManager`). Kafka does not count transactions, so those names are ours. Nothing is
counted for each record, and a transaction costs two steps of a counter.
"""

import logging
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Sequence

from runnel.base.clock import Clock
from runnel.base.limits import TRANSACTION_END_LATE_MS, TRANSACTION_LATE_MS
from runnel.base.metric import Reading, Registry
from runnel.config.broker import BrokerConfig
from runnel.machines.transaction.coordinator import TransactionCoordinator
from runnel.machines.transaction.decision import TransactionEvent
from runnel.machines.transaction.record import TransactionRecord
from runnel.machines.transaction.state import STORED_STATES
from runnel.runtime.partition import Partition

log = logging.getLogger("runnel.runtime")

COORDINATOR = "kafka_server_transaction_coordinator_metrics"
MARKER = "kafka_coordinator_transaction_transactionmarkerchannelmanager"
REPLICA = "kafka_server_replicamanager"
TRANSACTION = "runnel_transaction"
TRANSACTIONAL_ID = "runnel_transactional_id"
LOAD_BOUNDS_MS = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000)

ABORT_CAUSES = {
    TransactionEvent.ABORTED: "client",
    TransactionEvent.TIMED_OUT: "timeout",
    TransactionEvent.REPLACED: "fenced",
}


class TransactionCounters:
    """What coordinators have decided since the broker started, counted when it is written."""

    def __init__(self, registry: Registry) -> None:
        counter = registry.counter
        begun = counter(f"{TRANSACTION}_begun_count", "Transactions that got their first partition.")
        committed = counter(f"{TRANSACTION}_committed_count", "Transactions that were decided to be committed.")
        aborted = counter(f"{TRANSACTION}_aborted_count", "Transactions that were aborted, by the cause.", ("cause",))
        fenced = counter(
            f"{TRANSACTION}_fenced_request_count",
            "Requests to coordinators that were refused because a later producer has the transactional id.",
        )
        self._expirations = counter(f"{TRANSACTIONAL_ID}_expired_count", "Transactional ids that were forgotten.")
        self._events = {
            TransactionEvent.BEGUN: (begun, ()),
            TransactionEvent.COMMITTED: (committed, ()),
            TransactionEvent.FENCED: (fenced, ()),
            **{event: (aborted, (cause,)) for event, cause in ABORT_CAUSES.items()},
        }
        for cause in ABORT_CAUSES.values():
            aborted.add(0, (cause,))  # there from the start, so that the first step is seen as one
        self._load_ms = registry.histogram(
            f"{COORDINATOR}_partition_load_time_ms",
            "How long it took to load the transactional ids of one partition of __transaction_state.",
            LOAD_BOUNDS_MS,
        )

    def happened(self, event: TransactionEvent) -> None:
        """Count what was decided and, if it called for records, written."""
        counter, labels = self._events[event]
        counter.add(1, labels)

    def loaded(self, machine: TransactionCoordinator, name: str, record_count: int, duration_ms: int) -> None:
        """Take down how long it took to load the transactional ids of a partition."""
        self._load_ms.observe(duration_ms)
        if record_count:
            count = len(machine.transactions)
            log.info("%s: %d records loaded, %d transactional ids, %d ms", name, record_count, count, duration_ms)

    def wrote(
        self,
        machine: TransactionCoordinator,  # noqa: ARG002
        records: Sequence[TransactionRecord],
        timer_key: tuple[str, ...] | None,
    ) -> None:
        """Count the transactional ids that are forgotten, which only time calls for."""
        if timer_key is not None:
            self._expirations.add(sum(record.transaction is None for record in records))


class TransactionGauges:
    """What there is at the moment, read from the coordinators whenever somebody asks."""

    def __init__(
        self,
        registry: Registry,
        machines: Callable[[], Iterable[TransactionCoordinator]],
        clock: Clock,
        unled_count: Callable[[], int],
    ) -> None:
        """`machines` gives the coordinators that are loaded, `unled_count` the markers that wait for a leader."""
        self._machines = machines
        self._clock = clock
        gauge = registry.gauge
        gauge(f"{TRANSACTIONAL_ID}_count", "Transactional ids by state.", self._by_state, ("state",))
        gauge(
            f"{TRANSACTION}_open_count",
            "Transactions that are open.",
            lambda: self._sum(lambda machine: machine.open_count),
        )
        gauge(f"{TRANSACTION}_open_age_max_ms", "For how long the oldest of them has been open.", self._open_age_max_ms)
        gauge(
            f"{TRANSACTION}_late_end_count",
            "Transactions that were decided a while ago and do not have all of their markers yet.",
            self._late_end_count,
        )
        gauge(
            f"{MARKER}_unknowndestinationqueuesize",
            "Markers that wait for their partition to have a leader.",
            lambda: [((), unled_count())],
        )
        gauge(
            f"{MARKER}_logappendretryqueuesize",
            "Transactions that have all of their markers, which could not be written down yet.",
            lambda: self._sum(lambda machine: machine.unwritten_count),
        )

    def _sum(self, count: Callable[[TransactionCoordinator], int]) -> Reading:
        return [((), sum(map(count, self._machines())))]

    def _by_state(self) -> Reading:
        tally = Tally(each.state for machine in self._machines() for each in machine.transactions.values())
        return [((state.title,), tally[state]) for state in sorted(STORED_STATES)]

    def _open_age_max_ms(self) -> Reading:
        starts_ms = [machine.oldest_start_ms for machine in self._machines()]
        now_ms = self._clock.now_ms()
        return [((), max((now_ms - start_ms for start_ms in starts_ms if start_ms is not None), default=0))]

    def _late_end_count(self) -> Reading:
        before_ms = self._clock.now_ms() - TRANSACTION_END_LATE_MS
        return self._sum(lambda machine: machine.late_end_count(before_ms))


class ProducerGauges:
    """What logs remember of producers, whoever coordinates their transactions."""

    def __init__(
        self,
        registry: Registry,
        partitions: Callable[[], Sequence[Partition]],
        clock: Clock,
        config: Callable[[], BrokerConfig],
    ) -> None:
        self._partitions = partitions
        self._clock = clock
        self._config = config
        registry.gauge(
            f"{REPLICA}_produceridcount",
            "Producer ids that the partitions of this broker remember.",
            lambda: [((), sum(len(partition.log.producers.entries) for partition in self._partitions()))],
        )
        registry.gauge(
            f"{REPLICA}_partitionswithlatetransactionscount",
            "Partitions led by this broker with a transaction that should long have been ended.",
            lambda: [((), sum(self._has_late_transaction(partition) for partition in self._partitions()))],
        )

    def _has_late_transaction(self, partition: Partition) -> bool:
        """Whether a transaction holds back readers for so long that its coordinator seems to know nothing of it."""
        oldest = partition.log.producers.oldest_open()
        if oldest is None or oldest.last_timestamp < 0 or not partition.is_leader:
            return False
        age_max_ms = self._config().transaction_max_timeout_ms + TRANSACTION_LATE_MS
        return self._clock.now_ms() - oldest.last_timestamp > age_max_ms

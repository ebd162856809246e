"""Metrics of transactions: their outcomes, the open ones, and those whose markers are late.

Metrics that Kafka has keep Kafka's names: load times (`transaction-coordinator-metrics`), markers that cannot be
written (`TransactionMarkerChannelManager`), and the producers that logs remember (`ReplicaManager`). Kafka does not
count transactions, so those names are Tailrace's own. Nothing is counted for each record; a transaction costs two
increments.
"""

import logging
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Sequence

from tailrace.base.clock import Clock
from tailrace.base.limits import TRANSACTION_END_LATE_MS, TRANSACTION_LATE_MS
from tailrace.base.metric import Reading, Registry
from tailrace.config.broker import BrokerConfig
from tailrace.machines.transaction.coordinator import TransactionCoordinator
from tailrace.machines.transaction.decision import TransactionEvent
from tailrace.machines.transaction.record import TransactionRecord
from tailrace.machines.transaction.state import STORED_STATES
from tailrace.runtime.partition import Partition

log = logging.getLogger("tailrace.runtime")

COORDINATOR = "kafka_server_transaction_coordinator_metrics"
MARKER = "kafka_coordinator_transaction_transactionmarkerchannelmanager"
REPLICA = "kafka_server_replicamanager"
TRANSACTION = "tailrace_transaction"
TRANSACTIONAL_ID = "tailrace_transactional_id"
LOAD_BOUNDS_MS = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000)

ABORT_CAUSES = {
    TransactionEvent.ABORTED: "client",
    TransactionEvent.TIMED_OUT: "timeout",
    TransactionEvent.REPLACED: "fenced",
}


class TransactionCounters:
    """Counters of the coordinators' decisions since the broker started, raised when a decision is written."""

    def __init__(self, registry: Registry) -> None:
        counter = registry.counter
        begun = counter(f"{TRANSACTION}_begun_count", "Transactions that got their first partition.")
        committed = counter(f"{TRANSACTION}_committed_count", "Transactions whose commit was decided.")
        aborted = counter(f"{TRANSACTION}_aborted_count", "Transactions that were aborted, by cause.", ("cause",))
        fenced = counter(
            f"{TRANSACTION}_fenced_request_count",
            "Requests to coordinators that were refused because a newer producer has the transactional id.",
        )
        self._expirations = counter(f"{TRANSACTIONAL_ID}_expired_count", "Transactional ids that have expired.")
        self._events = {
            TransactionEvent.BEGUN: (begun, ()),
            TransactionEvent.COMMITTED: (committed, ()),
            TransactionEvent.FENCED: (fenced, ()),
            **{event: (aborted, (cause,)) for event, cause in ABORT_CAUSES.items()},
        }
        for cause in ABORT_CAUSES.values():
            aborted.add(0, (cause,))  # present from the start, so that the first increment is visible
        self._load_ms = registry.histogram(
            f"{COORDINATOR}_partition_load_time_ms",
            "Time to load the transactional ids of one partition of __transaction_state.",
            LOAD_BOUNDS_MS,
        )

    def happened(self, event: TransactionEvent) -> None:
        """Count a decision, after its records were written."""
        counter, labels = self._events[event]
        counter.add(1, labels)

    def loaded(self, machine: TransactionCoordinator, name: str, record_count: int, duration_ms: int) -> None:
        """Record the time to load the transactional ids of a partition."""
        self._load_ms.observe(duration_ms)
        if record_count:
            count = len(machine.transactions)
            log.info("%s: %d records loaded, %d transactional ids, %d ms", name, record_count, count, duration_ms)

    def wrote(
        self,
        machine: TransactionCoordinator,
        records: Sequence[TransactionRecord],
        timer_key: tuple[str, ...] | None,
    ) -> None:
        """Count transactional ids that expire."""
        if timer_key is not None:
            self._expirations.add(sum(record.transaction is None for record in records))


class TransactionGauges:
    """Gauges of transactions, read from the coordinators at each scrape."""

    def __init__(
        self,
        registry: Registry,
        machines: Callable[[], Iterable[TransactionCoordinator]],
        clock: Clock,
        unled_count: Callable[[], int],
    ) -> None:
        """`machines` returns the loaded coordinators, `unled_count` the number of markers that wait for a leader."""
        self._machines = machines
        self._clock = clock
        gauge = registry.gauge
        gauge(f"{TRANSACTIONAL_ID}_count", "Transactional ids by state.", self._by_state, ("state",))
        gauge(
            f"{TRANSACTION}_open_count",
            "Transactions that are open.",
            lambda: self._sum(lambda machine: machine.open_count),
        )
        gauge(f"{TRANSACTION}_open_age_max_ms", "Age of the oldest open transaction.", self._open_age_max_ms)
        gauge(
            f"{TRANSACTION}_late_end_count",
            "Transactions that were decided some time ago and do not have all of their markers yet.",
            self._late_end_count,
        )
        gauge(
            f"{MARKER}_unknowndestinationqueuesize",
            "Markers that wait for their partition to have a leader.",
            lambda: [((), unled_count())],
        )
        gauge(
            f"{MARKER}_logappendretryqueuesize",
            "Transactions that have all of their markers, whose completion could not be written yet.",
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
    """Gauges of the producers that the logs of this broker remember."""

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
            "Partitions led by this broker with a transaction that is open for longer than its timeout allows.",
            lambda: [((), sum(self._has_late_transaction(partition) for partition in self._partitions()))],
        )

    def _has_late_transaction(self, partition: Partition) -> bool:
        """Whether a transaction is open for so long that its coordinator seems not to know it."""
        oldest = partition.log.producers.oldest_open()
        if oldest is None or oldest.last_timestamp < 0 or not partition.is_leader:
            return False
        age_max_ms = self._config().transaction_max_timeout_ms + TRANSACTION_LATE_MS
        return self._clock.now_ms() - oldest.last_timestamp > age_max_ms

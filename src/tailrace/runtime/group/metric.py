"""Metrics of groups: counts, states and lag.

Metrics that Kafka has (`group-coordinator-metrics`) have Kafka's names. Kafka has none for the lag of a group; those
have the names of widely used exporters, so that existing dashboards work. Lag is computed only at a scrape: the high
watermark of a partition, less the offset that the group has committed.
"""

import logging
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Sequence

from tailrace.base.limits import METRIC_LABEL_LENGTH_MAX, METRIC_LAG_SERIES_MAX
from tailrace.base.metric import Reading, Registry
from tailrace.machines.group.classic.group import ClassicGroup
from tailrace.machines.group.classic.state import ClassicState
from tailrace.machines.group.consumer.group import ConsumerGroupState
from tailrace.machines.group.coordinator import EXPIRY, GroupCoordinator
from tailrace.machines.group.group import GroupType
from tailrace.machines.group.record.classic import GroupMetadataKey, GroupMetadataValue
from tailrace.machines.group.record.consumer import ConsumerGroupMetadataKey
from tailrace.machines.group.record.offset import OffsetCommitKey
from tailrace.machines.log_record import Record
from tailrace.protocol.errors import ApiError
from tailrace.runtime.replication.replicas import Replicas

log = logging.getLogger("tailrace.runtime")

COORDINATOR = "kafka_server_group_coordinator_metrics"
LAG = "kafka_consumergroup"
PARTITION_LABELS = ("consumergroup", "topic", "partition")
GROUP_LABELS = ("consumergroup",)
LOAD_BOUNDS_MS = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000)


class GroupCounters:
    """Counters of the coordinators' work since the broker started, raised when records are written."""

    def __init__(self, registry: Registry) -> None:
        self.commits = registry.counter(f"{COORDINATOR}_offset_commit_count", "Offset commits.")
        self.expirations = registry.counter(f"{COORDINATOR}_offset_expiration_count", "Committed offsets that expired.")
        self.deletions = registry.counter(
            f"{COORDINATOR}_offset_deletion_count",
            "Committed offsets that were deleted, also with their group or topic.",
        )
        self.classic_rebalances = registry.counter(
            f"{COORDINATOR}_group_completed_rebalance_count", "Completed rebalances of classic groups."
        )
        self.consumer_rebalances = registry.counter(
            f"{COORDINATOR}_consumer_group_rebalance_count", "Rebalances of groups of the consumer protocol."
        )
        self.load_ms = registry.histogram(
            f"{COORDINATOR}_partition_load_time_ms",
            "Time to load the groups of one partition of __consumer_offsets.",
            LOAD_BOUNDS_MS,
        )

    def loaded(self, machine: GroupCoordinator, name: str, record_count: int, duration_ms: int) -> None:
        """Record the time to load the groups of a partition."""
        self.load_ms.observe(duration_ms)
        if record_count:
            log.info("%s: %d records loaded, %d groups", name, record_count, len(machine.groups))

    def wrote(self, machine: GroupCoordinator, records: Sequence[Record], timer_key: tuple[str, ...] | None) -> None:
        """Count records that are written and not yet replayed; `timer_key` names the timer that caused them, if any."""
        expiring = timer_key == EXPIRY
        for record in records:
            key, value = record.key, record.value
            if isinstance(key, OffsetCommitKey):
                gone = self.expirations if expiring else self.deletions
                (self.commits if value is not None else gone).add()
            elif isinstance(key, ConsumerGroupMetadataKey) and value is not None:
                self.consumer_rebalances.add()
            elif isinstance(key, GroupMetadataKey) and isinstance(value, GroupMetadataValue) and value.members:
                group = machine.groups.get(key.group)
                # A static member that rejoins is also written in the middle of a generation.
                if isinstance(group, ClassicGroup) and group.state is ClassicState.COMPLETING_REBALANCE:
                    self.classic_rebalances.add()


class GroupGauges:
    """Gauges of groups, read from the coordinators at each scrape."""

    def __init__(
        self, registry: Registry, machines: Callable[[], Iterable[GroupCoordinator]], replicas: Replicas
    ) -> None:
        """`machines` returns the loaded coordinators."""
        self._machines = machines
        self._replicas = replicas
        gauge = registry.gauge
        gauge(f"{COORDINATOR}_group_count", "Groups by protocol.", self._by_protocol, ("protocol",))
        for kind, states in ((GroupType.CLASSIC, ClassicState), (GroupType.CONSUMER, ConsumerGroupState)):
            gauge(
                f"{COORDINATOR}_{kind}_group_count",
                f"Groups of the {kind} protocol by state.",
                self._state_reader(kind, [state.value for state in states]),
                ("state",),
            )
        gauge(f"{COORDINATOR}_offset_count", "Committed offsets of all groups.", self._offset_count)
        gauge(f"{LAG}_members", "Members of a group.", self._members, GROUP_LABELS)
        gauge(f"{LAG}_current_offset", "Committed offset of a group.", self._offsets, PARTITION_LABELS)
        gauge(f"{LAG}_lag", "Records from the committed offset to the high watermark.", self._lags, PARTITION_LABELS)
        gauge(f"{LAG}_lag_sum", "Lag of a group, summed over its partitions.", self._sums, GROUP_LABELS)
        gauge(f"{LAG}_lag_max", "Largest lag of a group in one partition.", self._maxima, GROUP_LABELS)
        gauge(
            "tailrace_group_series_left_out",
            "Committed offsets without a lag series: the group id is too long, or there are too many series.",
            self._left_out,
        )

    def _by_protocol(self) -> Reading:
        tally = Tally(str(group.group_type) for machine in self._machines() for group in machine.groups.values())
        return [((str(kind),), tally[kind]) for kind in GroupType]

    def _state_reader(self, kind: GroupType, states: list[str]) -> Callable[[], Reading]:
        def read() -> Reading:
            tally = Tally(
                group.state_name
                for machine in self._machines()
                for group in machine.groups.values()
                if group.group_type is kind
            )
            return [((state,), tally[state]) for state in states]

        return read

    def _offset_count(self) -> Reading:
        return [((), sum(machine.offsets.store.count for machine in self._machines()))]

    def _members(self) -> Reading:
        for machine in self._machines():
            for group in list(machine.groups.values()):
                if _is_shown(group.group_id):
                    yield (group.group_id,), group.member_count

    def _offsets(self) -> Reading:
        return _bounded(
            ((group_id, topic, str(index)), committed) for group_id, topic, index, committed, _ in self._entries()
        )

    def _lags(self) -> Reading:
        return _bounded(((group_id, topic, str(index)), lag) for group_id, topic, index, _, lag in self._entries())

    def _sums(self) -> Reading:
        return (((group_id,), sum(lags)) for group_id, lags in self._group_lags())

    def _maxima(self) -> Reading:
        return (((group_id,), max(lags)) for group_id, lags in self._group_lags())

    def _left_out(self) -> Reading:
        hidden = shown = 0
        for machine in self._machines():
            store = machine.offsets.store
            for group_id in store.group_ids():
                count = sum(len(offsets) for offsets in store.of_group(group_id).values())
                if _is_shown(group_id):
                    shown += count
                else:
                    hidden += count
        return [((), hidden + max(0, shown - METRIC_LAG_SERIES_MAX))]

    def _group_lags(self) -> Iterator[tuple[str, list[int]]]:
        for machine in self._machines():
            for group_id in filter(_is_shown, machine.offsets.store.group_ids()):
                lags = [lag for _, _, _, lag in self._of_group(machine, group_id)]
                if lags:
                    yield group_id, lags

    def _entries(self) -> Iterator[tuple[str, str, int, int, int]]:
        for machine in self._machines():
            for group_id in filter(_is_shown, machine.offsets.store.group_ids()):
                for entry in self._of_group(machine, group_id):
                    yield group_id, *entry

    def _of_group(self, machine: GroupCoordinator, group_id: str) -> list[tuple[str, int, int, int]]:
        """Return topic, partition, committed offset and lag as a list, because the caller may pause while it reads."""
        found = []
        for topic, offsets in machine.offsets.store.of_group(group_id).items():
            for index, committed in offsets.items():
                try:
                    end = self._replicas.get(topic, index).high_watermark
                except ApiError:
                    continue  # deleted, or not on this broker, which does not know its end
                found.append((topic, index, committed.offset, max(0, end - committed.offset)))
        return found


def _is_shown(group_id: str) -> bool:
    return len(group_id) <= METRIC_LABEL_LENGTH_MAX


def _bounded(reading: Reading) -> Reading:
    return (entry for _, entry in zip(range(METRIC_LAG_SERIES_MAX), reading, strict=False))

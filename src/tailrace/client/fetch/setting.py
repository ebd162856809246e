"""The settings of consumers, alone and in groups."""

from tailrace.client.group.assignor.assignor import Assignor
from tailrace.client.group.assignor.range import RangeAssignor
from tailrace.client.group.assignor.round_robin import RoundRobinAssignor
from tailrace.client.group.assignor.sticky import CooperativeStickyAssignor, StickyAssignor
from tailrace.client.place import read_reset
from tailrace.client.setting import ClientSettings
from tailrace.config.check import Check, at_least, one_of
from tailrace.config.declaration import boolean, integer, nullable_string, string, string_list
from tailrace.config.error import ConfigError
from tailrace.config.unit import MIB, MINUTE_MS, SECOND_MS

CLASSIC = "classic"
CONSUMER = "consumer"

_ASSIGNORS: dict[str, type[Assignor]] = {
    "range": RangeAssignor,
    "roundrobin": RoundRobinAssignor,
    "sticky": StickyAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}
_JAVA_PREFIX = "org.apache.kafka.clients.consumer."
_JAVA_NAMES = {_JAVA_PREFIX + kind.__name__: name for name, kind in _ASSIGNORS.items()}

_CLASSIC_ONLY = ("partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms")
_CONSUMER_ONLY = ("group.remote.assignor",)
_GROUP_ONLY = (
    *_CLASSIC_ONLY,
    *_CONSUMER_ONLY,
    "group.protocol",
    "group.instance.id",
    "auto.commit.interval.ms",
    "max.poll.interval.ms",
)


def _are_assignors(names: tuple[str, ...]) -> bool:
    found = [_JAVA_NAMES.get(name, name) for name in names]
    return bool(found) and len(set(found)) == len(found) and all(name in _ASSIGNORS for name in found)


def _is_reset(name: str) -> bool:
    try:
        read_reset(name)
    except ValueError:
        return False
    return True


class ConsumerSettings(ClientSettings):
    """The settings of a consumer."""

    auto_offset_reset = string(
        "auto.offset.reset",
        "latest",
        "Start of a partition that has no committed offset, or whose offset the log no longer has.",
        check=Check("earliest, latest, none, or by_duration: and a duration such as by_duration:PT1H30M", _is_reset),
    )
    isolation_level = string(
        "isolation.level",
        "read_uncommitted",
        "Whether records of transactions that are open or aborted are read.",
        check=one_of("read_uncommitted", "read_committed"),
    )
    fetch_min_bytes = integer(
        "fetch.min.bytes", 1, "Bytes that a broker waits for before it answers a fetch.", check=at_least(0)
    )
    fetch_max_wait_ms = integer("fetch.max.wait.ms", 500, "How long it waits for them.", check=at_least(0))
    fetch_max_bytes = integer("fetch.max.bytes", 50 * MIB, "Largest fetch.", check=at_least(1024))
    max_partition_fetch_bytes = integer(
        "max.partition.fetch.bytes",
        8 * MIB,
        "Largest share of a partition in a fetch. Kafka's default is 1048576; columns are faster with more.",
        check=at_least(1),
    )
    max_poll_records = integer(
        "max.poll.records", 500, "Largest number of records that poll returns.", check=at_least(1)
    )
    check_crcs = boolean("check.crcs", True, "Whether the checksums of batches are verified.")
    default_api_timeout_ms = integer(
        "default.api.timeout.ms", MINUTE_MS, "How long a call may take, with its retries.", check=at_least(1)
    )
    client_rack = string("client.rack", "", "The rack of this client, which the group's assignor uses.")

    group_id = nullable_string("group.id", "The consumer group.", check=Check("a name of at least one character", bool))
    group_instance_id = nullable_string(
        "group.instance.id",
        "A name of the member that is unique in the group and survives restarts (static membership).",
        check=Check("a name of at least one character", bool),
    )
    group_protocol = nullable_string(
        "group.protocol",
        "The protocol of the group: members assign partitions in classic, the coordinator in consumer (KIP-848). By"
        " default it is consumer if the broker supports it. Kafka's default is classic.",
        check=one_of(CLASSIC, CONSUMER),
    )
    group_remote_assignor = nullable_string(
        "group.remote.assignor", "Assignor of the coordinator, uniform or range; by default the coordinator chooses."
    )
    partition_assignment_strategy = string_list(
        "partition.assignment.strategy",
        ("range", "cooperative-sticky"),
        "Assignors of a classic group in order of preference; Kafka's class names are accepted.",
        check=Check(f"a list of different ones of {', '.join(_ASSIGNORS)}", _are_assignors),
    )
    session_timeout_ms = integer(
        "session.timeout.ms",
        45 * SECOND_MS,
        "How long a member of a classic group may send no heartbeat before it is removed.",
        check=at_least(1),
    )
    heartbeat_interval_ms = integer(
        "heartbeat.interval.ms",
        3 * SECOND_MS,
        "Interval between heartbeats of a member of a classic group.",
        check=at_least(1),
    )
    max_poll_interval_ms = integer(
        "max.poll.interval.ms",
        5 * MINUTE_MS,
        "How long a member may wait between two reads before other members get its partitions.",
        check=at_least(1),
    )
    enable_auto_commit = boolean(
        "enable.auto.commit", True, "Whether the offsets of processed records are committed automatically."
    )
    auto_commit_interval_ms = integer(
        "auto.commit.interval.ms", 5 * SECOND_MS, "Interval between automatic commits.", check=at_least(0)
    )

    @property
    def assignors(self) -> list[Assignor]:
        """The assignors of a classic group in order of preference."""
        return [_ASSIGNORS[_JAVA_NAMES.get(name, name)]() for name in self.partition_assignment_strategy]

    @property
    def chosen_protocol(self) -> str | None:
        """The protocol that the settings name or require; None if the broker decides."""
        if self.group_protocol is not None:
            return self.group_protocol
        if self.given.intersection(_CLASSIC_ONLY):
            return CLASSIC
        return CONSUMER if self.given.intersection(_CONSUMER_ONLY) else None

    def _complaints(self) -> list[ConfigError]:
        if self.group_id is None:
            alone = [name for name in _GROUP_ONLY if name in self.given]
            if "enable.auto.commit" in self.given and self.enable_auto_commit:
                alone.append("enable.auto.commit")
            return [ConfigError(name, f"{name} has no effect without group.id") for name in alone]
        return [*self._protocol_complaints(), *self._time_complaints()]

    def _protocol_complaints(self) -> list[ConfigError]:
        protocol = self.chosen_protocol
        wrong = {CLASSIC: _CONSUMER_ONLY, CONSUMER: _CLASSIC_ONLY}.get(protocol or "", ())
        other = "the coordinator decides" if protocol == CONSUMER else "the members decide"
        return [
            ConfigError(name, f"{name} has no effect with group.protocol={protocol}, where {other}")
            for name in wrong
            if name in self.given
        ]

    def _time_complaints(self) -> list[ConfigError]:
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            name = "heartbeat.interval.ms"
            return [ConfigError(name, f"{name} must be less than session.timeout.ms ({self.session_timeout_ms})")]
        return []

"""The settings of consumers, alone and in groups."""

from runnel.client.assignor import Assignor
from runnel.client.assignor_range import RangeAssignor
from runnel.client.assignor_round_robin import RoundRobinAssignor
from runnel.client.assignor_sticky import CooperativeStickyAssignor, StickyAssignor
from runnel.client.place import read_reset
from runnel.client.setting import ClientSettings
from runnel.config.check import Check, at_least, one_of
from runnel.config.declaration import boolean, integer, nullable_string, string, string_list
from runnel.config.error import ConfigError
from runnel.config.unit import MIB, MINUTE_MS, SECOND_MS

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
    """What a consumer has."""

    auto_offset_reset = string(
        "auto.offset.reset",
        "latest",
        "Where to begin when there is no offset or the log does not have it any more.",
        check=Check("earliest, latest, none, or by_duration: and a duration such as by_duration:PT1H30M", _is_reset),
    )
    isolation_level = string(
        "isolation.level",
        "read_uncommitted",
        "Whether records of transactions that are open or aborted are read.",
        check=one_of("read_uncommitted", "read_committed"),
    )
    fetch_min_bytes = integer("fetch.min.bytes", 1, "How much a broker waits for.", check=at_least(0))
    fetch_max_wait_ms = integer("fetch.max.wait.ms", 500, "How long it waits for it.", check=at_least(0))
    fetch_max_bytes = integer("fetch.max.bytes", 50 * MIB, "What one fetch brings at most.", check=at_least(1024))
    max_partition_fetch_bytes = integer(
        "max.partition.fetch.bytes",
        8 * MIB,
        "What one fetch brings of one partition at most. Kafka's default is 1048576; columns want more at a time.",
        check=at_least(1),
    )
    max_poll_records = integer("max.poll.records", 500, "How many records poll returns at most.", check=at_least(1))
    check_crcs = boolean("check.crcs", True, "Whether the checksums of batches are looked at.")
    default_api_timeout_ms = integer(
        "default.api.timeout.ms", MINUTE_MS, "How long a call may take, attempts included.", check=at_least(1)
    )
    client_rack = string("client.rack", "", "Where this client is; groups are told.")

    group_id = nullable_string("group.id", "The consumer group.", check=Check("a name of at least one character", bool))
    group_instance_id = nullable_string(
        "group.instance.id",
        "A name that lasts over restarts, unique in the group: the member's partitions wait for its return.",
        check=Check("a name of at least one character", bool),
    )
    group_protocol = nullable_string(
        "group.protocol",
        "Who divides partitions: the members (classic) or the coordinator (consumer, KIP-848). Not set, it is consumer"
        " where the broker has it. Kafka's default is classic.",
        check=one_of(CLASSIC, CONSUMER),
    )
    group_remote_assignor = nullable_string(
        "group.remote.assignor", "How the coordinator divides partitions: uniform or range, or as it likes best."
    )
    partition_assignment_strategy = string_list(
        "partition.assignment.strategy",
        ("range", "cooperative-sticky"),
        "How members of a classic group may divide partitions, the most liked first; Kafka's class names are known.",
        check=Check(f"a list of different ones of {', '.join(_ASSIGNORS)}", _are_assignors),
    )
    session_timeout_ms = integer(
        "session.timeout.ms", 45 * SECOND_MS, "How long a silent member of a classic group lives.", check=at_least(1)
    )
    heartbeat_interval_ms = integer(
        "heartbeat.interval.ms", 3 * SECOND_MS, "How often a member of a classic group shows up.", check=at_least(1)
    )
    max_poll_interval_ms = integer(
        "max.poll.interval.ms",
        5 * MINUTE_MS,
        "How long a member may work on what it took before it comes for more; then others get its partitions.",
        check=at_least(1),
    )
    enable_auto_commit = boolean(
        "enable.auto.commit", True, "Whether offsets of what was taken and worked on are committed now and then."
    )
    auto_commit_interval_ms = integer(
        "auto.commit.interval.ms", 5 * SECOND_MS, "How often that is done.", check=at_least(0)
    )

    @property
    def assignors(self) -> list[Assignor]:
        """How members of a classic group may divide partitions, the most liked first."""
        return [_ASSIGNORS[_JAVA_NAMES.get(name, name)]() for name in self.partition_assignment_strategy]

    @property
    def chosen_protocol(self) -> str | None:
        """The protocol that settings ask for, by name or because only one obeys them; None when the broker decides."""
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
            return [ConfigError(name, f"{name} means nothing without group.id") for name in alone]
        return [*self._protocol_complaints(), *self._time_complaints()]

    def _protocol_complaints(self) -> list[ConfigError]:
        protocol = self.chosen_protocol
        wrong = {CLASSIC: _CONSUMER_ONLY, CONSUMER: _CLASSIC_ONLY}.get(protocol or "", ())
        other = "the coordinator decides" if protocol == CONSUMER else "the members decide"
        return [
            ConfigError(name, f"{name} means nothing with group.protocol={protocol}, where {other}")
            for name in wrong
            if name in self.given
        ]

    def _time_complaints(self) -> list[ConfigError]:
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            name = "heartbeat.interval.ms"
            return [ConfigError(name, f"{name} must be less than session.timeout.ms ({self.session_timeout_ms})")]
        return []

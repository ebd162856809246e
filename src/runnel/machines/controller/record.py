"""What the controller decides, as values: the only things that change the cluster image."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple
from uuid import UUID

NO_BROKER = -1
"""In the place of a leader or controller: there is none."""


class ConfigKind(Enum):
    """Whose dynamic configuration it is, by the name of its folder in the store."""

    TOPIC = "topics"
    BROKER = "brokers"
    GROUP = "groups"


CLUSTER_DEFAULT = "<default>"
"""The broker name under which configuration for every broker stands."""


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A topic is there, with these replicas for each partition.

    While a partition is reassigned its replicas are those that it shall have and those that it shall lose; `adding`
    and `removing` say by partition which of them are the new ones and which the old (KIP-455).
    """

    name: str
    topic_id: UUID
    assignment: tuple[tuple[int, ...], ...]
    adding: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    removing: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    """Who leads a partition, in which epoch, and who is in sync with the leader.

    While fewer than min.insync.replicas are, `elr` names those that are not but have all that was committed: they may
    lead without a loss (KIP-966). `last_known_elr` names those that were among them and stopped uncleanly.
    """

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicHidden:
    """A topic is on its way in or out: its partitions are written or removed in several steps, and nobody sees it."""

    name: str
    topic_id: UUID


@dataclass(frozen=True, slots=True)
class PartitionRemoved:
    """The state of a partition that nobody sees is gone."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class TopicRemoved:
    """A topic, its partitions and its configuration are gone."""

    name: str


@dataclass(frozen=True, slots=True)
class ConfigRecord:
    """All dynamic configuration of one topic, broker or group; empty means none is left."""

    kind: ConfigKind
    name: str
    values: Mapping[str, str]


class Endpoint(NamedTuple):
    """Where a broker can be reached by one of its listeners; a broker without a host is where it was reached before."""

    listener: str
    host: str
    port: int
    security_protocol: str


@dataclass(frozen=True, slots=True)
class BrokerRecord:
    """A broker is there. Its epoch is that of the registration: each start and each new session has a higher one.

    It is clean when it lost nothing since it was admitted last, and it is stopping when it asks to lead nothing more.
    The incarnation names the process, which may have to tell its own registration from that of another.
    """

    broker_id: int
    epoch: int
    endpoints: tuple[Endpoint, ...] = ()
    rack: str | None = None
    is_clean: bool = False
    is_stopping: bool = False
    incarnation: str = ""


@dataclass(frozen=True, slots=True)
class BrokerRemoved:
    """A broker is not there: it stopped, or its session ended."""

    broker_id: int


REVOKED = -3
"""In the place of the epoch of an admission: the broker came back unclean, and is being dealt with."""

UNREGISTERED = -4
"""In the place of the epoch of an admission: the broker was sent away, and is about to be forgotten."""


@dataclass(frozen=True, slots=True)
class BrokerAdmitted:
    """The controller has dealt with the registration of this epoch, by this process; only now may the broker lead."""

    broker_id: int
    epoch: int
    incarnation: str = ""


@dataclass(frozen=True, slots=True)
class BrokerForgotten:
    """A broker was taken out of the cluster and is not expected back."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class ControllerRecord:
    """Who decides, in which epoch."""

    broker_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class ControllerRemoved:
    """The controller's session ended and nobody decides."""


Record = (
    TopicRecord
    | PartitionRecord
    | TopicHidden
    | PartitionRemoved
    | TopicRemoved
    | ConfigRecord
    | BrokerRecord
    | BrokerRemoved
    | BrokerAdmitted
    | BrokerForgotten
    | ControllerRecord
    | ControllerRemoved
)

"""The records that change the cluster image: the controller's decisions, and brokers that come and go."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple
from uuid import UUID

from tailrace.machines.controller.security_record import AclRecord, TokenRecord, TokenRemoved


class ConfigKind(Enum):
    """The kind of resource that has dynamic configs, with the name of its folder in the store.

    The names of users, clients, pairs of a user and a client, and addresses are those of `entity_name`. Their configs
    are quotas; a user's are also SCRAM credentials. The folder of a pair's client is below that of the user.
    """

    TOPIC = "topics"
    BROKER = "brokers"
    GROUP = "groups"
    USER = "users"
    CLIENT = "clients"
    USER_CLIENT = "users/clients"
    IP = "ips"


CLUSTER_DEFAULT = "<default>"
"""The broker name under which the dynamic configs of all brokers are stored."""


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A topic exists, with these replicas for each partition.

    While a partition is reassigned it has both its old and its new replicas; `adding` and `removing` name the new and
    the old ones by partition (KIP-455).
    """

    name: str
    topic_id: UUID
    assignment: tuple[tuple[int, ...], ...]
    adding: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    removing: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    """The state of a partition: its leader, the leader epoch, and the replicas in sync with the leader.

    While the ISR is smaller than min.insync.replicas, `elr` names the replicas outside it that have all committed
    records and may lead without a loss (KIP-966). `last_known_elr` names those of them that stopped uncleanly.
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
    """A topic is being created or deleted in several steps, and is not visible to clients."""

    name: str
    topic_id: UUID


@dataclass(frozen=True, slots=True)
class PartitionRemoved:
    """The state of a partition of a hidden topic was removed."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class TopicRemoved:
    """A topic was removed with its partitions and its configs."""

    name: str


@dataclass(frozen=True, slots=True)
class ConfigRecord:
    """All dynamic configs of one resource; empty means that none is set."""

    kind: ConfigKind
    name: str
    values: Mapping[str, str]


class Endpoint(NamedTuple):
    """The address of one of a broker's listeners; an empty host means the address that the client connected to."""

    listener: str
    host: str
    port: int
    security_protocol: str


@dataclass(frozen=True, slots=True)
class BrokerRecord:
    """A broker is registered. Its epoch is that of the registration: each start and each session has a higher one.

    The broker is clean if it lost nothing since it was last admitted, and stopping if it asks to lead no more
    partitions. The incarnation identifies the process, which may have to tell its own registration from another's.
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
    """A broker is not registered any longer: it stopped, or its session ended."""

    broker_id: int


REVOKED = -3
"""In place of the epoch of an admission: the broker came back unclean, and leaves its ISRs."""

UNREGISTERED = -4
"""In place of the epoch of an admission: the broker is being removed from the cluster."""


@dataclass(frozen=True, slots=True)
class BrokerAdmitted:
    """The controller has admitted the registration of this epoch by this process; only now may the broker lead."""

    broker_id: int
    epoch: int
    incarnation: str = ""


@dataclass(frozen=True, slots=True)
class BrokerForgotten:
    """A broker was removed from the cluster."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class ControllerRecord:
    """A broker became the controller, in this epoch."""

    broker_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class ControllerRemoved:
    """The controller's session ended, and there is no controller."""


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
    | AclRecord
    | TokenRecord
    | TokenRemoved
)

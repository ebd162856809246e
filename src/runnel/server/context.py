"""What a handler knows of the request it serves."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING

from runnel.machines.controller.image import Node
from runnel.machines.controller.record import BrokerRecord
from runnel.protocol.frame import RequestHeader

if TYPE_CHECKING:
    from runnel.runtime.broker import Broker
    from runnel.server.connection import Connection


class Operation(Enum):
    """What a principal may be allowed to do, with Kafka's codes."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    TWO_PHASE_COMMIT = 15


class Resource(Enum):
    """What it may be allowed to do it to, with Kafka's codes."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


CLUSTER_NAME = "kafka-cluster"

TOPIC_OPERATIONS = (
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
GROUP_OPERATIONS = (
    Operation.READ,
    Operation.DELETE,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
CLUSTER_OPERATIONS = (
    Operation.CREATE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.CLUSTER_ACTION,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
    Operation.IDEMPOTENT_WRITE,
)


class RequestContext:
    """The broker, the connection and the header of one request."""

    __slots__ = ("broker", "connection", "header")

    def __init__(self, broker: Broker, connection: Connection, header: RequestHeader) -> None:
        self.broker = broker
        self.connection = connection
        self.header = header

    @property
    def version(self) -> int:
        return self.header.api_version

    @property
    def node(self) -> Node:
        """This broker as the client on this connection should see it."""
        return self._node(self.broker.registered)

    @property
    def nodes(self) -> list[Node]:
        """The brokers that are there and have the listener of this connection, as the client should see them."""
        brokers = {**self.broker.image.brokers, self.broker.broker_id: self.broker.registered}
        name = self.connection.listener_name
        return [
            self._node(brokers[broker_id])
            for broker_id in sorted(brokers)
            if any(endpoint.listener == name for endpoint in brokers[broker_id].endpoints)
        ]

    def _node(self, broker: BrokerRecord) -> Node:
        name = self.connection.listener_name
        endpoint = next(endpoint for endpoint in broker.endpoints if endpoint.listener == name)
        # A broker that listens on every interface and was not told what to advertise gives the address by which the
        # client has reached it, which is one that works.
        return Node(broker.broker_id, endpoint.host or self.connection.local_host, endpoint.port, broker.rack)

    def is_allowed(self, operation: Operation, resource: Resource, name: str) -> bool:  # noqa: ARG002
        """Whether the connection's principal may do this. Everybody may, until there is an authorizer."""
        return True

    def allowed_operations(self, operations: Iterable[Operation], resource: Resource, name: str) -> int:
        """What the principal may do, as the bit field that clients get."""
        return sum(1 << operation.value for operation in operations if self.is_allowed(operation, resource, name))

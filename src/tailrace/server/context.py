"""The context of a request: the broker, the connection and the header."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tailrace.machines.authorization.vocabulary import CLUSTER_NAME, SUPPORTED_OPERATIONS, WILDCARD, Operation, Resource
from tailrace.machines.controller.image import Node
from tailrace.machines.controller.record import BrokerRecord
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.frame import RequestHeader

if TYPE_CHECKING:
    from tailrace.runtime.broker import Broker
    from tailrace.server.connection import Connection
    from tailrace.server.quota.edge import QuotaEdge
    from tailrace.server.quota.request_quota import RequestQuota
    from tailrace.server.rejection_log import RejectionLog
    from tailrace.server.security.audit import AuditLog
    from tailrace.server.security.authorization import Authorization


__all__ = [
    "CLUSTER_NAME",
    "CLUSTER_OPERATIONS",
    "GROUP_OPERATIONS",
    "TOPIC_OPERATIONS",
    "Operation",
    "RequestContext",
    "Resource",
    "is_between_brokers",
]

TOPIC_OPERATIONS = SUPPORTED_OPERATIONS[Resource.TOPIC]
GROUP_OPERATIONS = SUPPORTED_OPERATIONS[Resource.GROUP]
CLUSTER_OPERATIONS = SUPPORTED_OPERATIONS[Resource.CLUSTER]


def is_between_brokers(broker: Broker, connection: Connection) -> bool:
    """Return whether a connection came in through the listener by which brokers reach each other."""
    return connection.listener_name == broker.config.inter_broker_listener.name


class RequestContext:
    """The broker with its services, the connection and the header of one request.

    `principal` and `host` are the client that made the request: the one at the other end of the connection, unless
    another broker forwarded the request.
    """

    __slots__ = (
        "audit",
        "authorization",
        "broker",
        "connection",
        "header",
        "host",
        "is_forwarded",
        "principal",
        "quota",
        "quotas",
        "rejections",
    )

    def __init__(
        self,
        broker: Broker,
        connection: Connection,
        header: RequestHeader,
        rejections: RejectionLog,
        authorization: Authorization | None = None,
        audit: AuditLog | None = None,
        quotas: QuotaEdge | None = None,
    ) -> None:
        """Without an authorization every principal is allowed everything."""
        self.audit = audit
        self.authorization = authorization
        self.broker = broker
        self.connection = connection
        self.header = header
        self.rejections = rejections
        self.principal: str = connection.principal
        self.host: str = connection.host
        self.is_forwarded = False
        self.quota: RequestQuota | None = None  # if any client has a quota
        self.quotas = quotas

    def forwarded(self, header: RequestHeader, principal: str, host: str) -> RequestContext:
        """Return the context of a request that this request, which is another broker's, carries for a client."""
        context = RequestContext(
            self.broker, self.connection, header, self.rejections, self.authorization, self.audit, self.quotas
        )
        context.principal, context.host, context.is_forwarded = principal, host, True
        if self.quotas is not None and self.quotas.is_active:
            context.quota = self.quotas.quota_of(context)
        return context

    @property
    def version(self) -> int:
        return self.header.api_version

    @property
    def node(self) -> Node:
        """This broker, with the address for the client on this connection."""
        return self._node(self.broker.registered)

    @property
    def nodes(self) -> list[Node]:
        """The live brokers that have the listener of this connection, with their addresses for its client."""
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
        # A broker that listens on every interface and has no advertised.listeners returns the address that the client
        # connected to, which is known to work.
        return Node(broker.broker_id, endpoint.host or self.connection.local_host, endpoint.port, broker.rack)

    def is_allowed(self, operation: Operation, resource: Resource, name: str, *, is_probe: bool = False) -> bool:
        """Whether the principal is allowed an operation. Without an authorizer every principal is.

        The denial of a probe is not logged: the client did not ask for the operation, and the reply only leaves out
        what the client may not see, or the client may have another right that suffices.
        """
        authorization = self.authorization
        if authorization is None or authorization.is_allowed(self.principal, self.host, operation, resource, name):
            return True
        if self.audit is not None and not is_probe:
            self.audit.deny(self, operation, resource, name)
        return False

    def is_granted(self, operation: Operation, resource: Resource, name: str) -> bool:
        """Whether the principal is a super user, or an ACL allows it an operation.

        Unlike `is_allowed`, this does not count `allow.everyone.if.no.acl.found`. Without an authorizer every principal
        is granted everything.
        """
        authorization = self.authorization
        if authorization is None or authorization.is_granted(self.principal, self.host, operation, resource, name):
            return True
        if self.audit is not None:
            self.audit.deny(self, operation, resource, name)
        return False

    def is_allowed_somewhere(self, operation: Operation, resource: Resource) -> bool:
        """Whether the principal is allowed an operation on at least one resource of a type (KIP-679)."""
        authorization = self.authorization
        if authorization is None or authorization.is_allowed_somewhere(self.principal, self.host, operation, resource):
            return True
        if self.audit is not None:
            self.audit.deny(self, operation, resource, WILDCARD)
        return False

    def note_created(self, topic: str, error: ErrorCode) -> None:
        """Write down that the request created a topic that did not exist yet, or failed to."""
        if self.audit is not None:
            self.audit.note_created(self, topic, error)

    def take_mutations(self, count: int, *, strict_since: int) -> None:
        """Count partitions that the request creates or deletes; raise if the client's quota is used up (KIP-599).

        Requests before version `strict_since` are always served, and their clients have to pause afterwards.
        """
        if self.quota is not None:
            self.quota.take_mutations(count, is_strict=self.version >= strict_since)

    def allowed_operations(self, operations: Iterable[Operation], resource: Resource, name: str) -> int:
        """Return the operations that the principal is allowed, as the bit field of the protocol."""
        return sum(
            1 << operation.value
            for operation in operations
            if self.is_allowed(operation, resource, name, is_probe=True)
        )

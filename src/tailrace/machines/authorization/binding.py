"""ACL bindings: the operations that principals are allowed or denied on resources."""

from typing import NamedTuple

from tailrace.machines.authorization.host import is_address
from tailrace.machines.authorization.vocabulary import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    WILDCARD,
    Operation,
    PatternType,
    Permission,
    Resource,
)


class AclBinding(NamedTuple):
    """One ACL. Two bindings with the same values are the same ACL.

    A LITERAL name applies to the resource of that name, and `*` to every resource of the type. A PREFIXED name applies
    to every resource whose name starts with it; there `*` is an ordinary character. The principal is `TYPE:NAME`, and
    `User:*` is every principal. The host is an address, and `*` is every host.
    """

    resource: Resource
    name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: Operation
    permission: Permission

    @property
    def is_wildcard(self) -> bool:
        """Whether the binding applies to every resource of its type."""
        return self.pattern_type is PatternType.LITERAL and self.name == WILDCARD


def invalid_reason(binding: AclBinding) -> str | None:
    """Say why a broker must reject a new binding; None if it is valid. The rules are those of Kafka 4.3.

    Kafka's brokers check less than kafka-acls does; `ineffective_reason` has the rest.
    """
    if binding.resource in {Resource.UNKNOWN, Resource.ANY}:
        return f"An ACL needs a specific resource type, not {binding.resource.name}"
    if binding.pattern_type not in {PatternType.LITERAL, PatternType.PREFIXED}:
        return f"The pattern type of an ACL must be LITERAL or PREFIXED, not {binding.pattern_type.name}"
    if binding.operation in {Operation.UNKNOWN, Operation.ANY}:
        return f"An ACL needs a specific operation or ALL, not {binding.operation.name}"
    if binding.permission not in {Permission.DENY, Permission.ALLOW}:
        return f"The permission type of an ACL must be DENY or ALLOW, not {binding.permission.name}"
    if not binding.name:
        return "The resource name of an ACL must not be empty"
    if binding.resource is Resource.CLUSTER and binding.name != CLUSTER_NAME:
        return f'The only name for the resource type CLUSTER is "{CLUSTER_NAME}", not "{binding.name}"'
    if ":" not in binding.principal:
        return f'The principal of an ACL has the form TYPE:NAME, such as "User:alice", not "{binding.principal}"'
    return None


def ineffective_reason(binding: AclBinding) -> str | None:
    """Say why a valid binding can never take effect; None if it can.

    Kafka's brokers store such ACLs: a host that is not an address, and an operation that the resource type does not
    have, which only kafka-acls rejects. An ineffective DENY protects nothing, so a tool should not create one.
    """
    supported = SUPPORTED_OPERATIONS[binding.resource]
    if binding.operation is not Operation.ALL and binding.operation not in supported:
        names = ", ".join(operation.name for operation in supported)
        return f"{binding.resource.name} has no operation {binding.operation.name}; it has {names} and ALL"
    if binding.host != WILDCARD and not is_address(binding.host):
        return f'The host of an ACL must be an IP address or "*", not "{binding.host}"; names are not resolved'
    kind, _, name = binding.principal.partition(":")
    if not kind or not name:
        return f'The principal "{binding.principal}" has no {"name" if kind else "type"}'
    if binding.resource is Resource.TOPIC and binding.pattern_type is PatternType.PREFIXED and WILDCARD in binding.name:
        return f'No topic name starts with "{binding.name}": as a prefix, "*" is not a wildcard; use LITERAL "*"'
    return None

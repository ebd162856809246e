"""A model of the authorizer that reads all bindings for each answer, written from Kafka's description of the rules."""

from collections.abc import Collection, Iterable
from ipaddress import ip_address

from tailrace.machines.authorization.binding import AclBinding
from tailrace.machines.authorization.filter import AclFilter
from tailrace.machines.authorization.vocabulary import Operation, PatternType, Permission, Resource


def same_host(one: str, other: str) -> bool:
    return ip_address(one) == ip_address(other)


def covers(binding: AclBinding, name: str) -> bool:
    """Whether the pattern of a binding applies to the name of a resource."""
    if binding.pattern_type is PatternType.PREFIXED:
        return name.startswith(binding.name)
    return binding.name in {name, "*"}


def names_client(binding: AclBinding, principal: str, host: str) -> bool:
    is_principal = binding.principal in {principal, "User:*"}
    return is_principal and (binding.host == "*" or same_host(binding.host, host))


def names_operation(binding: AclBinding, operation: Operation) -> bool:
    return binding.operation in {operation, Operation.ALL}


def implies(allowed: Operation, operation: Operation) -> bool:
    if operation is Operation.DESCRIBE:
        return allowed in {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    return operation is Operation.DESCRIBE_CONFIGS and allowed is Operation.ALTER_CONFIGS


class NaiveAuthorizer:
    """The same questions as the authorizer answers, over a plain collection of bindings."""

    def __init__(
        self, bindings: Iterable[AclBinding], super_users: Collection[str], allow_everyone_if_no_acl_found: bool
    ) -> None:
        self.bindings = list(dict.fromkeys(bindings))
        self.super_users = super_users
        self.allow_everyone_if_no_acl_found = allow_everyone_if_no_acl_found

    def authorize(self, principal: str, host: str, operation: Operation, resource: Resource, name: str) -> bool:
        found = [binding for binding in self.bindings if binding.resource is resource and covers(binding, name)]
        mine = [binding for binding in found if names_client(binding, principal, host)]
        if principal in self.super_users:
            return True
        if not found:
            return self.allow_everyone_if_no_acl_found
        if any(binding.permission is Permission.DENY and names_operation(binding, operation) for binding in mine):
            return False
        return any(
            binding.permission is Permission.ALLOW
            and (names_operation(binding, operation) or implies(binding.operation, operation))
            for binding in mine
        )

    def authorize_by_resource_type(self, principal: str, host: str, operation: Operation, resource: Resource) -> bool:
        # A name that no literal and no prefixed binding applies to stands for all resources without ACLs of their own.
        if self.authorize(principal, host, operation, resource, "\0"):
            return True
        mine = [
            binding
            for binding in self.bindings
            if binding.resource is resource
            and names_client(binding, principal, host)
            and names_operation(binding, operation)
        ]
        denies = [binding for binding in mine if binding.permission is Permission.DENY]
        return any(
            binding.permission is Permission.ALLOW and not any(dominates(deny, binding) for deny in denies)
            for binding in mine
        )

    def select(self, selection: AclFilter) -> set[AclBinding]:
        return {binding for binding in self.bindings if selects(selection, binding)}


def dominates(deny: AclBinding, allow: AclBinding) -> bool:
    """Whether a DENY leaves nothing of an ALLOW (KIP-679)."""
    if deny.pattern_type is PatternType.PREFIXED:
        return not allow.is_wildcard and allow.name.startswith(deny.name)
    if deny.name == "*":
        return True
    return allow.pattern_type is PatternType.LITERAL and allow.name == deny.name


def selects(selection: AclFilter, binding: AclBinding) -> bool:
    if selection.pattern_type is PatternType.MATCH:
        is_pattern = selection.name is None or covers(binding, selection.name)
    elif selection.pattern_type is PatternType.ANY:
        is_pattern = selection.name is None or selection.name == binding.name
    else:
        is_pattern = selection.pattern_type is binding.pattern_type and selection.name in {None, binding.name}
    return is_pattern and all(
        (
            selection.resource is Resource.ANY or selection.resource is binding.resource,
            selection.principal is None or selection.principal == binding.principal,
            selection.host is None or selection.host == binding.host,
            selection.operation is Operation.ANY or selection.operation is binding.operation,
            selection.permission is Permission.ANY or selection.permission is binding.permission,
        )
    )

"""The authorizer: decides whether a principal may perform an operation on a resource.

The rules are those of Kafka's StandardAuthorizer, and the answers are compared with recorded ones of Kafka 4.3.1. In
order:

1. A super user may do everything, whatever ACLs say. Super users are compared as text with the whole principal:
   `User:*` in `super.users` is a user with the name `*`, not every user.
2. A DENY that applies decides, even if a more specific ALLOW exists.
3. An ALLOW that applies decides. Only an ALLOW implies other operations: an ALLOW of READ, WRITE, DELETE or ALTER
   allows DESCRIBE, and one of ALTER_CONFIGS allows DESCRIBE_CONFIGS, but a DENY of READ does not deny DESCRIBE.
4. If no ACL was found for the resource, `allow.everyone.if.no.acl.found` decides. An ACL is found if its pattern
   applies to the resource's name, LITERAL, PREFIXED or `*`, whatever its principal, host and operation are. So one
   ACL for a prefix closes all resources with that prefix to all other principals, and one for `*` closes the type.
5. Otherwise the operation is denied.

An ACL applies if its pattern, its principal, its host and its operation do. `User:*` stands for every principal, also
for those of another type, and no other principal with a `*` is a wildcard. The operation ALL stands for all of them.
CLUSTER has no rule of its own: it is a resource with one name, so an ACL with the name `*`, which a broker does not
accept, would apply to it, and a PREFIXED ACL of the name `kafka-cluster` is as good as a LITERAL one.

How it scales: adding or removing a binding takes the same time whatever the number of ACLs. `authorize` looks into one
dict for each distinct length of the prefixes of the resource type, at most the length of the name, and into four for
each pattern that applies. `authorize_by_resource_type` reads the patterns that name the principal or `User:*`.
The state is changed in place and belongs to one event loop.

Kafka 4.3.1 answers differently in four cases, which look like mistakes and are not copied:

- An IPv6 address in an ACL applies only in Java's spelling; here in every spelling (`canonical_host`).
- A wildcard ACL does not apply to names of two or more characters that start with `*`; here it does. Groups and
  transactional ids can have such names, and a DENY for all of them should not leave these open.
- For names that sort before `*`, such as the group `#abc`, Kafka's search can fail with an exception; here it does not.
- `authorize_by_resource_type` depends on ACLs for the name "hardcode"; here it does not.
"""

from collections.abc import Iterable, Iterator

from tailrace.base.invariant import invariant
from tailrace.machines.authorization.binding import AclBinding
from tailrace.machines.authorization.host import canonical_host
from tailrace.machines.authorization.pattern_index import Holder, Pattern, PatternIndex, PrefixSet
from tailrace.machines.authorization.vocabulary import (
    IMPLIED_BY,
    SUPPORTED_OPERATIONS,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Operation,
    PatternType,
    Resource,
)

_EXACT = {operation: 1 << operation | 1 << Operation.ALL for operation in Operation}
"""The operations of an ACL that name an operation: itself and ALL."""

_ALLOWING = {
    operation: _EXACT[operation] | sum(1 << other for other in IMPLIED_BY.get(operation, ())) for operation in Operation
}
"""The operations whose ALLOW allows an operation."""


class Authorizer:
    """The ACLs of a cluster, with the super users and the answer where there are none."""

    def __init__(
        self,
        bindings: Iterable[AclBinding] = (),
        *,
        super_users: frozenset[str] = frozenset(),
        allow_everyone_if_no_acl_found: bool = False,
    ) -> None:
        self.super_users = super_users
        self.allow_everyone_if_no_acl_found = allow_everyone_if_no_acl_found
        self._bindings: set[AclBinding] = set()
        self._indexes: dict[Resource, PatternIndex] = {}
        for binding in bindings:
            self.add(binding)

    def __len__(self) -> int:
        return len(self._bindings)

    def add(self, binding: AclBinding) -> bool:
        """Add a binding, which must be valid; return False if it was there already."""
        if binding in self._bindings:
            return False
        self._indexes.setdefault(binding.resource, PatternIndex()).add(binding)
        self._bindings.add(binding)
        return True

    def remove(self, binding: AclBinding) -> bool:
        """Remove a binding; return False if it was not there."""
        if binding not in self._bindings:
            return False
        self._indexes[binding.resource].remove(binding)
        self._bindings.remove(binding)
        return True

    def authorize(self, principal: str, host: str, operation: Operation, resource: Resource, name: str) -> bool:
        """Whether a principal on a host may perform an operation on a resource."""
        granted = self._granted(principal, host, operation, resource, name)
        return self.allow_everyone_if_no_acl_found if granted is None else granted

    def is_granted(self, principal: str, host: str, operation: Operation, resource: Resource, name: str) -> bool:
        """Whether an ACL or `super.users` names a principal; `allow.everyone.if.no.acl.found` does not count."""
        return bool(self._granted(principal, host, operation, resource, name))

    def _granted(self, principal: str, host: str, operation: Operation, resource: Resource, name: str) -> bool | None:
        if principal in self.super_users:
            return True
        return _decide(operation, self._applying_to(resource, name), _holders(principal, host))

    def authorize_by_resource_type(self, principal: str, host: str, operation: Operation, resource: Resource) -> bool:
        """Whether a principal may perform an operation on at least one resource of a type (KIP-679).

        The rules differ from those of `authorize`, as in Kafka:

        - A wildcard DENY denies. Otherwise a wildcard ALLOW allows, however many other patterns are denied.
        - A LITERAL ALLOW allows unless a LITERAL DENY has the same name or a PREFIXED DENY a prefix of it. A PREFIXED
          ALLOW allows unless a PREFIXED DENY has the same prefix or a shorter one; a LITERAL DENY takes one resource
          away from it, and others are left.
        - Operations are implied by a wildcard ALLOW alone. Kafka asks only for WRITE, which no operation implies.
        - With `allow.everyone.if.no.acl.found`, every principal is allowed unless there is a wildcard ACL: without
          one, some resource has no ACL.

        Kafka decides the rules for wildcards by a look at the resource with the name "hardcode", and so its answer
        also depends on ACLs that happen to apply to this name. Here it does not.
        """
        invariant(operation not in {Operation.UNKNOWN, Operation.ANY}, f"{operation.name} is for filters")
        invariant(resource in SUPPORTED_OPERATIONS, f"{resource.name} is for filters")
        index, holders = self._indexes.get(resource, PatternIndex()), _holders(principal, host)
        wildcard = [] if index.wildcard is None else [index.wildcard]
        if principal in self.super_users or self._is_allowed(operation, wildcard, holders):
            return True
        allowed: list[tuple[PatternType, str]] = []
        denied_literals: set[str] = set()
        denied_prefixes = PrefixSet()
        for pattern_type, name, grant in index.held_by(holders):
            if grant.allowed & _EXACT[operation]:
                allowed.append((pattern_type, name))
            if not grant.denied & _EXACT[operation]:
                continue
            if pattern_type is PatternType.PREFIXED:
                denied_prefixes.add(name)
            elif name == WILDCARD:
                return False
            else:
                denied_literals.add(name)
        return any(
            not denied_prefixes.cover(name)
            for pattern_type, name in allowed
            if pattern_type is PatternType.PREFIXED or name not in denied_literals
        )

    def _applying_to(self, resource: Resource, name: str) -> Iterator[Pattern]:
        index = self._indexes.get(resource)
        return iter(()) if index is None else index.applying_to(name)

    def _is_allowed(self, operation: Operation, patterns: Iterable[Pattern], holders: Iterable[Holder]) -> bool:
        """Apply rules 2 to 5 to the patterns that apply to a resource."""
        decided = _decide(operation, patterns, holders)
        return self.allow_everyone_if_no_acl_found if decided is None else decided


def _decide(operation: Operation, patterns: Iterable[Pattern], holders: Iterable[Holder]) -> bool | None:
    """Whether the ACLs of the patterns that apply to a resource allow an operation; None if there are no such ACLs."""
    exact, allowing = _EXACT[operation], _ALLOWING[operation]
    is_found = is_allowed = False
    for pattern in patterns:
        is_found = True
        for holder in holders:
            if (grant := pattern.get(holder)) is not None:
                if grant.denied & exact:
                    return False
                is_allowed = is_allowed or bool(grant.allowed & allowing)
    return is_allowed if is_found else None


def _holders(principal: str, host: str) -> tuple[Holder, ...]:
    """Return the holders whose grants apply to a principal on a host."""
    address = canonical_host(host)
    return (
        (principal, address),
        (principal, WILDCARD),
        (WILDCARD_PRINCIPAL, address),
        (WILDCARD_PRINCIPAL, WILDCARD),
    )

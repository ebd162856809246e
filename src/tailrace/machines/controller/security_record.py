"""The records of ACLs and delegation tokens."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tailrace.machines.authorization.binding import AclBinding
from tailrace.machines.authorization.vocabulary import Operation, PatternType, Permission, Resource


class AclPattern(NamedTuple):
    """The resources that ACLs apply to; the store has one node for each pattern."""

    resource: Resource
    pattern_type: PatternType
    name: str


class AclEntry(NamedTuple):
    """What one ACL of a pattern allows or denies."""

    principal: str
    host: str
    operation: Operation
    permission: Permission


@dataclass(frozen=True, slots=True)
class AclRecord:
    """All ACLs of one pattern, sorted and each once; without entries there are none."""

    pattern: AclPattern
    entries: tuple[AclEntry, ...]

    def bindings(self) -> Iterator[AclBinding]:
        """Yield the ACLs with their pattern, as the authorizer has them."""
        resource, pattern_type, name = self.pattern
        for principal, host, operation, permission in self.entries:
            yield AclBinding(resource, name, pattern_type, principal, host, operation, permission)


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """A delegation token. Its secret is not stored: brokers compute it from the id and a key that they share.

    The requester created the token for the owner, which the token authenticates. The owner and the renewers may extend
    its life, up to the maximum. Times are milliseconds since the epoch, and principals have the form TYPE:NAME.
    """

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp: int
    expiry_timestamp: int
    max_timestamp: int


@dataclass(frozen=True, slots=True)
class TokenRemoved:
    """A delegation token was removed: it expired, or its owner ended it."""

    token_id: str

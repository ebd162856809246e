"""The rights of the users of the table. Each user has one set of ACLs and is named by its place in the list.

A set is written as `READ TOPIC t, DENY WRITE TOPIC t`. `*` is the wildcard, and `PREFIXED TOPIC t` applies to every
topic whose name starts with t.
"""

from __future__ import annotations

from tailrace.machines.authorization.binding import AclBinding
from tailrace.machines.authorization.vocabulary import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    Operation,
    PatternType,
    Permission,
    Resource,
)

NOTHING = "nothing"
EVERYTHING = f"ALL TOPIC *, ALL GROUP *, ALL TRANSACTIONAL_ID *, ALL CLUSTER {CLUSTER_NAME}"
NAMES = {
    Resource.TOPIC: "t",
    Resource.GROUP: "g",
    Resource.CLUSTER: CLUSTER_NAME,
    Resource.TRANSACTIONAL_ID: "x",
    Resource.DELEGATION_TOKEN: "*",
    Resource.USER: "User:owner",
}


def every_single_right() -> list[str]:
    """Return every operation on one resource of every type, and ALL of them."""
    return [
        f"{operation.name} {resource.name} {name}"
        for resource, name in NAMES.items()
        for operation in (*SUPPORTED_OPERATIONS[resource], Operation.ALL)
    ]


COMMON = [NOTHING, *every_single_right(), "ALL TOPIC *", "ALL PREFIXED TOPIC t", EVERYTHING]
"""The sets with which every case is asked."""


def bindings(grants: str, user: str) -> list[AclBinding]:
    """Return the ACLs of a user with this set of rights."""
    return [] if grants == NOTHING else [_binding(text, user) for text in grants.split(", ")]


def _binding(text: str, user: str) -> AclBinding:
    *words, name = text.split(" ")
    permission = Permission.ALLOW
    if words[0] == Permission.DENY.name:
        permission = Permission[words.pop(0)]
    operation, resource = Operation[words[0]], Resource[words[-1]]
    pattern_type = PatternType.PREFIXED if PatternType.PREFIXED.name in words else PatternType.LITERAL
    return AclBinding(resource, name, pattern_type, f"User:{user}", "*", operation, permission)

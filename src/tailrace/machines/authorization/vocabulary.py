"""Kafka's vocabulary of access control: its codes, its special names, and what is supported and implied."""

from collections.abc import Mapping

from tailrace.protocol.acl_code import Operation, PatternType, Permission, Resource

__all__ = [
    "CLUSTER_NAME",
    "IMPLIED_BY",
    "SUPPORTED_OPERATIONS",
    "WILDCARD",
    "WILDCARD_PRINCIPAL",
    "Operation",
    "PatternType",
    "Permission",
    "Resource",
]

WILDCARD = "*"
"""In an ACL: as a LITERAL name every resource of the type, as a host every host."""

WILDCARD_PRINCIPAL = "User:*"
"""The principal of an ACL for every principal, also for those of another type than User."""

CLUSTER_NAME = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""

SUPPORTED_OPERATIONS: Mapping[Resource, tuple[Operation, ...]] = {
    Resource.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    Resource.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    Resource.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    Resource.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT),
    Resource.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    Resource.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""The operations that a broker asks for on each type of resource, as Kafka 4.3 has them."""

IMPLIED_BY: Mapping[Operation, tuple[Operation, ...]] = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}
"""The operations whose ALLOW also allows another operation. Their DENY does not deny it."""

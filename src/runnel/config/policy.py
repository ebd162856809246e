"""Checks that broker defaults and topic options share, because one gives the other its value."""

from runnel.config.check import Check, one_of, only

TIMESTAMP_TYPE = one_of("CreateTime", "LogAppendTime")
COMPRESSION = only("producer", "the broker keeps the compression of the producer and cannot change it yet")

_POLICIES = frozenset({"compact", "delete"})

CLEANUP_POLICY: Check[tuple[str, ...]] = Check(
    "delete, compact, or both", lambda policy: 0 < len(policy) == len(set(policy)) and _POLICIES.issuperset(policy)
)

"""Checks that broker defaults and topic options share, because one gives the other its value."""

from tailrace.config.check import Check, between, one_of

TIMESTAMP_TYPE = one_of("CreateTime", "LogAppendTime")
COMPRESSION = one_of("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")
GZIP_LEVEL_DEFAULT, LZ4_LEVEL_DEFAULT, ZSTD_LEVEL_DEFAULT = -1, 9, 3
GZIP_LEVEL: Check[int] = Check("between 1 and 9, or -1", lambda level: level == -1 or 1 <= level <= 9)
LZ4_LEVEL = between(1, 17)
ZSTD_LEVEL = between(-131072, 22)

_POLICIES = frozenset({"compact", "delete"})

# Nothing at all means that no record is ever removed (Kafka 4.1).
CLEANUP_POLICY: Check[tuple[str, ...]] = Check(
    "delete, compact, both, or empty",
    lambda policy: len(policy) == len(set(policy)) and _POLICIES.issuperset(policy),
)

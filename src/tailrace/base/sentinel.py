"""Bounds of Kafka's integer types, and the values that stand for "none", "unknown" and "all" in its messages and files.

Those that belong to the header of a batch (`NO_PRODUCER_ID`, `NO_SEQUENCE`, `NO_TIMESTAMP`) are in `records/batch.py`.
"""

INT32_MAX = 2**31 - 1
INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1

NO_OFFSET = -1
NO_EPOCH = -1
NO_BROKER = -1
NO_BROKER_EPOCH = -1

ACKS_ALL = -1
CONSUMER_REPLICA_ID = -1
"""The replica id in requests of consumers, which are replicas of nothing."""

"""The limits of mirrors, each with its reason."""

MIB = 1024 * 1024

# Spans of offsets that a mirror remembers for each partition, with 100 bytes each. A transaction adds about one, at
# most ten in a second, so offsets of the last 15 minutes are translated exactly, and older ones with a few repeated
# records.
MIRROR_SPANS_KEPT_MAX = 16_384

# Offset syncs of one partition in one transaction. More are needed only for compacted topics, whose offsets have
# gaps; those that are left out cost repeated records after a failover.
MIRROR_SYNCS_PER_COMMIT_MAX = 32

# Bytes that one fetch of a task takes from a broker, and from a partition. The next fetch runs while the task
# writes these, so a task holds twice as much for each broker of the source.
MIRROR_FETCH_BYTES_MAX = 16 * MIB
MIRROR_PARTITION_FETCH_BYTES_MAX = 4 * MIB

# The longest text of an error in the state of a topic.
MIRROR_ERROR_LENGTH_MAX = 500

# Groups whose offsets are translated at the same time. Each needs up to three requests.
MIRROR_GROUPS_IN_FLIGHT_MAX = 32

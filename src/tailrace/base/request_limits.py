"""The fixed limits on what one request may cost besides its own bytes, each with its reason. See `limits`."""

# Names that one request repeats and that are answered again, as in Kafka. Clients do not repeat a name, and the
# description of a group can be a thousand times larger than its name. Further repetitions are not answered.
REPEATED_NAMES_MAX = 10

# Partitions in the fetch sessions of all clients. One takes about 360 bytes, and clients that have left keep theirs for
# two minutes. A client that gets no session names its partitions with every fetch.
FETCH_SESSION_PARTITIONS_MAX = 1_000_000

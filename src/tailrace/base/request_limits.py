"""The fixed limits on what one request may cost besides its own bytes, each with its reason. See `limits`."""

# Names that one request repeats and that are answered again, as in Kafka. Clients do not repeat a name, and the
# description of a group can be a thousand times larger than its name. Further repetitions are not answered.
REPEATED_NAMES_MAX = 10

# Partitions in the fetch sessions of all clients. One takes about 360 bytes, and clients that have left keep theirs for
# two minutes. A client that gets no session names its partitions with every fetch.
FETCH_SESSION_PARTITIONS_MAX = 1_000_000

# The memory of a compiled regular expression. A pattern of 15 characters can need megabytes, and the time of a match
# grows with them: at this size, 3 ms for the longest topic name. An alternation of 120 topic names still fits.
REGEX_BYTES_MAX = 64 * 1024

# Different regular expressions in the subscriptions of one group, all of which are matched against all topics. Members
# use the same one, and two while their program is being replaced.
GROUP_REGEXES_MAX = 100

# Protocols that a member of a classic group may support. They are kept as long as the member, and the names of all
# members are counted in every decision. Consumers list their assignors, one to five; Kafka has no limit.
GROUP_MEMBER_PROTOCOLS_MAX = 100

# Problems with the configs of a topic that one error lists. The rest of its configs is not looked at: an unknown name
# is compared with all that are known, which takes 0.3 ms.
CONFIG_PROBLEMS_MAX = 20

# The longest name for which a similar one is suggested; no topic name is longer. The search takes 10 ms for the longest
# name of the protocol.
SUGGESTION_NAME_LENGTH_MAX = 249

# Bytes of batches that are opened for one produce request before the broker looks whether its client is still there.
# If it is not, the request is refused. Producers send a megabyte at a time, which opens a tenth of this.
OPENED_BYTES_UNATTENDED_MAX = 256 * 1024 * 1024

"""Every bound in Runnel, with its reason.

A bound that users may move is a configuration option and only its default stands there;
these are the ones that protect the process itself.
"""

MIB = 1024 * 1024

# One request may not make the broker create folders for minutes; Kafka's controller has the same bound.
PARTITIONS_PER_REQUEST_MAX = 10_000

# Records that the controller commits together. ZooKeeper takes a megabyte, and a partition's node with its path is some
# hundred bytes; a group of changes may come to be twice this.
RECORDS_PER_COMMIT_MAX = 500

# Partitions that are made or removed with their topic in one commit. Larger topics take several: they must not
# exceed a megabyte with the longest names, and nobody sees them before the last.
TOPIC_RECORDS_TOGETHER_MAX = 1_000

# How often the controller decides again because a leader was faster, and how long it rests before it settles again.
# Leaders write a partition's state when its ISR changes, which is rare, so the second attempt succeeds.
DECISION_ATTEMPTS_MAX = 20
SETTLE_AGAIN_S = 0.01

# How long what runs as long as a broker rests when a bug has ended it. Long enough to keep the log file readable.
ENDLESS_AGAIN_S = 1.0

# How long a broker waits for the controller to make a topic that a client named or a group needs.
CONTROLLER_ANSWER_MS = 10_000

# Elements of all arrays of one request. Reading two hundred thousand takes a fifth of a second, which others wait; the
# largest honest requests name each partition that a client reads, some ten thousands.
REQUEST_ELEMENTS_MAX = 200_000

# No client sends any; the protocol allows more than memory holds.
HEADER_TAGGED_FIELDS_MAX = 64

# A client id or topic name in a log line: enough to recognise it, too little to flood the log.
LOG_TEXT_LENGTH_MAX = 200

# An error message quotes what the peer sent, which may be as long as a string of the protocol can be; the message must
# still fit into one.
ERROR_MESSAGE_LENGTH_MAX = 1000

# One receive buffer serves all connections of an event loop; a frame larger than what is left
# in it is read straight into its own memory.
RECEIVE_SCRATCH_BYTES = 64 * 1024

# The memory of a half-read frame is at most this many times what its sender has really sent. Sixteen, so that the usual
# request of 1 MB grows once, from what the first read of 64 KiB brought.
FRAME_GROWTH_FACTOR = 16
FRAME_FIRST_BYTES_MIN = 64

# What a frame in a queue costs besides its bytes; a peer that sends tiny ones would be counted too low without it.
FRAME_OVERHEAD_BYTES = 128

# How far a connection reads ahead while one of its requests is being served. A peer that has one
# long request served could otherwise keep as much memory as it likes, for as long as it likes.
READ_AHEAD_FRAMES_MAX = 16
READ_AHEAD_BYTES_MAX = 1 * MIB

# How much is read at once while requests fill the memory: small requests are still answered, and
# ten thousand connections together take some tens of megabytes more.
FULL_MEMORY_READ_BYTES = 4 * 1024

# A peer that does not read its replies holds at most one reply beyond this; and when all such peers
# together hold too much, fetch replies become as small as one batch.
WRITE_BUFFER_BYTES_MAX = 64 * 1024
REPLY_BACKLOG_BYTES_MAX = 256 * MIB

# Descriptors kept free for the metadata store, listeners, files that are written or synced at once, and files that are
# about to be closed. What else the process may have is shared out between segments and connections.
RESERVED_DESCRIPTORS = 100

# A compressed batch is opened to be checked. A batch of 1 MB that shrank sixtyfold still fits, and a few may be open at
# the same time. Producers split and resend what is refused as too large, so nothing honest is lost.
DECOMPRESSED_BATCH_BYTES_MAX = 64 * MIB

# Producers write one gzip member or zstd frame a batch. Kafka reads on, and so do we, but a batch of nothing but empty
# ones would cost a decompressor each.
COMPRESSED_STREAMS_PER_BATCH_MAX = 64

# A refused batch names the records that are to blame; more names than these help nobody.
RECORD_ERRORS_PER_BATCH_MAX = 64

# How often connections are looked through for idle and stalled ones.
CONNECTION_SWEEP_INTERVAL_S = 1.0

# Oddities of one peer that are logged; the rest of them are kept quiet.
NOTES_PER_CONNECTION_MAX = 8

# Producer ids reserved at a time; a restart wastes at most this many of 2**63.
PRODUCER_ID_BLOCK_SIZE = 1000

# A frame's pieces below this are joined before they are written: copying 16 KiB costs less
# than one more entry in the kernel's vector. Larger pieces are records, and stay uncopied.
FRAME_PIECE_JOINED_BYTES_MAX = 16 * 1024

# Storage: how much of a segment is read at once. A scan reads much, because it reads everything; a
# lookup starts at most one index interval (4 KiB) before its batch, and two pages mostly hold it.
SCAN_CHUNK_BYTES = MIB
LOOKUP_CHUNK_BYTES = 8192

# How much of a log's end is searched, once after a start, for batches that a producer repeats. It happens on the event
# loop; the at most four batches before a producer's last are hardly ever further away.
RECALL_BYTES_MAX = 4 * MIB

# Logs compacted at the same time, however many log.cleaner.threads asks for: the disk and the interpreter are shared.
COMPACTION_THREADS_MAX = 16

# Segments that one compacted segment may take the place of: while it does, each of them is open for its readers.
COMPACTION_GROUP_SEGMENTS_MAX = 64

# Compaction syncs what it writes after this much: a fraction of a second of a disk's work.
COMPACTION_SYNC_BYTES = 16 * MIB

# How much a throttled thread that was woken late may catch up with (Kafka's period), and the shortest rest: shorter
# ones are mostly waking up.
THROTTLE_CREDIT_MS = 300
THROTTLE_REST_MS_MIN = 20

# The longest rest before a throttled thread or follower looks at the rate again, which an operator may have raised.
THROTTLE_REST_MS_MAX = 500

# What compaction reads and writes at once, however little log.cleaner.io.buffer.size asks for.
COMPACTION_CHUNK_BYTES_MIN = 16 * 1024

# Cold reads, decompression and flushes off the event loop; more threads would only queue for the disk.
WORKER_THREADS_MAX = 4

# Logs that are made or closed at the same time. Their fsyncs wait for the same commits of the file system's journal:
# sixteen together take little longer than one.
SYNCING_LOGS_MAX = 16

# A fetch session may be evicted for a new one when it has not been used for this long (Kafka's value).
FETCH_SESSION_EVICTION_MS = 120_000

# How often producers that have fallen silent are looked for (Kafka's value).
PRODUCER_EXPIRY_INTERVAL_S = 600

# The embedded metadata store, in the first log folder.
STORE_FILE_NAME = "cluster-metadata.sqlite"

# ZooKeeper drops the connection of who sends more than jute.maxbuffer, which is 1,048,575 bytes by default, headers
# included.
ZOOKEEPER_COMMIT_BYTES_MAX = 1_040_000

# Reads of znodes in one request: enough that the request costs little beside them, few enough that the answer stays
# small where values are.
ZOOKEEPER_READS_PER_REQUEST = 200

# Changes of others can make the plan of a transaction old before it arrives. Each try knows what made the one before
# it fail, so even two are rarely needed.
ZOOKEEPER_PLANS_MAX = 10

# A compressed batch up to this size is opened on the event loop; handing it to a thread costs more.
CHECK_IN_LOOP_BYTES_MAX = 16 * 1024

# Small as it is, such a batch may become 64 MiB. One that becomes larger than this goes to a thread after all.
OPEN_IN_LOOP_BYTES_MAX = 256 * 1024

# After so many bytes of records have been checked for one request, others get the event loop or the thread.
CHECK_TURN_BYTES_MAX = 1 * MIB

# How often logs are looked through for flushes that are due; flush.ms is honoured to this precision.
FLUSH_CHECK_INTERVAL_S = 1.0

# How many logs are looked at for retention before others have the event loop. Most have nothing to let go and take some
# microseconds, less than a turn of the loop.
CARE_TURN_PARTITIONS = 64

# How often deleted files are looked at; file.delete.delay.ms is honoured to this precision.
DELETION_CHECK_INTERVAL_S = 1.0

# A client takes replies up to this. A fetch asks for 32 MiB at most and gets one batch beyond that; what claims more
# is no Kafka broker (the first bytes of an HTTP answer would be 1.2 GB).
RESPONSE_BYTES_MAX = 256 * MIB

# A producer takes no more records while this much waits for acknowledgement (Kafka's buffer.memory).
PRODUCE_BUFFER_BYTES_MAX = 32 * MIB

# One produce request holds the batches of some partitions, not of all: some are acknowledged while others travel.
PRODUCE_REQUEST_BYTES_MAX = 4 * MIB

# What one fetch asks for, and what a reader holds of data that nobody has looked at yet.
FETCH_BYTES_MAX = 32 * MIB
FETCH_BUFFER_BYTES_MAX = 64 * MIB

# Topic ids come again and again, and building one costs more than decoding the rest of a small
# request. Enough for the topics of a large broker; a peer that invents ids only empties the store.
UUIDS_REMEMBERED_MAX = 8192

# `runnel produce` takes a line for a record up to this; no topic takes larger ones without being told to.
LINE_BYTES_MAX = 64 * MIB

# Records become Arrow columns in parts of about this size: large enough that what a part costs by itself
# does not count, small enough that the memory of one is used again for the next.
COLUMN_CHUNK_BYTES_MAX = 8 * MIB

# Storage: descriptors of all segments together, where the process may have more. Two in three may belong to mapped
# indexes, and the kernel allows a process 65,530 mappings.
SEGMENT_DESCRIPTORS_MAX = 60_000

# Storage: where there is no descriptor left, segments that are in use or not synced are passed by so many times; then
# the oldest goes. Looking through thousands for a better one would cost more than opening it again.
SECOND_CHANCES_MAX = 16

# Storage: files that wait in a worker thread to be synced and closed. Whoever opens one more waits for the disk.
CLOSING_FILES_MAX = 16

# Spark: rows come in small batches, by ten thousand; this much of them is encoded together, as few large batches.
SPARK_WRITE_BYTES = 4 * MIB

# Spark: clusters that a Python worker stays connected to between micro-batches. Jobs talk to one or two.
SPARK_CLUSTERS_KEPT_MAX = 16

# Spark: runs of queries for which a Python worker remembers the transactional ids it has used. A worker serves a few
# queries, each of which has a new run when it is restarted; beyond this it takes a new name.
SPARK_RUNS_KEPT_MAX = 256

# Spark: runs of a query that a claim of its sink lists. A driver that comes back after this many restarts of its
# successor is taken for a new run; its batches are then refused by their numbers alone. A claim of 1,000 runs is 39 KB.
SPARK_RUNS_CLAIMED_MAX = 1_000

# Spark: open transactions of dead attempts that one search aborts. A claim lists them in one record, of which they
# take this much at most, some 3,000 of them; what is more waits for the next search.
SPARK_REMAINS_BYTES_MAX = 500_000

# Spark: partitions of the topic with the decisions about micro-batches, so that queries seldom wait for each other.
SPARK_DECISION_PARTITIONS = 8

# Spark: a decision names every transaction of a micro-batch in one record, which brokers and clients take up to a
# megabyte by default. About 7,500 tasks with rows fit.
SPARK_DECISION_BYTES_MAX = 1_000_000

# Spark: how often, at least, a driver looks for transactions that attempts of tasks have left open without a word.
# Readers of committed records wait for as long, and a look is one request to each broker.
SPARK_SEARCH_INTERVAL_MS = 60_000

# Spark: transactions of one micro-batch that are ended at the same time.
SPARK_ENDS_IN_FLIGHT_MAX = 16

# Spark: restarts in a row of a flow that failed for a reason that can pass. The waits in between add up to two
# minutes, in which a broker is restarted and a busy machine has room again; after that a person should look.
PIPELINE_RESTARTS_MAX = 8

# Spark: the wait before a flow is started again, which doubles from the first to the last. A broker needs a second to
# start, and half a minute is not long for brokers that have been away for minutes.
PIPELINE_RESTART_WAIT_S_MIN = 1.0
PIPELINE_RESTART_WAIT_S_MAX = 30.0

# Spark: a flow that has worked for this long since its last start is taken for healthy, and its restarts are counted
# anew. It is longer than the longest wait, so that a flow that fails as often as it works is not started for ever.
PIPELINE_HEALTHY_S = 60.0

# The hashes of this many keys are remembered where the hash is Python's, which costs more than everything else about a
# record. Keys come again, and a table of this size takes about a megabyte.
HASHED_KEYS_REMEMBERED_MAX = 8192

# A long poll ends after this long whatever it asked for; the client simply asks again.
FETCH_WAIT_MS_MAX = 5 * 60 * 1000

# A client keeps this much memory for the replies of one connection and uses it again: three or four fetches of one
# partition, of which one arrives, one waits and one is being read. Smaller replies are not worth keeping memory for.
FRAME_POOL_BYTES_MAX = 32 * MIB
FRAME_POOLED_BYTES_MIN = 256 * 1024

# Groups: compiled regular expressions of subscriptions that are kept. A broker sees a handful; a member that sends a
# new one with every heartbeat must not fill the memory.
SUBSCRIPTION_REGEX_CACHE_COUNT_MAX = 128

# Ids of one classic group that were given out and not used yet. Each lives for a session timeout, which may be half an
# hour; without a bound a client that asks and never joins would fill the memory. Kafka has none.
GROUP_PENDING_MEMBERS_MAX = 1000

# What a member of a classic group may say about itself, in all of its protocols together. One of them goes into a batch
# of a megabyte with those of all other members, so this is generous; Kafka takes what fits into a request.
GROUP_MEMBER_METADATA_BYTES_MAX = 4 * MIB

# The client id or instance id with which a member id begins; what is longer would not leave room for the rest in a
# string of the protocol.
GROUP_MEMBER_ID_PREFIX_LENGTH_MAX = 255

# Metrics: series of one kind, by group, topic and partition. Prometheus bears with tens of thousands from one target,
# and a scrape of these takes some megabytes.
METRIC_LAG_SERIES_MAX = 50_000

# Metrics: the longest group id that becomes a label; the protocol allows 32 KB. Topic names are at most 249 long.
METRIC_LABEL_LENGTH_MAX = 255

# Metrics: after so much time others get the event loop. The lag of tens of thousands of partitions takes half a second.
METRIC_TURN_S = 0.002

# Metrics: scrapes at a time, the size of a request's head, and the time in which one has to be over. Prometheus gives
# up after ten seconds by default; whoever else comes here gets no more than that, either.
METRIC_CONNECTIONS_MAX = 16
METRIC_REQUEST_BYTES_MAX = 8 * 1024
METRIC_REQUEST_TIMEOUT_S = 10.0

# Groups: different sets of group options whose meaning is remembered. Groups rarely have any of their own.
GROUP_SETTINGS_REMEMBERED_MAX = 1000

# Changes of ISRs that are on their way to the metadata store at once. When a broker comes back, thousands of followers
# join within a second; each is a write of its own, and ZooKeeper answers many of them together.
ISR_CHANGES_AT_ONCE_MAX = 64

# How long another broker may take to accept a connection. It is near; waiting longer would only delay the fetches of
# partitions whose leader is elsewhere by now.
PEER_CONNECT_MS = 10_000

# How long a fetcher waits for more of the same when it gets partitions to fetch while a fetch is waiting: those of an
# election come one after the other, and each time its connection is made anew.
FETCHER_GATHER_S = 0.01

# How many bytes a fetcher appends before others have the event loop.
FETCHER_TURN_BYTES_MAX = 2 * MIB
# Copying metadata into ZooKeeper: paths and values in one commit. A server takes a megabyte at once (`jute.maxbuffer`),
# with some tens of bytes more for each node.
MIGRATION_COMMIT_BYTES_MAX = MIB // 4

# Metadata of a broker that is alone: room on the disk that is kept for it, for a start on a full disk. A start after a
# crash writes some 200 bytes for each partition.
METADATA_RESERVE_BYTES = MIB

# How long another broker may take to answer what is asked about transactions. Its answer waits for replicas, as long as
# MARKER_COMMIT_MS.
PEER_ANSWER_MS = 40_000

# How many transactions one request between brokers may be about, so that no request is too large to be read.
PEER_BATCH_COUNT_MAX = 1_000

# How long the end of a transaction may take to be on all replicas in sync before its coordinator is told to try again;
# Kafka's request.timeout.ms.
MARKER_COMMIT_MS = 30_000

# How long a coordinator waits before it sends the end of a transaction again that a partition's leader did not take.
# There may be none at the moment, and elections take longer than this.
MARKER_RETRY_MS = 100

# How long after it was decided the end of a transaction counts as late. A healthy cluster needs milliseconds; the
# election of another leader is over by then, mostly.
TRANSACTION_END_LATE_MS = 5_000

# For how much longer than any transaction may last one has to be open in a log before its partition counts as one with
# a late transaction; as in Kafka.
TRANSACTION_LATE_MS = 300_000

# How long what a coordinator of transactions decides may take to be on all replicas in sync before the producer is told
# to ask again; as long as the offsets of groups may take.
TRANSACTION_COMMIT_MS = 5_000

# How many transactional ids are remembered in the form of their keys in the log; about as many as are active at once.
TRANSACTIONAL_ID_CACHE_COUNT = 4_096

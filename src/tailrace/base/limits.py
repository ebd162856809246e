"""The fixed limits of Tailrace, each with its reason.

A limit that users may change is a config, and only its default is defined there. The limits here
protect the process itself.
"""

MIB = 1024 * 1024

# So that one request cannot make the broker create folders for minutes. Kafka's controller has the same limit.
PARTITIONS_PER_REQUEST_MAX = 10_000

# Records that the controller writes in one commit. ZooKeeper accepts a megabyte, and a partition's node with its path
# has a few hundred bytes. A group of changes may exceed this by a factor of two.
RECORDS_PER_COMMIT_MAX = 500

# Partitions that are created or removed with their topic in one commit. Larger topics take several commits: one must
# not exceed a megabyte with the longest names. The topic becomes visible with the last commit.
TOPIC_RECORDS_TOGETHER_MAX = 1_000

# How often the controller repeats a decision because a leader wrote first, and the delay before it elects leaders
# again. Leaders write a partition's state only when its ISR changes, so the second attempt succeeds.
DECISION_ATTEMPTS_MAX = 20
SETTLE_AGAIN_S = 0.01

# Delay before a background task that crashed is restarted. Long enough to keep the log file readable.
BACKGROUND_RESTART_S = 1.0

# How long a broker waits for the controller to create a topic that a client named or a group needs.
CONTROLLER_ANSWER_MS = 10_000

# Elements of all arrays of one request. Decoding two hundred thousand takes a fifth of a second, which blocks other
# clients. The largest legitimate requests name each partition that a client reads, a few tens of thousands.
REQUEST_ELEMENTS_MAX = 200_000

# Addresses whose canonical form the authorizer remembers: about as many as there are clients of a broker. Parsing an
# address costs as much as the rest of a decision.
CANONICAL_HOSTS_MAX = 4_096

# Clients send none; the protocol allows more than fit into memory.
HEADER_TAGGED_FIELDS_MAX = 64

# The length of a client id or topic name in a log line: enough to recognise it, too short to flood the log.
LOG_TEXT_LENGTH_MAX = 200

# An error message quotes data of the peer, which may be as long as the longest string of the protocol. The message must
# itself fit into a string.
ERROR_MESSAGE_LENGTH_MAX = 1000

# One receive buffer serves all connections of an event loop. A frame larger than the rest of the buffer is read
# directly into memory of its own.
RECEIVE_SCRATCH_BYTES = 64 * 1024

# The memory of a partly received frame is at most this many times the bytes received. Sixteen, so that the usual
# request of 1 MB grows once after the first read of 64 KiB.
FRAME_GROWTH_FACTOR = 16
FRAME_FIRST_BYTES_MIN = 64

# The cost of a queued frame besides its bytes. Without it, the queue of a peer that sends tiny frames is undercounted.
FRAME_OVERHEAD_BYTES = 128

# How far a connection reads ahead while one of its requests is being served. Otherwise a peer with a slow request could
# make the broker hold any amount of memory.
READ_AHEAD_FRAMES_MAX = 16
READ_AHEAD_BYTES_MAX = 1 * MIB

# How much is read at once when requests fill the memory: small requests are still answered, and ten thousand
# connections together use some tens of megabytes more.
FULL_MEMORY_READ_BYTES = 4 * 1024

# A peer that does not read its replies holds at most one reply beyond this. When all such peers together exceed the
# second limit, fetch replies shrink to one batch.
WRITE_BUFFER_BYTES_MAX = 64 * 1024
REPLY_BACKLOG_BYTES_MAX = 256 * MIB

# Descriptors reserved for the metadata store, listeners, files that are written or synced, and files that are about to
# be closed. Segments and connections share the rest.
RESERVED_DESCRIPTORS = 100

# The decompressed size of a batch that is checked. A batch of 1 MB that was compressed sixtyfold still fits, and
# several may be open at a time. Producers split and resend batches that are rejected as too large, so no data is lost.
DECOMPRESSED_BATCH_BYTES_MAX = 64 * MIB

# Producers write one gzip member or zstd frame for each batch. Like Kafka, a broker reads more, but a batch of empty
# ones would cost a decompressor each.
COMPRESSED_STREAMS_PER_BATCH_MAX = 64

# Records named in the error of a rejected batch. More would not help the reader.
RECORD_ERRORS_PER_BATCH_MAX = 64

# Different schema ids in one batch for a topic with schema validation. A topic rarely has ten; the limit bounds the
# memory that a batch of random bytes can cost.
SCHEMA_IDS_PER_BATCH_MAX = 1024

# Ids of one batch that a broker asks the schema registry for before it looks at the answers: a batch of random bytes is
# refused after these.
SCHEMA_LOOKUPS_TOGETHER_MAX = 16

# Schema ids whose subjects a broker remembers, and lookups that may wait for the registry at a time. Confluent's cache
# has the same size; a lookup beyond the second limit is answered as if the registry were down.
SCHEMA_ID_CACHE_COUNT = 10_000
SCHEMA_LOOKUPS_WAITING_MAX = 1_000

# How long the answer that an id is unknown, or not registered under a subject, is used before the registry is asked
# again: short enough for a program that registers the schema after an error, long enough to protect the registry from a
# producer that sends wrong bytes as fast as it can.
SCHEMA_UNKNOWN_MS = 100

# How long one schema registry may take to answer, how long a produce request waits for the answer, and how long a
# broker leaves a registry alone that did not answer. A request waits less than a lookup takes, because it holds up the
# requests behind it on the same connection; the producer's retry finds the answer.
SCHEMA_REGISTRY_ANSWER_S = 2.0
SCHEMA_PRODUCE_WAIT_S = 1.0
SCHEMA_REGISTRY_REST_MS = 1_000

# The list of the subjects of one id. Names of subjects have tens of bytes.
SCHEMA_REGISTRY_REPLY_BYTES_MAX = 1 * MIB

# How often connections are checked for being idle or stalled.
CONNECTION_SWEEP_INTERVAL_S = 1.0

# Protocol problems of one connection that are logged. Later ones are not.
NOTES_PER_CONNECTION_MAX = 8

# Producer ids reserved at a time. A restart wastes at most this many of 2**63.
PRODUCER_ID_BLOCK_SIZE = 1000

# Parts of a frame below this size are joined before they are written: copying 16 KiB costs less than one more entry in
# the kernel's vector. Larger parts are records, and are not copied.
FRAME_PIECE_JOINED_BYTES_MAX = 16 * 1024

# Storage: how much of a segment is read at once. A scan reads the whole segment, so it reads large chunks. A lookup
# starts at most one index interval (4 KiB) before its batch, which is usually within two pages.
SCAN_CHUNK_BYTES = MIB
LOOKUP_CHUNK_BYTES = 8192

# How much of the end of a log is searched, once after a start, for batches that a producer may send again. The search
# runs on the event loop. The at most four batches before a producer's last one are rarely further away.
RECALL_BYTES_MAX = 4 * MIB

# Producers that a leader tells a follower that begins after deleted records: first those with an open transaction and
# those that have sent last. One with five batches takes 5 µs of the event loop and 200 bytes.
PRODUCERS_TOLD_MAX = 10_000

# Logs compacted at a time, even if log.cleaner.threads is higher: they share the disk and the interpreter.
COMPACTION_THREADS_MAX = 16

# Segments that one compacted segment may replace. During the replacement, each of them is open for its readers.
COMPACTION_GROUP_SEGMENTS_MAX = 64

# Compaction syncs after writing this much, which takes a disk a fraction of a second.
COMPACTION_SYNC_BYTES = 16 * MIB

# The credit of a throttled thread that woke late (Kafka's period), and the shortest pause: in a shorter one, most of
# the time goes into waking up.
THROTTLE_CREDIT_MS = 300
THROTTLE_REST_MS_MIN = 20

# The longest pause before a throttled thread or follower reads the rate again, which an operator may have raised.
THROTTLE_REST_MS_MAX = 500

# The smallest read and write size of compaction, even if log.cleaner.io.buffer.size is lower.
COMPACTION_CHUNK_BYTES_MIN = 16 * 1024

# Threads for cold reads, decompression and flushes. More threads would only queue for the disk.
WORKER_THREADS_MAX = 4

# Logs that are created or closed at a time. Their fsyncs wait for the same commits of the file system's journal:
# sixteen together take little longer than one.
SYNCING_LOGS_MAX = 16

# A fetch session that was not used for this long may be evicted for a new one (Kafka's value).
FETCH_SESSION_EVICTION_MS = 120_000

# The embedded metadata store, in the first log folder.
STORE_FILE_NAME = "cluster-metadata.sqlite"

# ZooKeeper closes the connection of a client that sends more than jute.maxbuffer, which is 1,048,575 bytes by default,
# including headers.
ZOOKEEPER_COMMIT_BYTES_MAX = 1_040_000

# Reads of znodes in one request: enough to make the cost of the request small, few enough to keep the reply small if
# the values are.
ZOOKEEPER_READS_PER_REQUEST = 200

# Concurrent changes can make the plan of a transaction stale before it arrives. Each attempt knows what made the
# previous one fail, so more than two are rarely needed.
ZOOKEEPER_PLANS_MAX = 10

# A compressed batch up to this size is decompressed on the event loop, because passing it to a thread costs more.
CHECK_IN_LOOP_BYTES_MAX = 16 * 1024

# Such a small batch may still expand to 64 MiB. If it exceeds this size, a thread decompresses it after all.
OPEN_IN_LOOP_BYTES_MAX = 256 * 1024

# After checking this many bytes of records for one request, other tasks get the event loop or the thread.
CHECK_TURN_BYTES_MAX = 1 * MIB

# Records up to this size are recompressed on the event loop. The slowest codec takes milliseconds for them.
RECOMPRESS_IN_LOOP_BYTES_MAX = 4 * 1024

# After this many bytes of one request, a thread recompresses the rest: a request may have thousands of small batches.
RECOMPRESS_TURN_BYTES_MAX = 16 * 1024

# Log lines about rejected batches in one period, and about connections that were closed for what their clients did.
REJECTION_LINES_MAX = 20
CONNECTION_LINES_MAX = 200
REJECTION_WINDOW_MS = 60_000

# How often logs are checked for flushes that are due, and so the precision of flush.ms.
FLUSH_CHECK_INTERVAL_S = 1.0

# How many logs are checked for retention before other tasks get the event loop. Most have nothing to delete and take a
# few microseconds, less than one iteration of the loop.
CARE_TURN_PARTITIONS = 64

# How often deleted files are checked, and so the precision of file.delete.delay.ms.
DELETION_CHECK_INTERVAL_S = 1.0

# The largest reply that a client accepts. A fetch requests at most 32 MiB and gets at most one batch beyond that. A
# peer that announces more is not a Kafka broker (the first bytes of an HTTP response mean 1.2 GB).
RESPONSE_BYTES_MAX = 256 * MIB

# A producer accepts no more records while this much waits for acknowledgement (Kafka's buffer.memory).
PRODUCE_BUFFER_BYTES_MAX = 32 * MIB

# One produce request holds the batches of some partitions, so that some are acknowledged while others are on their way.
PRODUCE_REQUEST_BYTES_MAX = 4 * MIB

# The size of one fetch, and the fetched data that a consumer buffers.
FETCH_BYTES_MAX = 32 * MIB
FETCH_BUFFER_BYTES_MAX = 64 * MIB

# Topic ids are repeated often, and creating a UUID costs more than decoding the rest of a small request. Enough for the
# topics of a large broker; a peer that invents ids only empties the cache.
UUIDS_REMEMBERED_MAX = 8192

# The longest line that `tailrace produce` sends as a record. No topic accepts larger records by default.
LINE_BYTES_MAX = 64 * MIB

# The size of the parts in which records are converted to Arrow columns: large enough to make the fixed cost of a part
# small, small enough that the next part can reuse its memory.
COLUMN_CHUNK_BYTES_MAX = 8 * MIB

# Storage: descriptors of all segments together, if the process may have more. Up to two thirds may belong to mapped
# indexes, and the kernel allows a process 65,530 mappings.
SEGMENT_DESCRIPTORS_MAX = 60_000

# Storage: how often a segment that is in use or not synced is skipped when a descriptor is needed; then the oldest is
# closed. Searching thousands of segments for a better one would cost more than opening it again.
SECOND_CHANCES_MAX = 16

# Storage: files that wait in a worker thread to be synced and closed. Opening one more then waits for the disk.
CLOSING_FILES_MAX = 16

# Spark: rows come in small batches, by ten thousand. This much of them is encoded together into a few large batches.
SPARK_WRITE_BYTES = 4 * MIB

# Spark: the longest dead letter, with its headers. Topics for dead letters are created with this max.message.bytes, so
# that a record that was just small enough for its own topic still fits with the headers of its error.
SPARK_DEAD_LETTER_BYTES_MAX = 16 * MIB

# Spark: records between two that are looked up for dead letters. Reading so many too many costs less than a request.
SPARK_RECORD_GAP_MAX = 500

# Spark: dead letters that a replay reads, and sends in one transaction.
SPARK_DEAD_LETTERS_READ_MAX = 1_000

# Spark: ranges of several partitions go into one task up to this number of offsets together. A task costs some 50 ms of
# CPU time whatever it reads, as much as reading 100,000 records; functions of users may need a millisecond for each.
SPARK_TASK_OFFSETS_SHARED_MAX = 2_000

# Spark: bytes of rows that the driver reads itself and hands over with the task of a small micro-batch. They are in the
# driver's memory twice for a moment, for each stream.
SPARK_DRIVER_ROWS_BYTES_MAX = 8 * MIB

# Spark: ranges of a task that are fetched at the same time. Each fetch may take a megabyte.
SPARK_RANGES_AHEAD_MAX = 16

# Spark: clusters to which a Python worker stays connected between micro-batches. Jobs use one or two.
SPARK_CLUSTERS_KEPT_MAX = 16

# Spark: query runs for which a Python worker remembers the transactional ids that it used. A worker serves a few
# queries, each with a new run after a restart. Beyond this limit the worker uses a new name.
SPARK_RUNS_KEPT_MAX = 256

# Spark: query runs listed in a claim of a sink. A driver that returns after this many restarts of its successor is
# taken for a new run; its batches are then rejected only by their numbers. A claim of 1,000 runs has 39 KB.
SPARK_RUNS_CLAIMED_MAX = 1_000

# Spark: open transactions of dead attempts that one search aborts. A claim lists them in one record and uses at most
# this much for them, about 3,000 transactions; the next search handles the others.
SPARK_REMAINS_BYTES_MAX = 500_000

# Spark: partitions of the topic that holds the decisions about micro-batches, so that queries seldom wait for each
# other.
SPARK_DECISION_PARTITIONS = 8

# Spark: a decision names every transaction of a micro-batch in one record, which brokers and clients limit to a
# megabyte by default. About 7,500 tasks with rows fit.
SPARK_DECISION_BYTES_MAX = 1_000_000

# Spark: the longest interval between searches of a driver for transactions that task attempts left open. Consumers of
# committed records wait this long, and a search costs one request to each broker.
SPARK_SEARCH_INTERVAL_MS = 60_000

# Spark: transactions of one micro-batch that are committed or aborted at a time.
SPARK_ENDS_IN_FLIGHT_MAX = 16

# Spark: consecutive restarts of a flow that failed for a transient reason, unless the user chooses another number. The
# delays in between add up to a quarter of an hour: databases are away for minutes when they are updated or fail over.
# After that a person should look.
PIPELINE_RESTARTS_MAX = 32

# Spark: all restarts of a flow of a run that ends by itself. The delays add up to two minutes, enough for a broker to
# restart and for a busy machine to recover; a scheduler repeats the run.
PIPELINE_RESTARTS_ONCE_MAX = 8

# Spark: the delay before a flow is restarted, which doubles from the first value to the second. A broker needs a second
# to start, and half a minute is short for brokers that have been down for minutes.
PIPELINE_RESTART_WAIT_S_MIN = 1.0
PIPELINE_RESTART_WAIT_S_MAX = 30.0

# Spark: after running this long since its last start, a flow counts as healthy and its restarts are counted from zero.
# Longer than the longest delay, so that a flow that fails regularly is not restarted for ever.
PIPELINE_HEALTHY_S = 60.0

# Spark: records for which the function of a flow fails that one search finds. A search takes two dozen small queries
# for each, while no other flow is restarted; a batch with more of them is searched again.
PIPELINE_CULPRITS_MAX = 5

# Spark: such records of one batch. With more of them something else is wrong, and the flow stops.
PIPELINE_LEFT_OUT_MAX = 100

# Spark: the time between two commits of the flows' positions to their consumer groups. Tools that show lag look every
# few seconds, and a commit is one request for each flow.
PIPELINE_GROUP_INTERVAL_S = 1.0

# The size of the cache of key hashes, used if the hash is computed in Python, which costs more than everything else
# about a record. Keys are repeated, and a cache of this size takes about a megabyte.
HASHED_KEYS_REMEMBERED_MAX = 8192

# A long poll ends after this time, even if it asks for longer; the client then fetches again.
FETCH_WAIT_MS_MAX = 5 * 60 * 1000

# Memory that a client keeps for the replies of one connection and reuses: three or four fetches of one partition, one
# of which arrives, one waits and one is being read. Smaller replies are not worth pooling.
FRAME_POOL_BYTES_MAX = 32 * MIB
FRAME_POOLED_BYTES_MIN = 256 * 1024

# Groups: the cache of compiled regular expressions of subscriptions. A broker sees a handful; a member that sends a new
# one with every heartbeat must not fill the memory.
SUBSCRIPTION_REGEX_CACHE_COUNT_MAX = 128

# Member ids of one classic group that were issued and not used yet. Each is kept for a session timeout, which may be
# half an hour. Without a limit, a client that requests ids and never joins would fill the memory. Kafka has no limit.
GROUP_PENDING_MEMBERS_MAX = 1000

# The metadata of a member of a classic group, in all of its protocols together. One of the protocols goes into a batch
# of a megabyte with those of all other members, so this is generous. Kafka accepts what fits into a request.
GROUP_MEMBER_METADATA_BYTES_MAX = 4 * MIB

# The length of the client id or instance id with which a member id begins. A longer one would leave no room for the
# rest in a string of the protocol.
GROUP_MEMBER_ID_PREFIX_LENGTH_MAX = 255

# Metrics: series of one kind, by group, topic and partition. Prometheus accepts tens of thousands from one target, and
# a scrape of these has some megabytes.
METRIC_LAG_SERIES_MAX = 50_000

# Metrics: the longest group id used as a label; the protocol allows 32 KB. Topic names have at most 249 characters.
METRIC_LABEL_LENGTH_MAX = 255

# Metrics: time after which other tasks get the event loop. The lag of tens of thousands of partitions takes half a
# second.
METRIC_TURN_S = 0.002

# Metrics: concurrent scrapes, the size of a request's head, and the time limit of a request. Prometheus gives up after
# ten seconds by default.
METRIC_CONNECTIONS_MAX = 16
METRIC_REQUEST_BYTES_MAX = 8 * 1024
METRIC_REQUEST_TIMEOUT_S = 10.0

# Groups: the cache of parsed group configs. Few groups have any configs of their own.
GROUP_SETTINGS_REMEMBERED_MAX = 1000

# ISR changes that are being written to the metadata store at a time. When a broker returns, thousands of followers join
# within a second. Each change is a write of its own, and ZooKeeper handles many of them together.
ISR_CHANGES_AT_ONCE_MAX = 64

# How long another broker may take to accept a connection, and how long its machine may be silent while a reply is due
# (`Stream.watch_peer`). It is nearby; a longer wait would only delay the fetches of partitions whose leader has moved.
PEER_CONNECT_MS = 10_000

# How long a fetcher waits for more partitions when it gets some during a fetch. The partitions of an election arrive
# one after the other, and for each change the connection is opened anew.
FETCHER_GATHER_S = 0.01

# How many bytes a fetcher appends before other tasks get the event loop.
FETCHER_TURN_BYTES_MAX = 2 * MIB
# Copying metadata into ZooKeeper: paths and values in one commit. A server accepts a megabyte (`jute.maxbuffer`), with
# some tens of bytes more for each node.
MIGRATION_COMMIT_BYTES_MAX = MIB // 4

# Disk space reserved for the metadata of a standalone broker, for a start on a full disk. A start after a crash writes
# about 200 bytes for each partition.
METADATA_RESERVE_BYTES = MIB

# How long another broker may take to answer a request about transactions. Its reply waits for replicas, as long as
# MARKER_COMMIT_MS.
PEER_ANSWER_MS = 40_000

# Transactions in one request between brokers, so that no request is too large to be read.
PEER_BATCH_COUNT_MAX = 1_000

# How long the replication of a transaction marker may take before its coordinator is told to retry; Kafka's
# request.timeout.ms.
MARKER_COMMIT_MS = 30_000

# The delay before a coordinator resends a marker that a partition leader did not accept. The partition may have no
# leader at the moment, and an election takes longer than this.
MARKER_RETRY_MS = 100

# How long after the decision a transaction marker counts as late. A healthy cluster needs milliseconds, and most
# elections are over by then.
TRANSACTION_END_LATE_MS = 5_000

# How much longer than the longest transaction timeout a transaction must be open in a log before its partition counts
# as having a late transaction; as in Kafka.
TRANSACTION_LATE_MS = 300_000

# How long the replication of a transaction coordinator's record may take before the producer is told to retry; as long
# as for the offsets of groups.
TRANSACTION_COMMIT_MS = 5_000

# The cache of transactional ids in their key encoding; about as many as are active at a time.
TRANSACTIONAL_ID_CACHE_COUNT = 4_096

# Requests that an HTTP service serves at a time, and its connections; idle ones are closed above that. Clients keep
# theirs for seconds, and a process may often have no more than 1,024 descriptors.
HTTP_REQUESTS_MAX = 1_000
HTTP_CONNECTIONS_MAX = 1_000

# JSON values in a request body. The objects that are made of them take several hundred bytes each. The largest requests
# set the offsets of a connector: a partition takes six values.
HTTP_JSON_VALUES_MAX = 100_000

# How long a client may take to send the next part of a request, which counts as being served meanwhile.
HTTP_BODY_TIMEOUT_S = 30.0

# Connect: a file that a connector's config refers to, the files and values that one config refers to together, and its
# references. Passwords, keys and certificates have a few kilobytes; the event loop reads them.
CONNECT_FILE_BYTES_MAX = MIB
CONNECT_REFERENCES_MAX = 1_000
CONNECT_REFERENCED_BYTES_MAX = 4 * MIB

# Webhooks: the default size of the largest request body. Bodies are held in memory, one for each connection.
WEBHOOK_BODY_BYTES_MAX = MIB

# Webhooks: connections that are served at the same time, a thread for each; others are told to come back.
WEBHOOK_CONNECTIONS_MAX = 64

# Buckets of quotas that a broker keeps: enough for the users and client ids of a large cluster, and a few megabytes. A
# client that invents client ids gets no more. One that was not used for an hour is dropped, as in Kafka.
QUOTA_BUCKETS_MAX = 10_000
QUOTA_BUCKET_IDLE_MS = 3_600_000

# The length of a user's name or a client id by which quotas are counted. The protocol allows 32 KiB; longer names share
# the quota of their beginning.
QUOTA_NAME_LENGTH_MAX = 255

# The longest time that a new connection waits because of a rate. Clients wait for their first reply for 30 seconds, and
# try again; those that have given up would use descriptors for nothing.
CONNECTION_WAIT_MS_MAX = 10_000

# Users and client ids that the metrics of quotas name: what a page of metrics can hold.
QUOTA_METRIC_LABELS_MAX = 1_000

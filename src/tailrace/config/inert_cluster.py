"""Options of clusters without effect: those of the controller quorum and of connections between brokers."""

from tailrace.base.sentinel import INT64_MAX
from tailrace.config.check import Check, at_least
from tailrace.config.declaration import boolean, integer, long, string_list
from tailrace.config.inert import inert
from tailrace.config.unit import DAY_MS, GIB, HOUR_MS, KIB, MIB, SECOND_MS

_NO_QUORUM = "Tailrace has no controller quorum; the brokers of a cluster share a ZooKeeper (zookeeper.connect)"

# A file that names other controllers asks for a cluster, so the broker must not start alone.
_SINGLE_NODE: Check[tuple[str, ...]] = Check(
    "broker,controller",
    lambda roles: sorted(roles) == ["broker", "controller"],
    lambda _: f"{_NO_QUORUM}; it must be broker,controller",
)
_ONE_SERVER: Check[tuple[str, ...]] = Check(
    "at most one controller",
    lambda servers: len(servers) <= 1,
    lambda _: f"{_NO_QUORUM}; it must name at most one controller",
)

CLUSTER_OPTIONS = (
    *inert(
        "Tailrace has no controller quorum: a broker keeps its own metadata or uses ZooKeeper",
        string_list("process.roles", (), "The roles of the process.", check=_SINGLE_NODE),
        string_list("controller.quorum.voters", (), "The controllers.", check=_ONE_SERVER),
        string_list("controller.quorum.bootstrap.servers", (), "Addresses of controllers.", check=_ONE_SERVER),
        integer("controller.quorum.append.linger.ms", 25, "The wait for more to append.", check=at_least(0)),
        boolean("controller.quorum.auto.join.enable", False, "Whether to join the quorum automatically."),
        integer("controller.quorum.election.backoff.max.ms", SECOND_MS, "The wait before voting.", check=at_least(0)),
        integer("controller.quorum.election.timeout.ms", SECOND_MS, "The wait for votes.", check=at_least(0)),
        integer("controller.quorum.fetch.timeout.ms", 2 * SECOND_MS, "The wait for the leader.", check=at_least(0)),
        integer("controller.quorum.fetch.max.bytes", MIB, "The bytes to fetch at once.", check=at_least(1)),
        integer(
            "controller.quorum.fetch.snapshot.max.bytes", MIB, "The bytes of a snapshot to fetch.", check=at_least(1)
        ),
        integer("controller.quorum.request.timeout.ms", 2 * SECOND_MS, "The wait for a reply.", check=at_least(0)),
        integer("controller.quorum.retry.backoff.ms", 20, "The wait between attempts.", check=at_least(0)),
        integer("controller.socket.timeout.ms", 30 * SECOND_MS, "The wait for the controller."),
        integer("broker.heartbeat.interval.ms", 2 * SECOND_MS, "Interval between two heartbeats of a broker."),
        integer("broker.session.timeout.ms", 9 * SECOND_MS, "Time without a heartbeat after which a broker is fenced."),
        long("server.max.startup.time.ms", INT64_MAX, "The wait for the start.", check=at_least(0)),
        long("metadata.log.max.record.bytes.between.snapshots", 20 * MIB, "When to snapshot.", check=at_least(1)),
        long("metadata.log.max.snapshot.interval.ms", HOUR_MS, "When to snapshot.", check=at_least(0)),
        integer("metadata.log.segment.bytes", GIB, "The size of a metadata segment.", check=at_least(8 * MIB)),
        long("metadata.log.segment.ms", 7 * DAY_MS, "The age of a metadata segment."),
        integer("metadata.max.idle.interval.ms", 500, "How often to write when idle.", check=at_least(0)),
        long("metadata.max.retention.bytes", 100 * MIB, "How much of the metadata log is kept."),
        long("metadata.max.retention.ms", 7 * DAY_MS, "How long the metadata log is kept."),
    ),
    *inert(
        "the timeouts and buffers between brokers are fixed",
        boolean("follower.fetch.last.tiered.offset.enable", False, "Where a new follower begins."),
        integer("replica.socket.receive.buffer.bytes", 64 * KIB, "The receive buffer of a fetcher."),
        integer("request.timeout.ms", 30 * SECOND_MS, "The wait for another broker."),
        long("socket.connection.setup.timeout.max.ms", 30 * SECOND_MS, "The longest wait for a connection."),
        long("socket.connection.setup.timeout.ms", 10 * SECOND_MS, "The first wait for a connection."),
    ),
)

"""Inert options of what is still to come: groups, transactions and share groups."""

from runnel.config.check import at_least
from runnel.config.declaration import boolean, integer, long, short, string_list
from runnel.config.inert import inert
from runnel.config.option import INT32_MAX
from runnel.config.unit import DAY_MS, HOUR_MS, KIB, MIB, MINUTE_MS, SECOND_MS

COORDINATOR_OPTIONS = (
    *inert(
        "consumer groups are not supported yet",
        short("offsets.topic.replication.factor", 3, "The replicas of __consumer_offsets.", check=at_least(1)),
        integer("offsets.topic.num.partitions", 50, "The partitions of __consumer_offsets.", check=at_least(1)),
        integer("offsets.topic.segment.bytes", 100 * MIB, "Its segment size.", check=at_least(1)),
        integer("offsets.topic.compression.codec", 0, "Its compression."),
        integer("offsets.load.buffer.size", 5 * MIB, "The buffer for loading it.", check=at_least(1)),
        integer("offsets.commit.timeout.ms", 5 * SECOND_MS, "The wait for a commit.", check=at_least(1)),
        integer("offset.metadata.max.bytes", 4 * KIB, "The text that a commit may carry."),
        integer("offsets.retention.minutes", 7 * 24 * 60, "How long unused offsets are kept.", check=at_least(1)),
        long("offsets.retention.check.interval.ms", 10 * MINUTE_MS, "How often to look.", check=at_least(1)),
        integer("group.initial.rebalance.delay.ms", 3 * SECOND_MS, "The wait for more members."),
        integer("group.max.session.timeout.ms", 30 * MINUTE_MS, "The longest session timeout."),
        integer("group.min.session.timeout.ms", 6 * SECOND_MS, "The shortest session timeout."),
        integer("group.max.size", INT32_MAX, "The most members of a group.", check=at_least(1)),
        string_list(
            "group.coordinator.rebalance.protocols",
            ("classic", "consumer", "streams"),
            "The group protocols that are on.",
        ),
        integer("group.coordinator.append.linger.ms", -1, "The wait for more to append.", check=at_least(-1)),
        integer("group.coordinator.threads", 4, "The threads of the coordinator.", check=at_least(1)),
        integer("group.coordinator.background.threads", 2, "Its threads for slow work.", check=at_least(1)),
        integer(
            "group.coordinator.cached.buffer.max.bytes", MIB + 12, "The buffer it keeps.", check=at_least(512 * KIB)
        ),
    ),
    *inert(
        "partitions are divided on the event loop",
        boolean("group.consumer.assignor.offload.enable", True, "Whether assignments are computed aside."),
    ),
    *inert(
        "transactions are not supported yet",
        integer("transaction.state.log.min.isr", 2, "The in-sync replicas of __transaction_state.", check=at_least(1)),
        short("transaction.state.log.replication.factor", 3, "Its replicas.", check=at_least(1)),
        integer("transaction.state.log.num.partitions", 50, "Its partitions.", check=at_least(1)),
        integer("transaction.state.log.segment.bytes", 100 * MIB, "Its segment size.", check=at_least(1)),
        integer("transaction.state.log.load.buffer.size", 5 * MIB, "The buffer for loading it.", check=at_least(1)),
        integer("transaction.max.timeout.ms", 15 * MINUTE_MS, "The longest transaction.", check=at_least(1)),
        integer("transactional.id.expiration.ms", 7 * DAY_MS, "When an unused id is forgotten.", check=at_least(1)),
        integer(
            "transaction.abort.timed.out.transaction.cleanup.interval.ms",
            10 * SECOND_MS,
            "How often to look for transactions that took too long.",
            check=at_least(1),
        ),
        integer(
            "transaction.remove.expired.transaction.cleanup.interval.ms",
            HOUR_MS,
            "How often to look for unused ids.",
            check=at_least(1),
        ),
        boolean("transaction.partition.verification.enable", True, "Whether writes are checked with the coordinator."),
        boolean("transaction.two.phase.commit.enable", False, "Whether transactions may be prepared."),
    ),
    *inert(
        "share groups are not supported yet",
        short("share.coordinator.state.topic.replication.factor", 3, "The replicas of share state.", check=at_least(1)),
        short("share.coordinator.state.topic.min.isr", 2, "Its in-sync replicas.", check=at_least(1)),
        integer("share.coordinator.state.topic.num.partitions", 50, "Its partitions.", check=at_least(1)),
        integer("share.coordinator.state.topic.segment.bytes", 100 * MIB, "Its segment size.", check=at_least(1)),
    ),
)

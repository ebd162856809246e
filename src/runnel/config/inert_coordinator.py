"""Inert options of what is still to come: groups, transactions and share groups."""

from runnel.config.check import at_least
from runnel.config.declaration import boolean, integer, short
from runnel.config.inert import inert
from runnel.config.unit import DAY_MS, HOUR_MS, KIB, MIB, MINUTE_MS, SECOND_MS

COORDINATOR_OPTIONS = (
    *inert(
        "the coordinator runs on the broker's event loop and writes at once",
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

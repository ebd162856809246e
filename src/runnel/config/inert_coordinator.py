"""Inert options of coordinators: how Kafka's run, and share groups, which are still to come."""

from runnel.config.check import at_least
from runnel.config.declaration import boolean, integer, short
from runnel.config.inert import inert
from runnel.config.unit import KIB, MIB

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
        "share groups are not supported yet",
        short("share.coordinator.state.topic.replication.factor", 3, "The replicas of share state.", check=at_least(1)),
        short("share.coordinator.state.topic.min.isr", 2, "Its in-sync replicas.", check=at_least(1)),
        integer("share.coordinator.state.topic.num.partitions", 50, "Its partitions.", check=at_least(1)),
        integer("share.coordinator.state.topic.segment.bytes", 100 * MIB, "Its segment size.", check=at_least(1)),
    ),
)

"""Options of coordinators without effect: their threads and buffers, and share groups."""

from tailrace.config.check import at_least
from tailrace.config.declaration import boolean, integer, short
from tailrace.config.inert import inert
from tailrace.config.unit import KIB, MIB

COORDINATOR_OPTIONS = (
    *inert(
        "the coordinator runs on the broker's event loop and writes at once",
        integer("group.coordinator.append.linger.ms", -1, "The wait for more to append.", check=at_least(-1)),
        integer("group.coordinator.threads", 4, "The threads of the coordinator.", check=at_least(1)),
        integer(
            "group.coordinator.background.threads", 2, "The background threads of the coordinator.", check=at_least(1)
        ),
        integer(
            "group.coordinator.cached.buffer.max.bytes",
            MIB + 12,
            "The largest buffer that the coordinator keeps.",
            check=at_least(512 * KIB),
        ),
    ),
    *inert(
        "assignments are computed on the event loop",
        boolean("group.consumer.assignor.offload.enable", True, "Whether assignments are computed in another thread."),
    ),
    *inert(
        "share groups are not supported yet",
        short("share.coordinator.state.topic.replication.factor", 3, "The replicas of share state.", check=at_least(1)),
        short("share.coordinator.state.topic.min.isr", 2, "Its in-sync replicas.", check=at_least(1)),
        integer("share.coordinator.state.topic.num.partitions", 50, "Its partitions.", check=at_least(1)),
        integer("share.coordinator.state.topic.segment.bytes", 100 * MIB, "Its segment size.", check=at_least(1)),
    ),
)

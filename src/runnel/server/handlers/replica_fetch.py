"""What is special about the fetches of followers, and about consumers that a follower may serve."""

from runnel.config.replication import RACK_AWARE_SELECTOR
from runnel.machines.controller.record import NO_BROKER
from runnel.machines.replica.selector import Candidate, select_nearest
from runnel.protocol.errors import ApiError, ErrorCode
from runnel.protocol.messages.fetch import FetchRequest, FetchRequestPartition
from runnel.runtime.partition import NO_EPOCH, Partition
from runnel.server.context import CLUSTER_NAME, Operation, RequestContext, Resource

FIRST_VERSION_WITH_RACK = 11  # KIP-392
CONSUMER = -1


class Follower:
    """The broker that a fetch comes from."""

    __slots__ = ("broker_epoch", "broker_id")

    def __init__(self, broker_id: int, broker_epoch: int) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch

    def check(self, partition: Partition, wanted: FetchRequestPartition) -> None:
        """Refuse who is no replica of a partition that this broker leads, or follows another leader epoch."""
        partition.check_leader(wanted.current_leader_epoch)
        if wanted.current_leader_epoch == NO_EPOCH:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "a follower says which leader epoch it follows")
        leadership = partition.leadership
        if leadership is None or self.broker_id not in leadership.machine.followers:
            # It may have been told of its assignment before this broker was, and tries again.
            raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"{self.broker_id} is no replica of {partition.name}")

    def note(self, partition: Partition, wanted: FetchRequestPartition) -> None:
        """Take note of what the follower has, after its log was found to agree with this one."""
        if partition.leadership is not None:
            partition.leadership.on_fetch(
                self.broker_id, self.broker_epoch, wanted.fetch_offset, wanted.log_start_offset
            )


def follower_of(ctx: RequestContext, request: FetchRequest) -> Follower | None:
    """The follower that a fetch comes from, None for a consumer; refuses a broker that is not what it says.

    Followers say in which life of theirs they ask (KIP-903), and an earlier one is refused. One that this broker
    has not heard of yet is served, but is in no ISR before it has.
    """
    state = request.replica_state
    broker_id, epoch = (request.replica_id, NO_EPOCH) if state is None else (state.replica_id, state.replica_epoch)
    if broker_id <= CONSUMER:
        return None
    if not ctx.is_allowed(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME):
        # Whoever may not act for the cluster is no broker, whatever it says (CVE-2018-1288).
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    broker = ctx.broker.image.brokers.get(broker_id)
    if broker is not None and NO_EPOCH != epoch < broker.epoch:
        raise ApiError(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} is in epoch {broker.epoch}, not {epoch}")
    return Follower(broker_id, epoch)


def check_consumer(ctx: RequestContext, partition: Partition, wanted: FetchRequestPartition) -> None:
    """Refuse a consumer that only a leader may serve, or that knows of another leader."""
    if ctx.version >= FIRST_VERSION_WITH_RACK and not partition.is_retired and partition.leader_id != NO_BROKER:
        partition.check_leader_epoch(wanted.current_leader_epoch)
    else:
        partition.check_leader(wanted.current_leader_epoch)


def nearer_replica(
    ctx: RequestContext, request: FetchRequest, partition: Partition, wanted: FetchRequestPartition
) -> int | None:
    """The follower that a consumer should ask instead of this leader, if there is one."""
    leadership, config = partition.leadership, ctx.broker.config
    if not request.rack_id or leadership is None or config.replica_selector_class != RACK_AWARE_SELECTOR:
        return None
    image = ctx.broker.image
    candidates = [
        Candidate(broker_id, image.brokers[broker_id].rack, progress)
        for broker_id, progress in leadership.machine.followers.items()
        if image.is_live(broker_id)
    ]
    return select_nearest(request.rack_id, config.broker_rack, candidates, wanted.fetch_offset)

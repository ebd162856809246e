"""The fetches of followers, and those of consumers that a follower may serve."""

from collections.abc import Mapping, Sequence
from functools import partial

from tailrace.base.sentinel import CONSUMER_REPLICA_ID, NO_BROKER, NO_EPOCH
from tailrace.config.replication import RACK_AWARE_SELECTOR
from tailrace.machines.fetch_session import FetchContext, FetchPartition, Key
from tailrace.machines.replica.selector import Candidate, select_nearest
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.fetch import FetchRequest, FetchRequestPartition
from tailrace.records.batch import whole_batch_bytes
from tailrace.runtime.partition import Partition
from tailrace.runtime.replication.follower_watch import FollowerWatch
from tailrace.server.context import CLUSTER_NAME, Operation, RequestContext, Resource
from tailrace.server.handlers.fetch_read import (
    Read,
    diverges,
    locate_all,
    poll,
    read_all,
    select_named,
    topic_partition,
)

FIRST_VERSION_WITH_RACK = 11  # KIP-392


class NotAFollower(ApiError):
    """The client of a fetch claims to be a follower without the right to be one."""


class Follower:
    """The broker that a fetch comes from; its lane says which of its fetchers sent it."""

    __slots__ = ("broker_epoch", "broker_id", "lane")

    def __init__(self, broker_id: int, broker_epoch: int, client_id: str | None) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.lane = broker_id, client_id

    def check(self, partition: Partition, wanted: FetchRequestPartition) -> None:
        """Reject a broker that is not a follower of a partition that this broker leads, in its leader epoch."""
        partition.check_leader(wanted.current_leader_epoch)
        if wanted.current_leader_epoch == NO_EPOCH:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "a fetch of a follower must have the current leader epoch")
        leadership = partition.leadership
        if leadership is None or self.broker_id not in leadership.machine.followers:
            # It may have been told of its assignment before this broker was, and tries again.
            raise ApiError(
                ErrorCode.UNKNOWN_LEADER_EPOCH, f"broker {self.broker_id} is not a replica of {partition.name}"
            )

    def locate(self, ctx: RequestContext, read: Read, left_bytes: int, nothing_yet: bool) -> None:
        """Locate the batches that the follower lacks, committed or not, or the offset at which its log diverges."""
        wanted: FetchRequestPartition = read.asked.wanted
        partition = read.partition = ctx.broker.replicas.get(*topic_partition(ctx, read.asked.key))
        self.check(partition, wanted)
        storage, reply = partition.log, read.reply
        reply.high_watermark, reply.log_start_offset = partition.high_watermark, storage.log_start_offset
        if wanted.last_fetched_epoch >= 0 and diverges(partition, wanted, reply):
            return
        if ctx.broker.leader_throttle.is_exceeded and self._is_throttled(ctx, partition):
            return  # it keeps its news, and a later reply has them
        limit = min(wanted.partition_max_bytes, left_bytes)
        read.range = storage.locate(wanted.fetch_offset, limit, storage.log_end_offset, nothing_yet)

    def _is_throttled(self, ctx: RequestContext, partition: Partition) -> bool:
        return self.broker_id not in partition.isr and ctx.broker.leader_throttle.applies_to(partition)

    def pay(self, ctx: RequestContext, reads: Sequence[Read]) -> None:
        """Count the bytes that are sent to a throttled follower."""
        for read in reads:
            if read.range.size_bytes and read.partition is not None and self._is_throttled(ctx, read.partition):
                ctx.broker.leader_throttle.take(read.range.size_bytes)

    def note(self, reads: Sequence[Read], watch: FollowerWatch) -> None:
        """Note what the follower has, if its log agrees with this one, and reply with the new high watermark."""
        for read in reads:
            partition, wanted = read.partition, read.asked.wanted
            if read.is_urgent or partition is None or partition.leadership is None:
                continue
            partition.leadership.on_fetch(
                *(self.broker_id, self.broker_epoch, wanted.fetch_offset, wanted.log_start_offset), beat=watch
            )
            read.reply.high_watermark = partition.high_watermark


def follower_of(ctx: RequestContext, request: FetchRequest) -> Follower | None:
    """Return the follower that a fetch comes from, or None for a consumer.

    A follower sends its broker epoch (KIP-903); an older epoch than the registered one is rejected. A newer epoch is
    served, but the follower joins an ISR only when this broker knows the epoch, too.
    """
    state = request.replica_state
    broker_id, epoch = (request.replica_id, NO_EPOCH) if state is None else (state.replica_id, state.replica_epoch)
    if broker_id <= CONSUMER_REPLICA_ID:
        return None
    if not ctx.is_allowed(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME):
        # A client without the right to act for the cluster is not a broker, whatever it claims (CVE-2018-1288).
        raise NotAFollower(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    broker = ctx.broker.image.brokers.get(broker_id)
    if broker is not None and NO_EPOCH != epoch < broker.epoch:
        raise ApiError(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} is in epoch {broker.epoch}, not {epoch}")
    return Follower(broker_id, epoch, ctx.header.client_id)


async def serve_follower(
    ctx: RequestContext,
    request: FetchRequest,
    follower: Follower,
    context: FetchContext,
    named: Sequence[Key],
    forgotten: Sequence[Key],
) -> list[Read]:
    """Return the reads for the reply to a follower: those partitions of its session that have news."""
    session = context.session
    watch = session.attached if session is not None and isinstance(session.attached, FollowerWatch) else FollowerWatch()
    if session is not None:
        session.attached = watch
    try:
        watch.begin(ctx.broker.clock.monotonic_ms(), named, forgotten)
        partitions = {asked.key: asked for asked in context.partitions} if session is None else session.partitions
        look = partial(_look, ctx, request, follower, watch, partitions)
        reads = look()
        follower.note(reads, watch)
        reads = await poll(ctx, request, reads, look, watch.wait)
        follower.pay(ctx, reads)
        await read_all(ctx, reads)
        for read in reads:
            _leave_out_rest(read)
            if _is_told(read):
                watch.told(read.asked.key)
        return select_named(context, reads)
    finally:
        if session is None:
            watch.close()


def _look(
    ctx: RequestContext,
    request: FetchRequest,
    follower: Follower,
    watch: FollowerWatch,
    partitions: Mapping[Key, FetchPartition],
) -> list[Read]:
    asked = [partitions[key] for key in watch.news() if key in partitions]
    reads = locate_all(ctx, request, asked, partial(follower.locate, ctx))
    for read in reads:
        if read.partition is not None:
            watch.look(read.asked.key, read.partition)
    return reads


def _leave_out_rest(read: Read) -> None:
    """Leave out an incomplete batch at the end, which may be large: the follower would drop it."""
    data = read.reply.records
    if data and not isinstance(data, list):
        whole_bytes = whole_batch_bytes(data)
        # Where nothing is whole something is broken; the follower tells what.
        if 0 < whole_bytes < len(data):
            read.reply.records = memoryview(data)[:whole_bytes]


def _is_told(read: Read) -> bool:
    """Whether the reply says everything; a partition that did not fit is looked at again for the next reply."""
    if read.is_urgent or read.range.size_bytes or read.partition is None:
        return True  # the follower comes back with another position
    return bool(read.asked.wanted.fetch_offset >= read.partition.log.log_end_offset)


def check_consumer(ctx: RequestContext, partition: Partition, wanted: FetchRequestPartition) -> None:
    """Reject a consumer that only the leader may serve, that knows a newer leader, or that asks beyond this log."""
    # A broker that is named as leader but does not lead is not admitted yet: its log may lack records that were read.
    is_leader = partition.leader_id in (NO_BROKER, ctx.broker.broker_id)
    if is_leader or partition.is_retired or ctx.version < FIRST_VERSION_WITH_RACK:
        partition.check_leader(wanted.current_leader_epoch)
    else:
        partition.check_leader_epoch(wanted.current_leader_epoch)
    if wanted.fetch_offset > partition.log.log_end_offset and not partition.is_sure_to_lead:
        # Not out of range: the leader has it, and a consumer told so would begin elsewhere (KIP-392).
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER if is_leader else ErrorCode.OFFSET_NOT_AVAILABLE
        raise ApiError(code, f"the log of {partition.name} on this broker ends before offset {wanted.fetch_offset}")


def nearer_replica(
    ctx: RequestContext, request: FetchRequest, partition: Partition, wanted: FetchRequestPartition
) -> int | None:
    """Return the follower that a consumer should fetch from instead of this leader; None if there is none."""
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

"""WriteTxnMarkers: the markers that a coordinator writes, or an administrator for a transaction that hangs."""

import asyncio
from collections.abc import Callable, Iterable

from tailrace.machines.transaction.transaction import TopicPartition
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.transaction_marker import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestMarker,
    WriteTxnMarkersResponse,
    WriteTxnMarkersResponseMarker,
    WriteTxnMarkersResponsePartition,
    WriteTxnMarkersResponseTopic,
)
from tailrace.runtime.append import TransactionMarker
from tailrace.server.api import api
from tailrace.server.context import CLUSTER_NAME, Operation, RequestContext, Resource
from tailrace.server.transaction_caller import check_cluster_action

Outcome = asyncio.Future[ErrorCode]


def fail(ctx: RequestContext, request: WriteTxnMarkersRequest, error: ApiError) -> WriteTxnMarkersResponse:
    return _reply(request, lambda _number, _partition: error.code)


@api(WriteTxnMarkersRequest, versions=(1, 2), fail=fail)
async def write_txn_markers(ctx: RequestContext, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    """Write each marker to each partition, and reply when all replicas in sync have it."""
    if not ctx.is_allowed(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME, is_probe=True):
        check_cluster_action(ctx)
    outcomes: dict[tuple[int, TopicPartition], Outcome] = {}
    for number, marker in enumerate(request.markers):
        for partition in _partitions(marker):
            outcomes[number, partition] = _write(ctx, marker, partition)
    waiting = [outcome for outcome in outcomes.values() if not outcome.done()]
    if waiting:
        await asyncio.wait(waiting)
    return _reply(request, lambda number, partition: outcomes[number, partition].result())


def _write(ctx: RequestContext, asked: WriteTxnMarkersRequestMarker, partition: TopicPartition) -> Outcome:
    outcome: Outcome = asyncio.get_running_loop().create_future()

    def written(code: ErrorCode) -> None:
        if not outcome.done():  # the client may have disconnected
            outcome.set_result(code)

    marker = TransactionMarker(
        asked.producer_id,
        asked.producer_epoch,
        asked.coordinator_epoch,
        asked.transaction_version,
        asked.transaction_result,
    )
    ctx.broker.marker_writer.write(*partition, marker, written)
    return outcome


def _partitions(marker: WriteTxnMarkersRequestMarker) -> Iterable[TopicPartition]:
    return ((topic.name, index) for topic in marker.topics for index in topic.partition_indexes)


def _reply(
    request: WriteTxnMarkersRequest, code_of: Callable[[int, TopicPartition], ErrorCode]
) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WriteTxnMarkersResponseMarker(
                producer_id=marker.producer_id,
                topics=[
                    WriteTxnMarkersResponseTopic(
                        name=topic.name,
                        partitions=[
                            WriteTxnMarkersResponsePartition(
                                partition_index=index, error_code=code_of(number, (topic.name, index))
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for number, marker in enumerate(request.markers)
        ]
    )

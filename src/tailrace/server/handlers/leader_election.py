"""ElectLeaders: the election of the preferred replica, or of any replica that is alive."""

from tailrace.machines.controller.election import Election
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.reassignment import (
    ElectLeadersRequest,
    ElectLeadersRequestTopic,
    ElectLeadersResponse,
    ElectLeadersResponsePartition,
    ElectLeadersResponseTopic,
)
from tailrace.server.api import api
from tailrace.server.context import CLUSTER_NAME, Operation, RequestContext, Resource

_ELECTIONS = {election.value: election for election in (Election.PREFERRED, Election.UNCLEAN)}


def fail(ctx: RequestContext, request: ElectLeadersRequest, error: ApiError) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=error.code if ctx.version >= 1 else ErrorCode.NONE,  # version 0 has none for the whole request
        replica_election_results=[
            ElectLeadersResponseTopic(
                topic=asked.topic, partition_result=[_result(index, error) for index in asked.partitions]
            )
            for asked in request.topic_partitions or ()
        ],
    )


@api(ElectLeadersRequest, versions=(0, 2), fail=fail, is_controllers=True)
async def elect_leaders(ctx: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Elect a leader for each partition separately."""
    if not ctx.is_allowed(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    election = _ELECTIONS.get(request.election_type)
    if election is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    ctx.broker.controller.check()
    response = ElectLeadersResponse()
    for asked in _everything(ctx) if request.topic_partitions is None else request.topic_partitions:
        results = [await _elect(ctx, asked.topic, index, election) for index in asked.partitions]
        if request.topic_partitions is None:
            results = [result for result in results if result.error_code != ErrorCode.ELECTION_NOT_NEEDED]
        response.replica_election_results.append(ElectLeadersResponseTopic(topic=asked.topic, partition_result=results))
    return response


def _everything(ctx: RequestContext) -> list[ElectLeadersRequestTopic]:
    return [
        ElectLeadersRequestTopic(topic=name, partitions=list(range(topic.partition_count)))
        for name, topic in sorted(ctx.broker.image.topics.items())
    ]


async def _elect(ctx: RequestContext, name: str, index: int, election: Election) -> ElectLeadersResponsePartition:
    try:
        await ctx.broker.controller.elect_leader(name, index, election)
    except ApiError as error:
        return _result(index, error)
    return ElectLeadersResponsePartition(partition_id=index)


def _result(index: int, error: ApiError) -> ElectLeadersResponsePartition:
    return ElectLeadersResponsePartition(partition_id=index, error_code=error.code, error_message=error.message)

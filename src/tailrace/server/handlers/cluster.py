"""DescribeCluster: the brokers, and the operations on the cluster that the client is allowed."""

from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeClusterResponseBroker,
)
from tailrace.server.api import api
from tailrace.server.context import CLUSTER_NAME, CLUSTER_OPERATIONS, Operation, RequestContext, Resource

_BROKERS = 1
_CONTROLLERS = 2


def fail(ctx: RequestContext, request: DescribeClusterRequest, error: ApiError) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        error_code=error.code,
        error_message=error.message,
        endpoint_type=request.endpoint_type,
        cluster_id=ctx.broker.cluster_id,
    )


@api(DescribeClusterRequest, versions=(0, 2), fail=fail)
async def describe_cluster(ctx: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Describe the cluster with the addresses of the client's listener."""
    if request.endpoint_type == _CONTROLLERS:
        raise ApiError(ErrorCode.MISMATCHED_ENDPOINT_TYPE, "This is a broker endpoint.")
    if request.endpoint_type != _BROKERS:
        raise ApiError(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"there is no endpoint type {request.endpoint_type}")
    response = DescribeClusterResponse(
        cluster_id=ctx.broker.cluster_id,
        controller_id=ctx.broker.image.controller_id,
        brokers=[
            DescribeClusterResponseBroker(broker_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in ctx.nodes
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = allowed_cluster_operations(ctx)
    return response


def allowed_cluster_operations(ctx: RequestContext) -> int:
    """Return the operations on the cluster that the client is allowed; as in Kafka, none if it may not describe it."""
    if not ctx.is_allowed(Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME):
        return 0
    return ctx.allowed_operations(CLUSTER_OPERATIONS, Resource.CLUSTER, CLUSTER_NAME)

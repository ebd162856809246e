"""ListGroups, DescribeGroups and DeleteGroups: the administration of groups."""

import asyncio

from tailrace.base.repetition import Repetitions
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.group_admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DeleteGroupsResponseResult,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeGroupsResponseGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from tailrace.server.api import api
from tailrace.server.context import CLUSTER_NAME, GROUP_OPERATIONS, Operation, RequestContext, Resource
from tailrace.server.group_caller import ask_coordinator, check_group

# --- ListGroups


def fail_list(ctx: RequestContext, request: ListGroupsRequest, error: ApiError) -> ListGroupsResponse:
    return ListGroupsResponse(error_code=error.code)


@api(ListGroupsRequest, versions=(0, 5), fail=fail_list)
async def list_groups(ctx: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    """List all groups if the client may describe the cluster, otherwise the groups that it may describe."""
    groups = [
        group
        for machine in ctx.broker.groups.machines()
        for group in machine.list(request.states_filter, request.types_filter)
    ]
    if not ctx.is_allowed(Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME, is_probe=True):
        groups = [
            group
            for group in groups
            if ctx.is_allowed(Operation.DESCRIBE, Resource.GROUP, group.group_id, is_probe=True)
        ]
    return ListGroupsResponse(groups=groups)


# --- DescribeGroups


def fail_describe(ctx: RequestContext, request: DescribeGroupsRequest, error: ApiError) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(
        groups=[DescribeGroupsResponseGroup(group_id=name, error_code=error.code) for name in request.groups]
    )


@api(DescribeGroupsRequest, versions=(0, 6), fail=fail_describe)
async def describe_groups(ctx: RequestContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    """Describe each group, or return its error."""
    repetitions = Repetitions()
    groups = [await _describe(ctx, name) for name in request.groups if repetitions.admits(name)]
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = ctx.allowed_operations(GROUP_OPERATIONS, Resource.GROUP, group.group_id)
    return DescribeGroupsResponse(groups=groups)


async def _describe(ctx: RequestContext, name: str) -> DescribeGroupsResponseGroup:
    await asyncio.sleep(0)  # see `find_coordinator`
    try:
        check_group(ctx, Operation.DESCRIBE, name)
        return ctx.broker.groups.machine(name).describe(name, ctx.version)
    except ApiError as error:
        return DescribeGroupsResponseGroup(group_id=name, error_code=error.code)


# --- DeleteGroups


def fail_delete(ctx: RequestContext, request: DeleteGroupsRequest, error: ApiError) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[_undeleted(name, error) for name in dict.fromkeys(request.groups_names)])


@api(DeleteGroupsRequest, versions=(0, 3), fail=fail_delete)
async def delete_groups(ctx: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    """Delete each group that has no members; refuse the others."""
    return DeleteGroupsResponse(results=[await _delete(ctx, name) for name in dict.fromkeys(request.groups_names)])


async def _delete(ctx: RequestContext, name: str) -> DeleteGroupsResponseResult:
    await asyncio.sleep(0)  # see `find_coordinator`
    try:
        check_group(ctx, Operation.DELETE, name)
        response = await ask_coordinator(
            ctx, name, DeleteGroupsResponse, lambda machine, _, answer: machine.decide_delete(answer, [name])
        )
    except ApiError as error:
        return _undeleted(name, error)
    return response.results[0]


def _undeleted(name: str, error: ApiError) -> DeleteGroupsResponseResult:
    return DeleteGroupsResponseResult(group_id=name, error_code=error.code)

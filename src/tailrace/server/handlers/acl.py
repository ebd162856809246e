"""DescribeAcls, CreateAcls and DeleteAcls.

The codes are those of Kafka 4.3.1, with two differences. If a filter or an ACL has the code 0 (unknown), Kafka closes
the connection; here 0 is one of the codes that the broker does not know. If an ACL has the code of ANY, which belongs
in filters, Kafka answers UNKNOWN_SERVER_ERROR for all ACLs of the request; here only that one is invalid.
"""

from itertools import groupby

from tailrace.machines.authorization.binding import AclBinding, invalid_reason
from tailrace.machines.authorization.filter import AclFilter, invalid_filter_reason
from tailrace.machines.authorization.vocabulary import PatternType, Permission
from tailrace.machines.controller.acl import select_acls
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.acl import (
    CreateAclsRequest,
    CreateAclsRequestCreation,
    CreateAclsResponse,
    CreateAclsResponseResult,
    DeleteAclsRequest,
    DeleteAclsRequestFilter,
    DeleteAclsResponse,
    DeleteAclsResponseAcl,
    DeleteAclsResponseFilter,
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeAclsResponseAcl,
    DescribeAclsResponseResource,
)
from tailrace.runtime.controller.acl import create_acls as add_acls
from tailrace.runtime.controller.acl import delete_acls as remove_acls
from tailrace.server.api import api
from tailrace.server.context import CLUSTER_NAME, Operation, RequestContext, Resource


def _authorize(ctx: RequestContext, operation: Operation, disabled: str) -> None:
    if not ctx.is_allowed(operation, Resource.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if not ctx.broker.config.authorizer_class_name:
        raise ApiError(ErrorCode.SECURITY_DISABLED, disabled)


# --- DescribeAcls


def fail_describe(ctx: RequestContext, request: DescribeAclsRequest, error: ApiError) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=error.code, error_message=error.message)


@api(DescribeAclsRequest, versions=(1, 3), fail=fail_describe)
async def describe_acls(ctx: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """List the ACLs that the filter selects, by resource; a code that the broker does not know selects none."""
    _authorize(ctx, Operation.DESCRIBE, "No Authorizer is configured on the broker")
    found = groupby(select_acls(ctx.broker.image, _filter(request)), lambda binding: binding[:3])
    resources = [
        DescribeAclsResponseResource(
            resource_type=resource,
            resource_name=name,
            pattern_type=pattern_type,
            acls=[_described(binding) for binding in bindings],
        )
        for (resource, name, pattern_type), bindings in found
    ]
    return DescribeAclsResponse(resources=resources)


def _described(binding: AclBinding) -> DescribeAclsResponseAcl:
    return DescribeAclsResponseAcl(
        principal=binding.principal,
        host=binding.host,
        operation=binding.operation,
        permission_type=binding.permission,
    )


# --- CreateAcls


def fail_create(ctx: RequestContext, request: CreateAclsRequest, error: ApiError) -> CreateAclsResponse:
    return CreateAclsResponse(results=[_created(error)] * len(request.creations))


@api(CreateAclsRequest, versions=(1, 3), fail=fail_create)
async def create_acls(ctx: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    """Add the valid ACLs. As in Kafka, one that exists already is no error, and one without an effect is stored."""
    _authorize(ctx, Operation.ALTER, "No Authorizer is configured.")
    bindings = [_binding(creation) for creation in request.creations]
    reasons = [invalid_reason(binding) for binding in bindings]
    valid = [binding for binding, reason in zip(bindings, reasons, strict=True) if reason is None]
    failure: ApiError | None = None
    try:
        await add_acls(ctx.broker.controller, ctx.broker.image, valid)
    except ApiError as error:
        failure = error
    return CreateAclsResponse(
        results=[_created(ApiError(ErrorCode.INVALID_REQUEST, reason) if reason else failure) for reason in reasons]
    )


def _binding(creation: CreateAclsRequestCreation) -> AclBinding:
    return AclBinding(
        Resource(creation.resource_type),
        creation.resource_name,
        PatternType(creation.resource_pattern_type),
        creation.principal,
        creation.host,
        Operation(creation.operation),
        Permission(creation.permission_type),
    )


def _created(error: ApiError | None) -> CreateAclsResponseResult:
    if error is None:
        return CreateAclsResponseResult()
    return CreateAclsResponseResult(error_code=error.code, error_message=error.message)


# --- DeleteAcls


def fail_delete(ctx: RequestContext, request: DeleteAclsRequest, error: ApiError) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=[_not_deleted(error)] * len(request.filters))


@api(DeleteAclsRequest, versions=(1, 3), fail=fail_delete)
async def delete_acls(ctx: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    """Remove the ACLs that valid filters select, and list them for each filter."""
    _authorize(ctx, Operation.ALTER, "No Authorizer is configured.")
    selections = [_filter(asked) for asked in request.filters]
    reasons = [invalid_filter_reason(selection) for selection in selections]
    valid = [selection for selection, reason in zip(selections, reasons, strict=True) if reason is None]
    try:
        removed = iter(await remove_acls(ctx.broker.controller, ctx.broker.image, valid))
    except ApiError as error:
        failure = _not_deleted(error)
        results = [failure if reason is None else _invalid(reason) for reason in reasons]
    else:
        results = [_deleted(next(removed)) if reason is None else _invalid(reason) for reason in reasons]
    return DeleteAclsResponse(filter_results=results)


def _filter(asked: DescribeAclsRequest | DeleteAclsRequestFilter) -> AclFilter:
    return AclFilter(
        Resource(asked.resource_type_filter),
        asked.resource_name_filter,
        PatternType(asked.pattern_type_filter),
        asked.principal_filter,
        asked.host_filter,
        Operation(asked.operation),
        Permission(asked.permission_type),
    )


def _invalid(reason: str) -> DeleteAclsResponseFilter:
    return _not_deleted(ApiError(ErrorCode.INVALID_REQUEST, reason))


def _not_deleted(error: ApiError) -> DeleteAclsResponseFilter:
    return DeleteAclsResponseFilter(error_code=error.code, error_message=error.message)


def _deleted(bindings: list[AclBinding]) -> DeleteAclsResponseFilter:
    matching = [
        DeleteAclsResponseAcl(
            error_message=None,
            resource_type=binding.resource,
            resource_name=binding.name,
            pattern_type=binding.pattern_type,
            principal=binding.principal,
            host=binding.host,
            operation=binding.operation,
            permission_type=binding.permission,
        )
        for binding in bindings
    ]
    return DeleteAclsResponseFilter(error_message=None, matching_acls=matching)

"""DescribeClientQuotas and AlterClientQuotas.

The configs of a user hold its SCRAM credentials too, which are neither shown nor changed here.
"""

from collections.abc import Mapping, Sequence

from tailrace.machines.quota.entity import QUOTA_KINDS, QuotaEntity, requested_entity, stored_entity
from tailrace.machines.quota.filter import read_filter
from tailrace.machines.quota.key import QUOTA_NAMES, check_address, check_quota, read_quota
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.client_quota import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntity,
    AlterClientQuotasRequestEntry,
    AlterClientQuotasRequestOp,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntity,
    AlterClientQuotasResponseEntry,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribeClientQuotasResponseEntity,
    DescribeClientQuotasResponseEntry,
    DescribeClientQuotasResponseValue,
)
from tailrace.server.api import api
from tailrace.server.context import CLUSTER_NAME, Operation, RequestContext, Resource

# --- DescribeClientQuotas


def fail_describe(
    ctx: RequestContext, request: DescribeClientQuotasRequest, error: ApiError
) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)


@api(DescribeClientQuotasRequest, versions=(0, 1), fail=fail_describe)
async def describe_client_quotas(
    ctx: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """List the entities that match the filter, with their quotas."""
    if not ctx.is_allowed(Operation.DESCRIBE_CONFIGS, Resource.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    components = [(part.entity_type, part.match_type, part.match) for part in request.components]
    wanted = read_filter(components, is_strict=request.strict)
    image = ctx.broker.image
    described = [
        _describe(entity, image.config(kind, name))
        for kind in QUOTA_KINDS
        for name in image.configured(kind)
        if wanted.matches(entity := stored_entity(kind, name))
    ]
    return DescribeClientQuotasResponse(entries=[entry for entry in described if entry.values])


def _describe(entity: QuotaEntity, configs: Mapping[str, str]) -> DescribeClientQuotasResponseEntry:
    quotas = {name: read_quota(text) for name, text in sorted(configs.items()) if name in QUOTA_NAMES}
    return DescribeClientQuotasResponseEntry(
        entity=[
            DescribeClientQuotasResponseEntity(entity_type=name, entity_name=part if isinstance(part, str) else None)
            for name, part in entity.parts.items()
        ],
        values=[
            DescribeClientQuotasResponseValue(key=name, value=value)
            for name, value in quotas.items()
            if value is not None
        ],
    )


# --- AlterClientQuotas


def fail_alter(ctx: RequestContext, request: AlterClientQuotasRequest, error: ApiError) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(entries=[_outcome(entry, error) for entry in request.entries])


@api(AlterClientQuotasRequest, versions=(0, 1), fail=fail_alter)
async def alter_client_quotas(ctx: RequestContext, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    """Change the quotas of each entity separately; refuse an entity that the request names twice."""
    if not ctx.is_allowed(Operation.ALTER_CONFIGS, Resource.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    response = AlterClientQuotasResponse()
    seen: set[QuotaEntity] = set()
    for entry in request.entries:
        error = None
        try:
            entity = _entity(entry.entity)
            if entity in seen:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Ignoring duplicate entity")
            seen.add(entity)
            await _alter(ctx, entity, entry.ops, validate_only=request.validate_only)
        except ApiError as refusal:
            error = refusal
        response.entries.append(_outcome(entry, error))
    return response


def _entity(parts: Sequence[AlterClientQuotasRequestEntity]) -> QuotaEntity:
    named = {part.entity_type: part.entity_name for part in parts}
    if len(named) != len(parts):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Invalid client quota entity, duplicate entity entry")
    return requested_entity(named)


async def _alter(
    ctx: RequestContext, entity: QuotaEntity, ops: Sequence[AlterClientQuotasRequestOp], *, validate_only: bool
) -> None:
    check_address(entity)
    names = [op.key for op in ops]
    if len(set(names)) != len(names):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate quota key")
    changed = {op.key: check_quota(entity, op.key, op.value) for op in ops if not op.remove}
    removed = {op.key for op in ops if op.remove} & QUOTA_NAMES
    kind, name = entity.place

    def change(configs: Mapping[str, str]) -> Mapping[str, str]:
        return {**{key: text for key, text in configs.items() if key not in removed}, **changed}

    await ctx.broker.controller.write_config(kind, name, change, validate_only=validate_only)


def _outcome(entry: AlterClientQuotasRequestEntry, error: ApiError | None) -> AlterClientQuotasResponseEntry:
    return AlterClientQuotasResponseEntry(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
        entity=[
            AlterClientQuotasResponseEntity(entity_type=part.entity_type, entity_name=part.entity_name)
            for part in entry.entity
        ],
    )

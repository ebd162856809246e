"""ApiVersions: the APIs that this broker serves, from the registry."""

import re
from dataclasses import dataclass

from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ApiVersionsResponseApi,
    ApiVersionsResponseFinalizedFeature,
    ApiVersionsResponseSupportedFeature,
)
from tailrace.server.api import APIS, api
from tailrace.server.context import RequestContext, is_between_brokers


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature that a cluster enables once all of its brokers support it: the highest level, and the level in use."""

    name: str
    level_max: int
    level: int


# `metadata.version` and `kraft.version` are versions of records in KRaft's metadata log, which Tailrace does not have.
_FEATURES = (
    Feature("eligible.leader.replicas.version", level_max=1, level=1),  # 1: replicas outside the ISR may lead (KIP-966)
    Feature("group.version", level_max=1, level=1),  # 1: the consumer protocol (KIP-848)
    Feature("transaction.version", level_max=2, level=2),  # 2: every transaction has its own epoch (KIP-890)
)
_FEATURES_EPOCH = 0  # the levels never change; clients ignore them at epoch -1
_FIRST_WITH_ZERO_LEVELS = 4  # clients of version 3 cannot read a level of 0 (KAFKA-17011)

# KIP-511: the characters of a metric tag
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def fail(ctx: RequestContext, request: ApiVersionsRequest, error: ApiError) -> ApiVersionsResponse:
    return ApiVersionsResponse(error_code=error.code)


@api(ApiVersionsRequest, versions=(0, 4), fail=fail)
async def api_versions(ctx: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """List the APIs; a client may ask before it authenticates."""
    if ctx.version >= 3:
        for text in (request.client_software_name, request.client_software_version):
            if not _SOFTWARE.fullmatch(text):
                raise ApiError(ErrorCode.INVALID_REQUEST, "the client software name or version is not valid")
        ctx.connection.client_software = f"{request.client_software_name} {request.client_software_version}"
    if ctx.connection.session is not None:
        ctx.connection.session.tell_versions()
    return ApiVersionsResponse(
        api_keys=_ranges(for_brokers=is_between_brokers(ctx.broker, ctx.connection)),
        supported_features=[
            ApiVersionsResponseSupportedFeature(name=feature.name, min_version=0, max_version=feature.level_max)
            for feature in _FEATURES
            if ctx.version >= _FIRST_WITH_ZERO_LEVELS
        ],
        finalized_features_epoch=_FEATURES_EPOCH,
        finalized_features=[
            ApiVersionsResponseFinalizedFeature(
                name=feature.name, min_version_level=feature.level, max_version_level=feature.level
            )
            for feature in _FEATURES
            if feature.level
        ],
    )


def unsupported_version() -> ApiVersionsResponse:
    """Return the reply, in version 0, to a version of ApiVersions that is not served (KIP-511)."""
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=_ranges(for_brokers=False))


def _ranges(*, for_brokers: bool) -> list[ApiVersionsResponseApi]:
    return [
        ApiVersionsResponseApi(api_key=key, min_version=served.advertised_min, max_version=served.version_max)
        for key, served in sorted(APIS.items())
        if for_brokers or not served.is_brokers
    ]

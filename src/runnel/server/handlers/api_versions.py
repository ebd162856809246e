"""ApiVersions: what this broker serves, straight from the registry."""

import re
from dataclasses import dataclass

from runnel.protocol.errors import ApiError, ErrorCode
from runnel.protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ApiVersionsResponseApi,
    ApiVersionsResponseFinalizedFeature,
    ApiVersionsResponseSupportedFeature,
)
from runnel.server.api import APIS, api
from runnel.server.context import RequestContext


@dataclass(frozen=True, slots=True)
class Feature:
    """What a Kafka cluster turns on once all of its brokers know it: the highest level, and the one in use."""

    name: str
    level_max: int
    level: int


_FEATURES = (
    Feature("group.version", level_max=1, level=1),  # 1: groups of the new protocol (KIP-848)
    Feature("transaction.version", level_max=2, level=2),  # 2: each end of a transaction has its own epoch (KIP-890)
)
_FEATURES_EPOCH = 0  # what is on here never changes; at -1 clients would not look at it
_FIRST_WITH_ZERO_LEVELS = 4  # clients of version 3 cannot read a level of 0 (KAFKA-17011)

# KIP-511: what may stand in a metric tag
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def fail(ctx: RequestContext, request: ApiVersionsRequest, error: ApiError) -> ApiVersionsResponse:  # noqa: ARG001
    return ApiVersionsResponse(error_code=error.code)


@api(ApiVersionsRequest, versions=(0, 4), fail=fail)
async def api_versions(ctx: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """List the APIs; a client may ask before it has said who it is."""
    if ctx.version >= 3:
        for text in (request.client_software_name, request.client_software_version):
            if not _SOFTWARE.fullmatch(text):
                raise ApiError(ErrorCode.INVALID_REQUEST, "the client software name or version is not valid")
        ctx.connection.client_software = f"{request.client_software_name} {request.client_software_version}"
    return ApiVersionsResponse(
        api_keys=_ranges(),
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
    """The reply, in version 0, to a version of ApiVersions that is not served (KIP-511)."""
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=_ranges())


def _ranges() -> list[ApiVersionsResponseApi]:
    return [
        ApiVersionsResponseApi(api_key=key, min_version=served.advertised_min, max_version=served.version_max)
        for key, served in sorted(APIS.items())
    ]

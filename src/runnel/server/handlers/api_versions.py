"""ApiVersions: what this broker serves, straight from the registry."""

import re

from runnel.protocol.errors import ApiError, ErrorCode
from runnel.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse, ApiVersionsResponseApi
from runnel.server.api import APIS, api
from runnel.server.context import RequestContext

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
    return ApiVersionsResponse(api_keys=_ranges())


def unsupported_version() -> ApiVersionsResponse:
    """The reply, in version 0, to a version of ApiVersions that is not served (KIP-511)."""
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=_ranges())


def _ranges() -> list[ApiVersionsResponseApi]:
    return [
        ApiVersionsResponseApi(api_key=key, min_version=served.advertised_min, max_version=served.version_max)
        for key, served in sorted(APIS.items())
    ]

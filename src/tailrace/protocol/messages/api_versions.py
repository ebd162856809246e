"""Messages of ApiVersions, the first request of most connections."""

from tailrace.protocol.message import Message, message, wire
from tailrace.protocol.primitive import BOOLEAN, INT16, INT32, INT64, STRING, array


@message(key=18, versions="0-5", flexible="3+")
class ApiVersionsRequest(Message):
    """Request the APIs, versions and features of the broker."""

    client_software_name: str = wire(STRING, "3+", ignorable=True)  # KIP-511
    client_software_version: str = wire(STRING, "3+", ignorable=True)
    # KIP-1242: the cluster and broker that the client expects to reach
    cluster_id: str | None = wire(STRING, "5+", nullable="5+", default=None, ignorable=True)
    node_id: int = wire(INT32, "5+", default=-1, ignorable=True)


class ApiVersionsResponseApi(Message):
    """The versions of one API, both ends included."""

    api_key: int = wire(INT16, "0+")
    min_version: int = wire(INT16, "0+")
    max_version: int = wire(INT16, "0+")


class ApiVersionsResponseSupportedFeature(Message):
    """A feature that this broker supports, and its levels."""

    name: str = wire(STRING, "3+")
    # versions below 4 must leave out a feature whose minimum is 0 (KAFKA-17011)
    min_version: int = wire(INT16, "3+")
    max_version: int = wire(INT16, "3+")


class ApiVersionsResponseFinalizedFeature(Message):
    """A feature level that is active in the whole cluster."""

    name: str = wire(STRING, "3+")
    max_version_level: int = wire(INT16, "3+")
    min_version_level: int = wire(INT16, "3+")


@message(key=18, versions="0-5", flexible="3+")
class ApiVersionsResponse(Message):
    """The version range of each API. Its header never has tagged fields, so that any client can read it."""

    error_code: int = wire(INT16, "0+")
    api_keys: list[ApiVersionsResponseApi] = wire(array(ApiVersionsResponseApi), "0+")
    throttle_time_ms: int = wire(INT32, "1+", ignorable=True)
    supported_features: list[ApiVersionsResponseSupportedFeature] = wire(
        array(ApiVersionsResponseSupportedFeature), "3+", tag=0, tagged="3+", ignorable=True
    )
    # clients ignore the finalized features if this is -1
    finalized_features_epoch: int = wire(INT64, "3+", default=-1, tag=1, tagged="3+", ignorable=True)
    finalized_features: list[ApiVersionsResponseFinalizedFeature] = wire(
        array(ApiVersionsResponseFinalizedFeature), "3+", tag=2, tagged="3+", ignorable=True
    )
    zk_migration_ready: bool = wire(BOOLEAN, "3+", tag=3, tagged="3+", ignorable=True)

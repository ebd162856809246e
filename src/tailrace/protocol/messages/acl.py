"""Access control lists: read, added and removed."""

from tailrace.protocol.message import Message, message, wire
from tailrace.protocol.primitive import INT8, INT16, INT32, STRING, array

_LITERAL = 3  # the pattern type that versions without one mean (KIP-290)


@message(key=29, versions="1-3", flexible="2+")
class DescribeAclsRequest(Message):
    """Ask for the access control entries that match a filter."""

    resource_type_filter: int = wire(INT8, "0+")
    resource_name_filter: str | None = wire(STRING, "0+", nullable="0+")
    pattern_type_filter: int = wire(INT8, "1+", default=_LITERAL)
    principal_filter: str | None = wire(STRING, "0+", nullable="0+")
    host_filter: str | None = wire(STRING, "0+", nullable="0+")
    operation: int = wire(INT8, "0+")
    permission_type: int = wire(INT8, "0+")


class DescribeAclsResponseAcl(Message):
    """An access control entry of a resource."""

    principal: str = wire(STRING, "0+")
    host: str = wire(STRING, "0+")
    operation: int = wire(INT8, "0+")
    permission_type: int = wire(INT8, "0+")


class DescribeAclsResponseResource(Message):
    """A resource and its access control entries."""

    resource_type: int = wire(INT8, "0+")
    resource_name: str = wire(STRING, "0+")
    pattern_type: int = wire(INT8, "1+", default=_LITERAL)
    acls: list[DescribeAclsResponseAcl] = wire(array(DescribeAclsResponseAcl), "0+")


@message(key=29, versions="1-3", flexible="2+")
class DescribeAclsResponse(Message):
    """The access control entries that match."""

    throttle_time_ms: int = wire(INT32, "0+")
    error_code: int = wire(INT16, "0+")
    error_message: str | None = wire(STRING, "0+", nullable="0+")
    resources: list[DescribeAclsResponseResource] = wire(array(DescribeAclsResponseResource), "0+")


class CreateAclsRequestCreation(Message):
    """An access control entry to add."""

    resource_type: int = wire(INT8, "0+")
    resource_name: str = wire(STRING, "0+")
    resource_pattern_type: int = wire(INT8, "1+", default=_LITERAL)
    principal: str = wire(STRING, "0+")
    host: str = wire(STRING, "0+")
    operation: int = wire(INT8, "0+")
    permission_type: int = wire(INT8, "0+")


@message(key=30, versions="1-3", flexible="2+")
class CreateAclsRequest(Message):
    """Add access control entries."""

    creations: list[CreateAclsRequestCreation] = wire(array(CreateAclsRequestCreation), "0+")


class CreateAclsResponseResult(Message):
    """The outcome for one entry."""

    error_code: int = wire(INT16, "0+")
    error_message: str | None = wire(STRING, "0+", nullable="0+")


@message(key=30, versions="1-3", flexible="2+")
class CreateAclsResponse(Message):
    """The outcome for each entry, in the order of the request."""

    throttle_time_ms: int = wire(INT32, "0+")
    results: list[CreateAclsResponseResult] = wire(array(CreateAclsResponseResult), "0+")


class DeleteAclsRequestFilter(Message):
    """A filter for access control entries to remove."""

    resource_type_filter: int = wire(INT8, "0+")
    resource_name_filter: str | None = wire(STRING, "0+", nullable="0+")
    pattern_type_filter: int = wire(INT8, "1+", default=_LITERAL)
    principal_filter: str | None = wire(STRING, "0+", nullable="0+")
    host_filter: str | None = wire(STRING, "0+", nullable="0+")
    operation: int = wire(INT8, "0+")
    permission_type: int = wire(INT8, "0+")


@message(key=31, versions="1-3", flexible="2+")
class DeleteAclsRequest(Message):
    """Remove the access control entries that match any of the filters."""

    filters: list[DeleteAclsRequestFilter] = wire(array(DeleteAclsRequestFilter), "0+")


class DeleteAclsResponseAcl(Message):
    """An access control entry that matched, and whether it was removed."""

    error_code: int = wire(INT16, "0+")
    error_message: str | None = wire(STRING, "0+", nullable="0+")
    resource_type: int = wire(INT8, "0+")
    resource_name: str = wire(STRING, "0+")
    pattern_type: int = wire(INT8, "1+", default=_LITERAL)
    principal: str = wire(STRING, "0+")
    host: str = wire(STRING, "0+")
    operation: int = wire(INT8, "0+")
    permission_type: int = wire(INT8, "0+")


class DeleteAclsResponseFilter(Message):
    """The outcome for one filter."""

    error_code: int = wire(INT16, "0+")
    error_message: str | None = wire(STRING, "0+", nullable="0+")
    matching_acls: list[DeleteAclsResponseAcl] = wire(array(DeleteAclsResponseAcl), "0+")


@message(key=31, versions="1-3", flexible="2+")
class DeleteAclsResponse(Message):
    """The outcome for each filter, in the order of the request."""

    throttle_time_ms: int = wire(INT32, "0+")
    filter_results: list[DeleteAclsResponseFilter] = wire(array(DeleteAclsResponseFilter), "0+")

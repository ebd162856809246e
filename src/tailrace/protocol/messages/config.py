"""Messages that read and change the configs of topics, brokers and groups."""

from tailrace.protocol.message import Message, message, wire
from tailrace.protocol.primitive import BOOLEAN, INT8, INT16, INT32, STRING, array


class DescribeConfigsRequestResource(Message):
    """A resource and the requested configs."""

    resource_type: int = wire(INT8, "0+")
    resource_name: str = wire(STRING, "0+")
    configuration_keys: list[str] | None = wire(array(STRING), "0+", nullable="0+")  # null for all


@message(key=32, versions="1-4", flexible="4+")
class DescribeConfigsRequest(Message):
    """Request the configs of resources."""

    resources: list[DescribeConfigsRequestResource] = wire(array(DescribeConfigsRequestResource), "0+")
    include_synonyms: bool = wire(BOOLEAN, "1+")
    include_documentation: bool = wire(BOOLEAN, "3+")


class DescribeConfigsResponseSynonym(Message):
    """A place that may set the value, the effective one first."""

    name: str = wire(STRING, "1+")
    value: str | None = wire(STRING, "1+", nullable="0+")
    source: int = wire(INT8, "1+")


class DescribeConfigsResponseConfig(Message):
    """A config, its value and the source of the value."""

    name: str = wire(STRING, "0+")
    value: str | None = wire(STRING, "0+", nullable="0+")
    read_only: bool = wire(BOOLEAN, "0+")
    config_source: int = wire(INT8, "1+", default=-1, ignorable=True)
    is_sensitive: bool = wire(BOOLEAN, "0+")
    synonyms: list[DescribeConfigsResponseSynonym] = wire(array(DescribeConfigsResponseSynonym), "1+", ignorable=True)
    config_type: int = wire(INT8, "3+", ignorable=True)
    documentation: str | None = wire(STRING, "3+", nullable="0+", ignorable=True)


class DescribeConfigsResponseResult(Message):
    """The configs of one resource."""

    error_code: int = wire(INT16, "0+")
    error_message: str | None = wire(STRING, "0+", nullable="0+")
    resource_type: int = wire(INT8, "0+")
    resource_name: str = wire(STRING, "0+")
    configs: list[DescribeConfigsResponseConfig] = wire(array(DescribeConfigsResponseConfig), "0+")


@message(key=32, versions="1-4", flexible="4+")
class DescribeConfigsResponse(Message):
    """The configs of each resource."""

    throttle_time_ms: int = wire(INT32, "0+")
    results: list[DescribeConfigsResponseResult] = wire(array(DescribeConfigsResponseResult), "0+")


class AlterConfigsRequestConfig(Message):
    """A config."""

    name: str = wire(STRING, "0+")
    value: str | None = wire(STRING, "0+", nullable="0+")


class AlterConfigsRequestResource(Message):
    """A resource and all configs that it shall have."""

    resource_type: int = wire(INT8, "0+")
    resource_name: str = wire(STRING, "0+")
    configs: list[AlterConfigsRequestConfig] = wire(array(AlterConfigsRequestConfig), "0+")


@message(key=33, versions="0-2", flexible="2+")
class AlterConfigsRequest(Message):
    """Replace all configs of resources. Deprecated, because it removes configs that are not named."""

    resources: list[AlterConfigsRequestResource] = wire(array(AlterConfigsRequestResource), "0+")
    validate_only: bool = wire(BOOLEAN, "0+")


class AlterConfigsResponseResource(Message):
    """The outcome for one resource."""

    error_code: int = wire(INT16, "0+")
    error_message: str | None = wire(STRING, "0+", nullable="0+")
    resource_type: int = wire(INT8, "0+")
    resource_name: str = wire(STRING, "0+")


@message(key=33, versions="0-2", flexible="2+")
class AlterConfigsResponse(Message):
    """Whether each resource was changed."""

    throttle_time_ms: int = wire(INT32, "0+")
    responses: list[AlterConfigsResponseResource] = wire(array(AlterConfigsResponseResource), "0+")


class IncrementalAlterConfigsRequestConfig(Message):
    """One change."""

    name: str = wire(STRING, "0+")
    config_operation: int = wire(INT8, "0+")  # 0 set, 1 delete, 2 append, 3 subtract
    value: str | None = wire(STRING, "0+", nullable="0+")


class IncrementalAlterConfigsRequestResource(Message):
    """A resource and the changes to it."""

    resource_type: int = wire(INT8, "0+")
    resource_name: str = wire(STRING, "0+")
    configs: list[IncrementalAlterConfigsRequestConfig] = wire(array(IncrementalAlterConfigsRequestConfig), "0+")


@message(key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest(Message):
    """Change single configs of resources (KIP-339)."""

    resources: list[IncrementalAlterConfigsRequestResource] = wire(array(IncrementalAlterConfigsRequestResource), "0+")
    validate_only: bool = wire(BOOLEAN, "0+")


class IncrementalAlterConfigsResponseResource(Message):
    """The outcome for one resource."""

    error_code: int = wire(INT16, "0+")
    error_message: str | None = wire(STRING, "0+", nullable="0+")
    resource_type: int = wire(INT8, "0+")
    resource_name: str = wire(STRING, "0+")


@message(key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse(Message):
    """Whether each resource was changed."""

    throttle_time_ms: int = wire(INT32, "0+")
    responses: list[IncrementalAlterConfigsResponseResource] = wire(
        array(IncrementalAlterConfigsResponseResource), "0+"
    )


@message(key=74, versions="0-1", flexible="0+")
class ListConfigResourcesRequest(Message):
    """List the resources that have configs; version 0 lists only client metrics (KIP-1142)."""

    resource_types: list[int] = wire(array(INT8), "1+")


class ListConfigResourcesResponseResource(Message):
    """A resource by name and type."""

    resource_name: str = wire(STRING, "0+")
    resource_type: int = wire(INT8, "1+", default=16, ignorable=True)


@message(key=74, versions="0-1", flexible="0+")
class ListConfigResourcesResponse(Message):
    """The resources that have configs."""

    throttle_time_ms: int = wire(INT32, "0+")
    error_code: int = wire(INT16, "0+")
    config_resources: list[ListConfigResourcesResponseResource] = wire(array(ListConfigResourcesResponseResource), "0+")

"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum

from tailrace.base.topic_name import topic_name_problem
from tailrace.config.alter import (
    Alteration,
    AlterOperation,
    alter_broker_configs,
    alter_group_overrides,
    alter_topic_overrides,
)
from tailrace.config.configuration import ConfigEntry
from tailrace.config.error import ConfigError, RequestError
from tailrace.machines.controller.record import CLUSTER_DEFAULT, ConfigKind
from tailrace.machines.controller.topic import require_topic
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.config import (
    AlterConfigsRequest,
    AlterConfigsRequestResource,
    AlterConfigsResponse,
    AlterConfigsResponseResource,
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    DescribeConfigsResponse,
    DescribeConfigsResponseConfig,
    DescribeConfigsResponseResult,
    DescribeConfigsResponseSynonym,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestResource,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
    ListConfigResourcesResponseResource,
)
from tailrace.server.api import api
from tailrace.server.context import CLUSTER_NAME, Operation, RequestContext, Resource
from tailrace.server.security.listener_tls import check_tls_change


class ResourceType(IntEnum):
    """A type of resource that has configs, with Kafka's code."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


# --- DescribeConfigs


def fail_describe(ctx: RequestContext, request: DescribeConfigsRequest, error: ApiError) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=[_not_described(asked, error) for asked in request.resources])


@api(DescribeConfigsRequest, versions=(1, 4), fail=fail_describe, missing="broker loggers, client metrics")
async def describe_configs(ctx: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """List the configs of each resource, with the source of each value."""
    response = DescribeConfigsResponse()
    for asked in _distinct(request.resources):
        await asyncio.sleep(0)  # each takes a while, and a request may name thousands
        try:
            configs = [
                _describe(entry, request)
                for entry in _entries(ctx, asked)
                if not asked.configuration_keys or entry.name in asked.configuration_keys
            ]
            response.results.append(
                DescribeConfigsResponseResult(
                    error_message="",  # as in Kafka, not null
                    resource_type=asked.resource_type,
                    resource_name=asked.resource_name,
                    configs=configs,
                )
            )
        except ApiError as error:
            response.results.append(_not_described(asked, error))
    return response


def _distinct(resources: Sequence[DescribeConfigsRequestResource]) -> list[DescribeConfigsRequestResource]:
    """Return each resource once. Kafka repeats its answer, so that a small request can cause a reply of gigabytes."""
    by_question = {
        (asked.resource_type, asked.resource_name, tuple(asked.configuration_keys or ())): asked for asked in resources
    }
    return list(by_question.values())


def _entries(ctx: RequestContext, asked: DescribeConfigsRequestResource) -> Iterator[ConfigEntry]:
    kind, name = _resource(ctx, asked.resource_type, asked.resource_name, Operation.DESCRIBE_CONFIGS)
    if kind is ConfigKind.TOPIC:
        return ctx.broker.topic_config(name).entries()
    if kind is ConfigKind.GROUP:
        return ctx.broker.group_config(name).entries()
    if name == CLUSTER_DEFAULT:
        return ctx.broker.config.cluster_default_entries()
    return ctx.broker.config.entries()


def _describe(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResponseConfig:
    synonyms = [
        DescribeConfigsResponseSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
        for synonym in (entry.synonyms if request.include_synonyms else ())
    ]
    return DescribeConfigsResponseConfig(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=synonyms,
        config_type=entry.type,
        documentation=entry.documentation if request.include_documentation else None,
    )


def _not_described(asked: DescribeConfigsRequestResource, error: ApiError) -> DescribeConfigsResponseResult:
    return DescribeConfigsResponseResult(
        error_code=error.code,
        error_message=error.message,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
    )


# --- AlterConfigs and IncrementalAlterConfigs

AlterResource = AlterConfigsRequestResource | IncrementalAlterConfigsRequestResource
Change = Callable[[Mapping[str, str]], Sequence[Alteration]]


def fail_alter(ctx: RequestContext, request: AlterConfigsRequest, error: ApiError) -> AlterConfigsResponse:
    return AlterConfigsResponse(responses=[_altered(asked, error) for asked in request.resources])


@api(AlterConfigsRequest, versions=(0, 2), fail=fail_alter)
async def alter_configs(ctx: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Replace the configs of each resource; a config that is not named returns to its default."""
    response = AlterConfigsResponse()
    for asked in request.resources:
        await asyncio.sleep(0)  # see `describe_configs`
        sets = [Alteration(config.name, AlterOperation.SET, config.value) for config in asked.configs]
        error = await _alter(ctx, asked, request.validate_only, sets, from_scratch=True)
        response.responses.append(_altered(asked, error))
    return response


def _altered(asked: AlterConfigsRequestResource, error: ApiError | None) -> AlterConfigsResponseResource:
    return AlterConfigsResponseResource(
        error_code=error.code if error else ErrorCode.NONE,
        error_message=error.message if error else None,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
    )


def fail_incremental(
    ctx: RequestContext,
    request: IncrementalAlterConfigsRequest,
    error: ApiError,
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(responses=[_adjusted(asked, error) for asked in request.resources])


@api(IncrementalAlterConfigsRequest, versions=(0, 1), fail=fail_incremental)
async def incremental_alter_configs(
    ctx: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Set, delete, append to and subtract from the configs of each resource."""
    response = IncrementalAlterConfigsResponse()
    for asked in request.resources:
        await asyncio.sleep(0)  # see `describe_configs`
        try:
            alterations = _alterations(asked)
        except ApiError as refusal:
            response.responses.append(_adjusted(asked, refusal))
            continue
        error = await _alter(ctx, asked, request.validate_only, alterations, from_scratch=False)
        response.responses.append(_adjusted(asked, error))
    return response


def _alterations(asked: IncrementalAlterConfigsRequestResource) -> list[Alteration]:
    names = [config.name for config in asked.configs]
    if len(set(names)) != len(names):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    try:
        return [
            Alteration(config.name, AlterOperation(config.config_operation), config.value) for config in asked.configs
        ]
    except ValueError as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from error


def _adjusted(
    asked: IncrementalAlterConfigsRequestResource, error: ApiError | None
) -> IncrementalAlterConfigsResponseResource:
    return IncrementalAlterConfigsResponseResource(
        error_code=error.code if error else ErrorCode.NONE,
        error_message=error.message if error else None,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
    )


async def _alter(
    ctx: RequestContext,
    asked: AlterResource,
    validate_only: bool,
    alterations: Sequence[Alteration],
    *,
    from_scratch: bool,
) -> ApiError | None:
    try:
        kind, name = _resource(ctx, asked.resource_type, asked.resource_name, Operation.ALTER_CONFIGS)

        def change(current: Mapping[str, str]) -> Mapping[str, str]:
            before = {} if from_scratch else current
            if kind is ConfigKind.TOPIC:
                require_topic(ctx.broker.image, name)
                return alter_topic_overrides(before, alterations, ctx.broker.config)
            if kind is ConfigKind.GROUP:
                return alter_group_overrides(before, alterations, ctx.broker.config)
            altered = alter_broker_configs(before, alterations, per_broker=name != CLUSTER_DEFAULT)
            _check_together(ctx, name, altered)
            return altered

        await ctx.broker.controller.write_config(kind, name, change, validate_only=validate_only)
    except ApiError as error:
        return error
    except RequestError as error:
        return ApiError(ErrorCode.INVALID_REQUEST, str(error))
    except ConfigError as error:
        return ApiError(ErrorCode.INVALID_CONFIG, str(error))
    return None


def _check_together(ctx: RequestContext, name: str, altered: Mapping[str, str]) -> None:
    """Raise `ConfigError` if this broker could not use its configs with these dynamic ones, and could not start."""
    names = (str(ctx.broker.config.node_id), CLUSTER_DEFAULT)
    layers = {each: ctx.broker.image.config(ConfigKind.BROKER, each) for each in names}
    if name in layers:
        together = ctx.broker.config.with_dynamic(*(layers | {name: altered}).values())
        check_tls_change(ctx.broker.config, together)


def _resource(
    ctx: RequestContext, resource_type: int, resource_name: str, operation: Operation
) -> tuple[ConfigKind, str]:
    """Return the resource that a request names; raise `ApiError` if it does not exist or the client is not allowed."""
    if resource_type == ResourceType.TOPIC:
        if not ctx.is_allowed(operation, Resource.TOPIC, resource_name):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if operation is Operation.DESCRIBE_CONFIGS and (problem := topic_name_problem(resource_name)):
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
        require_topic(ctx.broker.image, resource_name)
        return ConfigKind.TOPIC, resource_name
    if resource_type == ResourceType.BROKER:
        if not ctx.is_allowed(operation, Resource.CLUSTER, CLUSTER_NAME):
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        if resource_name not in ("", str(ctx.broker.broker_id)):
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"this is broker {ctx.broker.broker_id}, not {resource_name or 'the default'}",
            )
        return ConfigKind.BROKER, resource_name or CLUSTER_DEFAULT
    if resource_type == ResourceType.GROUP:
        if not ctx.is_allowed(operation, Resource.GROUP, resource_name):
            raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        if not resource_name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        return ConfigKind.GROUP, resource_name
    if resource_type in (ResourceType.BROKER_LOGGER, ResourceType.CLIENT_METRICS) and not ctx.is_allowed(
        operation, Resource.CLUSTER, CLUSTER_NAME
    ):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    raise ApiError(ErrorCode.INVALID_REQUEST, f"resource type {resource_type} is not supported")


# --- ListConfigResources


def fail_list(
    ctx: RequestContext,
    request: ListConfigResourcesRequest,
    error: ApiError,
) -> ListConfigResourcesResponse:
    return ListConfigResourcesResponse(error_code=error.code)


@api(ListConfigResourcesRequest, versions=(0, 1), fail=fail_list, missing="client metrics: there are none")
async def list_config_resources(
    ctx: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    """List the resources that have configs; version 0 lists client metrics only."""
    if not ctx.is_allowed(Operation.DESCRIBE_CONFIGS, Resource.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    types = set(request.resource_types) if ctx.version >= 1 else {int(ResourceType.CLIENT_METRICS)}
    if unknown := types - {int(known) for known in ResourceType}:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"unknown resource types {sorted(unknown)}")
    broker_names = [str(node.node_id) for node in ctx.nodes]
    by_type = {
        ResourceType.TOPIC: sorted(ctx.broker.image.topics),
        ResourceType.BROKER: broker_names,
        ResourceType.BROKER_LOGGER: broker_names,
        ResourceType.GROUP: ctx.broker.image.configured(ConfigKind.GROUP),
    }
    return ListConfigResourcesResponse(
        config_resources=[
            ListConfigResourcesResponseResource(resource_name=name, resource_type=resource_type)
            for resource_type, names in by_type.items()
            if not types or resource_type in types
            for name in names
        ]
    )

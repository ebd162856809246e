"""What requests of administrators change, for the audit log. Nothing here returns a secret."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tailrace.config.group import GroupConfig
from tailrace.config.topic import TopicConfig
from tailrace.machines.authorization.vocabulary import Operation, PatternType, Permission, Resource
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.message import Message
from tailrace.protocol.messages import (
    acl,
    client_quota,
    config,
    delegation_token,
    group_admin,
    group_offset,
    offset,
    reassignment,
    replica_log_dir,
    scram,
    topic,
    transaction_marker,
)
from tailrace.protocol.primitive import ZERO_UUID

_TOPIC = 2
_CONFIG_KINDS = {_TOPIC: "TOPIC", 4: "BROKER", 8: "BROKER_LOGGER", 16: "CLIENT_METRICS", 32: "GROUP"}
_OPEN_CONFIGS: Mapping[int, Collection[str]] = {_TOPIC: TopicConfig.options, 32: GroupConfig.options}
"""The configs that hold no secrets, by the kind of their resource. All others may, also by a mistake of the client."""
_HIDDEN = "…"
_CONFIG_OPERATIONS = ("set", "delete", "append", "subtract")


class Change(NamedTuple):
    """One thing that a request has changed, or should have."""

    resource_type: str
    name: str
    details: Mapping[str, Any]
    error: ErrorCode


Extract = Callable[[Any, Any], Iterator[Change]]
_EXTRACTS: dict[type[Message], Extract] = {}
AUDITED = _EXTRACTS.keys()
"""The requests of administrators."""


def changes(request: Message, response: Message) -> Iterator[Change]:
    """Return what a request changes, with the outcome; nothing if it only asks or validates."""
    extract = _EXTRACTS.get(type(request))
    if extract is None or getattr(request, "validate_only", False):
        return iter(())
    return extract(request, response)


def _of(request_type: type[Message]) -> Callable[[Extract], Extract]:
    def enter(extract: Extract) -> Extract:
        _EXTRACTS[request_type] = extract
        return extract

    return enter


# --- topics


@_of(topic.CreateTopicsRequest)
def _create_topics(request: topic.CreateTopicsRequest, response: topic.CreateTopicsResponse) -> Iterator[Change]:
    asked = {each.name: each for each in request.topics}
    for told in response.topics:
        new = asked[told.name]
        details = {
            "partitions": len(new.assignments) or new.num_partitions,
            "replication_factor": new.replication_factor,
            "configs": {each.name: _shown(_TOPIC, each.name, each.value) for each in new.configs},
        }
        yield Change("TOPIC", told.name, details, ErrorCode(told.error_code))


@_of(topic.DeleteTopicsRequest)
def _delete_topics(_: topic.DeleteTopicsRequest, response: topic.DeleteTopicsResponse) -> Iterator[Change]:
    for told in response.responses:
        details = {} if told.topic_id == ZERO_UUID else {"topic_id": str(told.topic_id)}
        yield Change("TOPIC", told.name or "", details, ErrorCode(told.error_code))


@_of(topic.CreatePartitionsRequest)
def _create_partitions(
    request: topic.CreatePartitionsRequest, response: topic.CreatePartitionsResponse
) -> Iterator[Change]:
    counts = {each.name: each.count for each in request.topics}
    for told in response.results:
        yield Change("TOPIC", told.name, {"partitions": counts[told.name]}, ErrorCode(told.error_code))


@_of(offset.DeleteRecordsRequest)
def _delete_records(request: offset.DeleteRecordsRequest, response: offset.DeleteRecordsResponse) -> Iterator[Change]:
    before = {
        (each.name, partition.partition_index): partition.offset
        for each in request.topics
        for partition in each.partitions
    }
    for each in response.topics:
        for told in each.partitions:
            details = {
                "partition": told.partition_index,
                "before_offset": before.get((each.name, told.partition_index), told.low_watermark),
            }
            yield Change("TOPIC", each.name, details, ErrorCode(told.error_code))


@_of(transaction_marker.WriteTxnMarkersRequest)
def _write_markers(
    request: transaction_marker.WriteTxnMarkersRequest, response: transaction_marker.WriteTxnMarkersResponse
) -> Iterator[Change]:
    for asked, told in zip(request.markers, response.markers, strict=False):
        outcome = "commit" if asked.transaction_result else "abort"
        for each in told.topics:
            for partition in each.partitions:
                details = {
                    "change": f"{outcome} transaction",
                    "partition": partition.partition_index,
                    "producer_id": asked.producer_id,
                }
                yield Change("TOPIC", each.name, details, ErrorCode(partition.error_code))


# --- configs


@_of(config.AlterConfigsRequest)
def _alter_configs(request: config.AlterConfigsRequest, response: config.AlterConfigsResponse) -> Iterator[Change]:
    for asked, told in zip(request.resources, response.responses, strict=False):
        shown = {each.name: _shown(asked.resource_type, each.name, each.value) for each in asked.configs}
        yield _configured(asked.resource_type, asked.resource_name, {"configs": shown}, told.error_code)


@_of(config.IncrementalAlterConfigsRequest)
def _alter_configs_incrementally(
    request: config.IncrementalAlterConfigsRequest, response: config.IncrementalAlterConfigsResponse
) -> Iterator[Change]:
    for asked, told in zip(request.resources, response.responses, strict=False):
        shown = [
            {
                "name": each.name,
                "operation": dict(enumerate(_CONFIG_OPERATIONS)).get(each.config_operation, "unknown"),
                "value": _shown(asked.resource_type, each.name, each.value),
            }
            for each in asked.configs
        ]
        yield _configured(asked.resource_type, asked.resource_name, {"configs": shown}, told.error_code)


def _shown(kind: int, name: str, value: str | None) -> str | None:
    return value if value is None or name in _OPEN_CONFIGS.get(kind, ()) else _HIDDEN


def _configured(kind: int, name: str, details: Mapping[str, Any], code: int) -> Change:
    return Change(_CONFIG_KINDS.get(kind, str(kind)), name, details, ErrorCode(code))


@_of(client_quota.AlterClientQuotasRequest)
def _alter_quotas(
    request: client_quota.AlterClientQuotasRequest, response: client_quota.AlterClientQuotasResponse
) -> Iterator[Change]:
    for asked, told in zip(request.entries, response.entries, strict=False):
        entity = {part.entity_type: part.entity_name for part in asked.entity}
        quotas = {change.key: None if change.remove else change.value for change in asked.ops}
        yield Change("QUOTA", "", {"entity": entity, "quotas": quotas}, ErrorCode(told.error_code))


# --- ACLs, users and tokens


@_of(acl.CreateAclsRequest)
def _create_acls(request: acl.CreateAclsRequest, response: acl.CreateAclsResponse) -> Iterator[Change]:
    for asked, told in zip(request.creations, response.results, strict=False):
        yield _ruled("create", asked, asked.resource_pattern_type, told.error_code)


@_of(acl.DeleteAclsRequest)
def _delete_acls(_: acl.DeleteAclsRequest, response: acl.DeleteAclsResponse) -> Iterator[Change]:
    for told in response.filter_results:
        for found in told.matching_acls:
            yield _ruled("delete", found, found.pattern_type, found.error_code)
        if told.error_code:
            yield Change("ACL", "", {"change": "delete"}, ErrorCode(told.error_code))


def _ruled(
    change: str, rule: acl.CreateAclsRequestCreation | acl.DeleteAclsResponseAcl, pattern_type: int, code: int
) -> Change:
    details = {
        "change": change,
        "acl_resource_type": Resource(rule.resource_type).name,
        "acl_pattern_type": PatternType(pattern_type).name,
        "acl_principal": rule.principal,
        "acl_host": rule.host,
        "acl_operation": Operation(rule.operation).name,
        "acl_permission": Permission(rule.permission_type).name,
    }
    return Change("ACL", rule.resource_name, details, ErrorCode(code))


@_of(scram.AlterUserScramCredentialsRequest)
def _alter_users(
    request: scram.AlterUserScramCredentialsRequest, response: scram.AlterUserScramCredentialsResponse
) -> Iterator[Change]:
    codes = {told.user: ErrorCode(told.error_code) for told in response.results}
    for deletion in request.deletions:
        details = {"change": "delete", "mechanism": deletion.mechanism}
        yield Change("USER", deletion.name, details, codes.get(deletion.name, ErrorCode.NONE))
    for given in request.upsertions:
        details = {"change": "set", "mechanism": given.mechanism, "iterations": given.iterations}
        yield Change("USER", given.name, details, codes.get(given.name, ErrorCode.NONE))


@_of(delegation_token.CreateDelegationTokenRequest)
def _create_token(
    request: delegation_token.CreateDelegationTokenRequest, response: delegation_token.CreateDelegationTokenResponse
) -> Iterator[Change]:
    details = {
        "change": "create",
        "owner": f"{response.principal_type}:{response.principal_name}",
        "renewers": [f"{each.principal_type}:{each.principal_name}" for each in request.renewers],
    }
    yield Change("DELEGATION_TOKEN", response.token_id, details, ErrorCode(response.error_code))


@_of(delegation_token.RenewDelegationTokenRequest)
def _renew_token(_: Message, response: delegation_token.RenewDelegationTokenResponse) -> Iterator[Change]:
    # The request names the token by its secret alone.
    details = {"change": "renew", "expiry_timestamp_ms": response.expiry_timestamp_ms}
    yield Change("DELEGATION_TOKEN", "", details, ErrorCode(response.error_code))


@_of(delegation_token.ExpireDelegationTokenRequest)
def _expire_token(_: Message, response: delegation_token.ExpireDelegationTokenResponse) -> Iterator[Change]:
    details = {"change": "expire", "expiry_timestamp_ms": response.expiry_timestamp_ms}
    yield Change("DELEGATION_TOKEN", "", details, ErrorCode(response.error_code))


# --- groups


@_of(group_admin.DeleteGroupsRequest)
def _delete_groups(_: Message, response: group_admin.DeleteGroupsResponse) -> Iterator[Change]:
    for told in response.results:
        yield Change("GROUP", told.group_id, {"change": "delete"}, ErrorCode(told.error_code))


@_of(group_offset.OffsetDeleteRequest)
def _delete_offsets(
    request: group_offset.OffsetDeleteRequest, response: group_offset.OffsetDeleteResponse
) -> Iterator[Change]:
    details: dict[str, Any] = {"change": "delete offsets"}
    if response.error_code:
        yield Change("GROUP", request.group_id, details, ErrorCode(response.error_code))
    for each in response.topics:
        for told in each.partitions:
            about = {**details, "topic": each.name, "partition": told.partition_index}
            yield Change("GROUP", request.group_id, about, ErrorCode(told.error_code))


# --- brokers


@_of(reassignment.AlterPartitionReassignmentsRequest)
def _reassign(
    request: reassignment.AlterPartitionReassignmentsRequest,
    response: reassignment.AlterPartitionReassignmentsResponse,
) -> Iterator[Change]:
    wanted: dict[tuple[str, int], Sequence[int] | None] = {
        (each.name, partition.partition_index): partition.replicas
        for each in request.topics
        for partition in each.partitions
    }
    for each in response.responses:
        for told in each.partitions:
            details = {"partition": told.partition_index, "replicas": wanted.get((each.name, told.partition_index))}
            yield Change("TOPIC", each.name, details, ErrorCode(told.error_code or response.error_code))


@_of(reassignment.ElectLeadersRequest)
def _elect(request: reassignment.ElectLeadersRequest, response: reassignment.ElectLeadersResponse) -> Iterator[Change]:
    for each in response.replica_election_results:
        for told in each.partition_result:
            details = {"partition": told.partition_id, "election_type": request.election_type}
            yield Change("TOPIC", each.topic, details, ErrorCode(told.error_code))


@_of(reassignment.UnregisterBrokerRequest)
def _unregister(
    request: reassignment.UnregisterBrokerRequest, response: reassignment.UnregisterBrokerResponse
) -> Iterator[Change]:
    yield Change("BROKER", str(request.broker_id), {"change": "unregister"}, ErrorCode(response.error_code))


@_of(replica_log_dir.AlterReplicaLogDirsRequest)
def _move(
    request: replica_log_dir.AlterReplicaLogDirsRequest, response: replica_log_dir.AlterReplicaLogDirsResponse
) -> Iterator[Change]:
    folders = {
        (each.name, index): wanted.path
        for wanted in request.dirs
        for each in wanted.topics
        for index in each.partitions
    }
    for each in response.results:
        for told in each.partitions:
            details = {
                "partition": told.partition_index,
                "log_dir": folders.get((each.topic_name, told.partition_index)),
            }
            yield Change("TOPIC", each.topic_name, details, ErrorCode(told.error_code))

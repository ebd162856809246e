"""Questions to brokers about the rights of the user that a connection belongs to.

The brokers are the judges: their answers to Metadata, DescribeGroups and DescribeCluster tell which operations the user
of the connection may perform, with super users, denials, prefixes and wildcards already applied. They answer about
topics and groups that do not exist, too. As in Kafka, a user without DESCRIBE on a resource learns nothing about it, so
a right counts only together with DESCRIBE.
"""

from collections.abc import Collection, Sequence
from functools import partial

from tailrace.base.caller_limits import HTTP_RIGHTS_PER_REQUEST_MAX
from tailrace.client.cluster import Cluster
from tailrace.client.group.coordinator import CoordinatorKind
from tailrace.protocol.acl_code import Operation, Resource
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.cluster import DescribeClusterRequest, DescribeClusterResponse
from tailrace.protocol.messages.coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tailrace.protocol.messages.group_admin import DescribeGroupsRequest, DescribeGroupsResponse
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

NOTHING = 0
"""The bit field of a user without any right."""

_RETRY_MS = 5_000
_GROUPS_VERSION_MAX = 5
"""From version 6 on, brokers tell nothing about groups that do not exist (KIP-1043)."""


async def ask_rights(cluster: Cluster, resource: Resource, names: Collection[str]) -> dict[str, int]:
    """Return the operations that the user may perform on each of some resources, as bit fields of the protocol.

    Raises `ApiError` or `ClientError` if the brokers do not answer.
    """
    distinct = list(dict.fromkeys(names))
    found: dict[str, int] = {}
    for start in range(0, len(distinct), HTTP_RIGHTS_PER_REQUEST_MAX):
        some = distinct[start : start + HTTP_RIGHTS_PER_REQUEST_MAX]
        found |= await cluster.retry(partial(_ask, cluster, resource, some), timeout_ms=_RETRY_MS)
    return found


def includes(operations: int, operation: Operation) -> bool:
    """Return whether a bit field has an operation."""
    return bool(operations >> operation & 1)


async def _ask(cluster: Cluster, resource: Resource, names: Sequence[str]) -> dict[str, int]:
    if resource is Resource.TOPIC:
        return await _ask_topics(cluster, names)
    if resource is Resource.GROUP:
        return await _ask_groups(cluster, names)
    return dict.fromkeys(names, await _ask_cluster(cluster))


async def _ask_topics(cluster: Cluster, names: Sequence[str]) -> dict[str, int]:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    reply = await cluster.request_any(request, MetadataResponse)
    _check(reply.error_code, "topics")
    told = {
        topic.name: _bits(topic.topic_authorized_operations)
        for topic in reply.topics
        if topic.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED
    }
    return {name: told.get(name, NOTHING) for name in names}


async def _ask_groups(cluster: Cluster, names: Sequence[str]) -> dict[str, int]:
    request = FindCoordinatorRequest(key_type=CoordinatorKind.GROUP, coordinator_keys=list(names))
    found = await cluster.request_any(request, FindCoordinatorResponse)
    told = dict.fromkeys(names, NOTHING)
    by_node: dict[int, list[str]] = {}
    for each in found.coordinators:
        if each.error_code != ErrorCode.GROUP_AUTHORIZATION_FAILED:
            _check(each.error_code, f"group {each.key}")
            by_node.setdefault(each.node_id, []).append(each.key)
    if by_node.keys() - cluster.view.nodes.keys():
        await cluster.refresh([])
    for node_id, groups in by_node.items():
        connection = await cluster.connection(node_id)
        asked = DescribeGroupsRequest(groups=groups, include_authorized_operations=True)
        reply = await connection.request(asked, DescribeGroupsResponse, version_max=_GROUPS_VERSION_MAX)
        for group in reply.groups:
            if group.error_code != ErrorCode.GROUP_AUTHORIZATION_FAILED:
                _check(group.error_code, f"group {group.group_id}")
                told[group.group_id] = _bits(group.authorized_operations)
    return told


async def _ask_cluster(cluster: Cluster) -> int:
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    reply = await cluster.request_any(request, DescribeClusterResponse)
    _check(reply.error_code, "the cluster")
    return _bits(reply.cluster_authorized_operations)


def _check(code: int, what: str) -> None:
    if code:
        raise ApiError(ErrorCode(code), f"the rights on {what} are not known")


def _bits(operations: int) -> int:
    """Return a bit field; a broker that tells nothing grants nothing."""
    return max(operations, NOTHING)

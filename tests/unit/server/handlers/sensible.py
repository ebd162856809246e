"""One request for each API that any client might send, in any version that is served."""

from uuid import UUID

from tests.unit.sample import make_batch
from tests.unit.server.handlers import sensible_security, sensible_transaction  # noqa: F401  enter their requests
from tests.unit.server.handlers.sensible_about import BUILDERS, About, builds

from tailrace.protocol.api_key import ApiKey
from tailrace.protocol.message import Message
from tailrace.protocol.messages import (
    api_versions,
    cluster,
    config,
    consumer_group,
    coordinator,
    fetch,
    group,
    group_admin,
    group_offset,
    metadata,
    offset,
    produce,
    producer,
    reassignment,
    topic,
)

TOPIC = 2


def sensible(key: int, version: int, topic_id: UUID, name: str = "t") -> Message:
    """A request about the topic `t`, or about another one by its name and id."""
    return BUILDERS[key](About(version, topic_id, name))


# --- data


@builds(ApiKey.PRODUCE)
def _produce(about: About) -> Message:
    data = [produce.ProduceRequestPartition(index=0, records=bytes(make_batch(b"more")))]
    by_id = about.version >= 13
    named = produce.ProduceRequestTopic(
        name="" if by_id else about.name, topic_id=about.topic_id if by_id else UUID(int=0), partition_data=data
    )
    return produce.ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[named])


@builds(ApiKey.FETCH)
def _fetch(about: About) -> Message:
    # Not the first record: the request to delete records, which may come before, deletes that one.
    partitions = [fetch.FetchRequestPartition(partition=0, fetch_offset=1, partition_max_bytes=1000)]
    by_id = about.version >= 13
    named = fetch.FetchRequestTopic(
        topic="" if by_id else about.name, topic_id=about.topic_id if by_id else UUID(int=0), partitions=partitions
    )
    return fetch.FetchRequest(replica_id=-1, max_wait_ms=0, min_bytes=1, max_bytes=1000, topics=[named])


@builds(ApiKey.LIST_OFFSETS)
def _list_offsets(about: About) -> Message:
    partitions = [offset.ListOffsetsRequestPartition(partition_index=0, timestamp=-1)]
    return offset.ListOffsetsRequest(
        replica_id=-1, topics=[offset.ListOffsetsRequestTopic(name=about.name, partitions=partitions)]
    )


@builds(ApiKey.OFFSET_FOR_LEADER_EPOCH)
def _offset_for_leader_epoch(about: About) -> Message:
    partitions = [offset.OffsetForLeaderEpochRequestPartition(partition=0, leader_epoch=0)]
    return offset.OffsetForLeaderEpochRequest(
        topics=[offset.OffsetForLeaderEpochRequestTopic(topic=about.name, partitions=partitions)]
    )


@builds(ApiKey.DELETE_RECORDS)
def _delete_records(about: About) -> Message:
    partitions = [offset.DeleteRecordsRequestPartition(partition_index=0, offset=1)]
    return offset.DeleteRecordsRequest(
        topics=[offset.DeleteRecordsRequestTopic(name=about.name, partitions=partitions)]
    )


@builds(ApiKey.INIT_PRODUCER_ID)
def _init_producer_id(_about: About) -> Message:
    return producer.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)


# --- the cluster


@builds(ApiKey.API_VERSIONS)
def _api_versions(about: About) -> Message:
    if about.version < 3:
        return api_versions.ApiVersionsRequest()
    return api_versions.ApiVersionsRequest(client_software_name="peer", client_software_version="1.0")


@builds(ApiKey.METADATA)
def _metadata(about: About) -> Message:
    return metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=about.name)])


@builds(ApiKey.FIND_COORDINATOR)
def _find_coordinator(about: About) -> Message:
    if about.version < 4:
        return coordinator.FindCoordinatorRequest(key="g")
    return coordinator.FindCoordinatorRequest(coordinator_keys=["g", "h"])


@builds(ApiKey.DESCRIBE_CLUSTER)
def _describe_cluster(_about: About) -> Message:
    return cluster.DescribeClusterRequest()


@builds(ApiKey.DESCRIBE_LOG_DIRS)
def _describe_log_dirs(about: About) -> Message:
    return cluster.DescribeLogDirsRequest(
        topics=[cluster.DescribeLogDirsRequestTopic(topic=about.name, partitions=[0])]
    )


# --- topics


@builds(ApiKey.CREATE_TOPICS)
def _create_topics(about: About) -> Message:
    new = topic.CreateTopicsRequestTopic(name=about.apart("new"), num_partitions=1, replication_factor=1)
    return topic.CreateTopicsRequest(topics=[new])


@builds(ApiKey.DELETE_TOPICS)
def _delete_topics(about: About) -> Message:
    name = about.apart("doomed")
    if about.version < 6:
        return topic.DeleteTopicsRequest(topic_names=[name])
    return topic.DeleteTopicsRequest(topics=[topic.DeleteTopicsRequestTopic(name=name)])


@builds(ApiKey.CREATE_PARTITIONS)
def _create_partitions(about: About) -> Message:
    grown = topic.CreatePartitionsRequestTopic(name=about.apart("growing"), count=2, assignments=None)
    return topic.CreatePartitionsRequest(topics=[grown])


@builds(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
def _describe_topic_partitions(about: About) -> Message:
    return topic.DescribeTopicPartitionsRequest(topics=[topic.DescribeTopicPartitionsRequestTopic(name=about.name)])


# --- configuration


@builds(ApiKey.DESCRIBE_CONFIGS)
def _describe_configs(about: About) -> Message:
    asked = config.DescribeConfigsRequestResource(resource_type=TOPIC, resource_name=about.name)
    return config.DescribeConfigsRequest(resources=[asked], include_synonyms=True)


@builds(ApiKey.ALTER_CONFIGS)
def _alter_configs(about: About) -> Message:
    configs = [config.AlterConfigsRequestConfig(name="retention.ms", value="9999999")]
    resource = config.AlterConfigsRequestResource(resource_type=TOPIC, resource_name=about.name, configs=configs)
    return config.AlterConfigsRequest(resources=[resource])


@builds(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def _incremental_alter_configs(about: About) -> Message:
    configs = [config.IncrementalAlterConfigsRequestConfig(name="retention.ms", value="8888888")]
    resource = config.IncrementalAlterConfigsRequestResource(
        resource_type=TOPIC, resource_name=about.name, configs=configs
    )
    return config.IncrementalAlterConfigsRequest(resources=[resource])


@builds(ApiKey.LIST_CONFIG_RESOURCES)
def _list_config_resources(_about: About) -> Message:
    return config.ListConfigResourcesRequest()


# --- groups

GROUP = "offsets"


@builds(ApiKey.JOIN_GROUP)
def _join_group(about: About) -> Message:
    return group.JoinGroupRequest(
        group_id=f"joined-{about.version}",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000 if about.version >= 1 else -1,
        group_instance_id="i" if about.version >= 5 else None,
        protocol_type="consumer",
        protocols=[group.JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


@builds(ApiKey.SYNC_GROUP)
def _sync_group(about: About) -> Message:
    has_protocols = about.version >= 5
    return group.SyncGroupRequest(
        group_id=GROUP,
        generation_id=1,
        member_id="nobody",
        protocol_type="consumer" if has_protocols else None,
        protocol_name="range" if has_protocols else None,
    )


@builds(ApiKey.CONSUMER_GROUP_HEARTBEAT)
def _consumer_group_heartbeat(about: About) -> Message:
    return consumer_group.ConsumerGroupHeartbeatRequest(
        group_id=f"new-{about.version}",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=[about.name],
        topic_partitions=[],
    )


@builds(ApiKey.CONSUMER_GROUP_DESCRIBE)
def _consumer_group_describe(about: About) -> Message:
    return consumer_group.ConsumerGroupDescribeRequest(group_ids=[f"new-{about.version}"])


@builds(ApiKey.HEARTBEAT)
def _heartbeat(about: About) -> Message:
    return group.HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="nobody")


@builds(ApiKey.LEAVE_GROUP)
def _leave_group(about: About) -> Message:
    if about.version < 3:
        return group.LeaveGroupRequest(group_id=GROUP, member_id="nobody")
    return group.LeaveGroupRequest(group_id=GROUP, members=[group.LeaveGroupRequestMember(member_id="nobody")])


@builds(ApiKey.OFFSET_COMMIT)
def _offset_commit(about: About) -> Message:
    return commit(GROUP, about.name, about.topic_id, about.version)


def commit(group_id: str, name: str, topic_id: UUID, version: int) -> group_offset.OffsetCommitRequest:
    """The offset 1 in partition 0 of a topic, from a consumer without a group."""
    partition = group_offset.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata="note"
    )
    by_id = version >= 10
    topic = group_offset.OffsetCommitRequestTopic(
        name="" if by_id else name, topic_id=topic_id if by_id else UUID(int=0), partitions=[partition]
    )
    return group_offset.OffsetCommitRequest(group_id=group_id, topics=[topic])


@builds(ApiKey.OFFSET_FETCH)
def _offset_fetch(about: About) -> Message:
    if about.version < 8:
        old = group_offset.OffsetFetchRequestTopic(name=about.name, partition_indexes=[0])
        return group_offset.OffsetFetchRequest(group_id=GROUP, topics=[old])
    by_id = about.version >= 10
    asked = group_offset.OffsetFetchRequestGroupTopic(
        name="" if by_id else about.name, topic_id=about.topic_id if by_id else UUID(int=0), partition_indexes=[0]
    )
    return group_offset.OffsetFetchRequest(
        groups=[group_offset.OffsetFetchRequestGroup(group_id=GROUP, topics=[asked])]
    )


@builds(ApiKey.OFFSET_DELETE)
def _offset_delete(about: About) -> Message:
    partitions = [group_offset.OffsetDeleteRequestPartition(partition_index=0)]
    topic = group_offset.OffsetDeleteRequestTopic(name=about.name, partitions=partitions)
    return group_offset.OffsetDeleteRequest(group_id=GROUP, topics=[topic])


@builds(ApiKey.LIST_GROUPS)
def _list_groups(about: About) -> Message:
    return group_admin.ListGroupsRequest()


@builds(ApiKey.DESCRIBE_GROUPS)
def _describe_groups(about: About) -> Message:
    return group_admin.DescribeGroupsRequest(groups=[GROUP], include_authorized_operations=about.version >= 3)


@builds(ApiKey.DELETE_GROUPS)
def _delete_groups(about: About) -> Message:
    return group_admin.DeleteGroupsRequest(groups_names=[f"doomed-{about.version}"])


# --- the cluster


@builds(ApiKey.ELECT_LEADERS)
def _elect_leaders(about: About) -> Message:
    if about.version == 0:
        # An error of the whole has no place here but in the partitions that were named.
        named = reassignment.ElectLeadersRequestTopic(topic=about.name, partitions=[0])
        return reassignment.ElectLeadersRequest(topic_partitions=[named])
    return reassignment.ElectLeadersRequest(topic_partitions=None)


@builds(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
def _alter_partition_reassignments(about: About) -> Message:
    partition = reassignment.AlterPartitionReassignmentsRequestPartition(partition_index=0, replicas=[1])
    topic = reassignment.AlterPartitionReassignmentsRequestTopic(name=about.name, partitions=[partition])
    return reassignment.AlterPartitionReassignmentsRequest(topics=[topic])


@builds(ApiKey.LIST_PARTITION_REASSIGNMENTS)
def _list_partition_reassignments(about: About) -> Message:
    return reassignment.ListPartitionReassignmentsRequest(topics=None)


@builds(ApiKey.UNREGISTER_BROKER)
def _unregister_broker(about: About) -> Message:
    return reassignment.UnregisterBrokerRequest(broker_id=99)

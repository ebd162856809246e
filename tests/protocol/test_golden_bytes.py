"""Bytes that others wrote, so that a mistake made twice on our side is still seen."""

import uuid
from typing import Any

import pytest

from tailrace.protocol import codec, reference
from tailrace.protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ApiVersionsResponseApi,
    ApiVersionsResponseFinalizedFeature,
    ApiVersionsResponseSupportedFeature,
)
from tailrace.protocol.messages.consumer_group import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseAssignment,
    ConsumerGroupDescribeResponseGroup,
    ConsumerGroupDescribeResponseMember,
    ConsumerGroupDescribeResponseTopicPartitions,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)
from tailrace.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from tailrace.protocol.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestReplicaState,
    FetchRequestTopic,
    FetchResponse,
    FetchResponseLeader,
    FetchResponseNode,
    FetchResponsePartition,
    FetchResponseTopic,
)
from tailrace.protocol.messages.group import JoinGroupRequest, JoinGroupRequestProtocol
from tailrace.protocol.messages.group_admin import DeleteGroupsResponse, DeleteGroupsResponseResult
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tailrace.protocol.messages.offset import ListOffsetsRequest, ListOffsetsRequestPartition, ListOffsetsRequestTopic
from tailrace.protocol.messages.produce import ProduceRequest, ProduceRequestPartition, ProduceRequestTopic
from tailrace.protocol.messages.producer import InitProducerIdRequest, InitProducerIdResponse
from tailrace.protocol.messages.topic import DescribeTopicPartitionsResponse, DescribeTopicPartitionsResponseCursor
from tailrace.protocol.messages.transaction import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tailrace.protocol.messages.transaction_marker import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestMarker,
    WriteTxnMarkersRequestTopic,
    WriteTxnMarkersResponse,
    WriteTxnMarkersResponseMarker,
    WriteTxnMarkersResponsePartition,
    WriteTxnMarkersResponseTopic,
)
from tailrace.protocol.principal import encode_principal

TOPIC_ID = uuid.UUID("01020304-0506-0708-090a-0b0c0d0e0f10")

FROM_KAFKA_PYTHON: list[tuple[Any, int, str]] = [
    (
        ProduceRequest(
            acks=-1,
            timeout_ms=30000,
            topic_data=[
                ProduceRequestTopic(name="orders", partition_data=[ProduceRequestPartition(index=1, records=b"batch")])
            ],
        ),
        3,
        "ffff ffff 00007530 00000001 0006 6f7264657273 00000001 00000001 00000005 6261746368",
    ),
    (
        ProduceRequest(
            acks=-1,
            timeout_ms=30000,
            topic_data=[
                ProduceRequestTopic(name="orders", partition_data=[ProduceRequestPartition(index=1, records=b"batch")])
            ],
        ),
        11,
        "00 ffff 00007530 02 07 6f7264657273 02 00000001 06 6261746368 00 00 00",
    ),
    (MetadataRequest(topics=[MetadataRequestTopic(name="orders")]), 0, "00000001 0006 6f7264657273"),
    (MetadataRequest(topics=None), 1, "ffffffff"),
    (  # written by Apache Kafka 4.3.1, as the next ones are
        EnvelopeRequest(
            request_data=b"request",
            request_principal=encode_principal("User:alice", is_token_authenticated=True),
            client_host_address=bytes((127, 0, 0, 1)),
        ),
        0,
        "08 72657175657374 10 0000 05 55736572 06 616c696365 01 00 05 7f000001 00",
    ),
    (
        EnvelopeRequest(request_data=b"request", request_principal=None, client_host_address=bytes((127, 0, 0, 1))),
        0,
        "08 72657175657374 00 05 7f000001 00",
    ),
    (EnvelopeResponse(error_code=41), 0, "00 0029 00"),
    (EnvelopeResponse(response_data=b"reply"), 0, "06 7265706c79 0000 00"),
    (
        MetadataRequest(topics=[MetadataRequestTopic(name="orders")], include_topic_authorized_operations=True),
        9,
        "02 07 6f7264657273 00 01 00 01 00",
    ),
    (
        ApiVersionsResponse(error_code=35, api_keys=[ApiVersionsResponseApi(api_key=18, min_version=0, max_version=4)]),
        0,
        "0023 00000001 0012 0000 0004",
    ),
    (
        ApiVersionsResponse(
            api_keys=[ApiVersionsResponseApi(api_key=0, min_version=0, max_version=12)],
            supported_features=[
                ApiVersionsResponseSupportedFeature(name="transaction.version", min_version=0, max_version=2)
            ],
            finalized_features_epoch=1,
            finalized_features=[
                ApiVersionsResponseFinalizedFeature(
                    name="transaction.version", max_version_level=2, min_version_level=2
                )
            ],
        ),
        4,
        "0000 02 0000 0000 000c 00 00000000 03"
        " 00 1a 02 14 7472616e73616374696f6e2e76657273696f6e 0000 0002 00"
        " 01 08 0000000000000001"
        " 02 1a 02 14 7472616e73616374696f6e2e76657273696f6e 0002 0002 00",
    ),
    (InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60000), 0, "ffff 0000ea60"),
    (
        InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60000, producer_id=9, producer_epoch=2),
        4,
        "02 74 0000ea60 0000000000000009 0002 00",
    ),
    (
        JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10000,
            rebalance_timeout_ms=60000,
            group_instance_id="i",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\1\2")],
        ),
        5,
        "0001 67 00002710 0000ea60 0000 0001 69 0008 636f6e73756d6572 00000001 0005 72616e6765 00000002 0102",
    ),
    (
        ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsRequestTopic(
                    name="orders", partitions=[ListOffsetsRequestPartition(partition_index=0, timestamp=-2)]
                )
            ],
        ),
        1,
        "ffffffff 00000001 0006 6f7264657273 00000001 00000000 fffffffffffffffe",
    ),
]

ASSIGNMENT = ConsumerGroupDescribeResponseAssignment(
    topic_partitions=[
        ConsumerGroupDescribeResponseTopicPartitions(topic_id=TOPIC_ID, topic_name="orders", partitions=[0])
    ]
)

FROM_JAVA_4_3: list[tuple[Any, int, str]] = [
    (
        ConsumerGroupHeartbeatRequest(
            group_id="readers",
            member_id="m-1",
            member_epoch=3,
            rack_id="r1",
            rebalance_timeout_ms=45000,
            subscribed_topic_names=["orders"],
            subscribed_topic_regex="ord.*",
            topic_partitions=[ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=TOPIC_ID, partitions=[0, 2])],
        ),
        1,
        "08 72656164657273 04 6d2d31 00000003 00 03 7231 0000afc8 02 07 6f7264657273 06 6f72642e2a 00"
        " 02 0102030405060708090a0b0c0d0e0f10 03 00000000 00000002 00 00",
    ),
    (
        ConsumerGroupHeartbeatResponse(
            member_id="m-1",
            member_epoch=4,
            heartbeat_interval_ms=5000,
            assignment=ConsumerGroupHeartbeatResponseAssignment(
                topic_partitions=[ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=TOPIC_ID, partitions=[1])]
            ),
        ),
        1,
        "00000000 0000 00 04 6d2d31 00000004 00001388 01 02 0102030405060708090a0b0c0d0e0f10 02 00000001 00 00 00",
    ),
    (
        ConsumerGroupHeartbeatResponse(error_code=110, error_message="fenced"),
        0,
        "00000000 006e 07 66656e636564 00 00000000 00000000 ff 00",
    ),
    (
        ConsumerGroupDescribeRequest(group_ids=["readers"], include_authorized_operations=True),
        1,
        "02 08 72656164657273 01 00",
    ),
    (
        ConsumerGroupDescribeResponse(
            groups=[
                ConsumerGroupDescribeResponseGroup(
                    group_id="readers",
                    group_state="Stable",
                    group_epoch=4,
                    assignment_epoch=4,
                    assignor_name="uniform",
                    members=[
                        ConsumerGroupDescribeResponseMember(
                            member_id="m-1",
                            member_epoch=4,
                            client_id="c",
                            client_host="/127.0.0.1",
                            subscribed_topic_names=["orders"],
                            assignment=ASSIGNMENT,
                            member_type=1,
                        )
                    ],
                )
            ]
        ),
        1,
        "00000000 02 0000 00 08 72656164657273 07 537461626c65 00000004 00000004 08 756e69666f726d"
        " 02 04 6d2d31 00 00 00000004 02 63 0b 2f3132372e302e302e31 02 07 6f7264657273 00"
        " 02 0102030405060708090a0b0c0d0e0f10 07 6f7264657273 02 00000000 00 00"
        " 01 00 01 00 80000000 00 00",
    ),
    (
        FetchResponse(
            session_id=11,
            responses=[
                FetchResponseTopic(
                    topic_id=TOPIC_ID,
                    partitions=[
                        FetchResponsePartition(
                            partition_index=2,
                            error_code=6,
                            high_watermark=-1,
                            current_leader=FetchResponseLeader(leader_id=7, leader_epoch=9),
                        )
                    ],
                )
            ],
            node_endpoints=[FetchResponseNode(node_id=7, host="b7", port=9092)],
        ),
        16,
        "00000000 0000 0000000b 02 0102030405060708090a0b0c0d0e0f10"
        " 02 00000002 0006 ffffffffffffffff ffffffffffffffff ffffffffffffffff 01 ffffffff 00"
        " 01 01 09 00000007 00000009 00 00"
        " 01 00 0e 02 00000007 03 6237 00002384 00 00",
    ),
    (
        FetchRequest(
            cluster_id="c1",
            replica_state=FetchRequestReplicaState(replica_id=3, replica_epoch=5),
            max_wait_ms=500,
            min_bytes=1,
            topics=[
                FetchRequestTopic(
                    topic_id=TOPIC_ID,
                    partitions=[FetchRequestPartition(partition=2, fetch_offset=42, partition_max_bytes=1048576)],
                )
            ],
        ),
        17,
        "000001f4 00000001 7fffffff 00 00000000 ffffffff 02 0102030405060708090a0b0c0d0e0f10"
        " 02 00000002 ffffffff 000000000000002a ffffffff ffffffffffffffff 00100000 00 00 01 01"
        " 02 00 03 03 6331 01 0d 00000003 0000000000000005 00",
    ),
    (
        DescribeTopicPartitionsResponse(
            next_cursor=DescribeTopicPartitionsResponseCursor(topic_name="z", partition_index=1)
        ),
        0,
        "00000000 01 01 02 7a 00000001 00 00",
    ),
]

# No release writes these yet; the bytes are put together by hand from the definitions of Kafka 4.4.
BY_HAND: list[tuple[Any, int, str]] = [
    (
        ApiVersionsRequest(client_software_name="a", client_software_version="1", cluster_id="c", node_id=5),
        5,
        "02 61 02 31 02 63 00000005 00",
    ),
    (
        TxnOffsetCommitRequest(
            transactional_id="t",
            group_id="g",
            producer_id=1,
            producer_epoch=2,
            generation_id_or_member_epoch=3,
            member_id="m",
            topics=[
                TxnOffsetCommitRequestTopic(
                    topic_id=TOPIC_ID,
                    partitions=[TxnOffsetCommitRequestPartition(partition_index=4, committed_offset=5)],
                )
            ],
        ),
        6,
        "02 74 02 67 0000000000000001 0002 00000003 02 6d 00"
        " 02 0102030405060708090a0b0c0d0e0f10 02 00000004 0000000000000005 ffffffff 01 00 00 00",
    ),
    (
        DeleteGroupsResponse(results=[DeleteGroupsResponseResult(group_id="g", error_code=69, error_message="no")]),
        3,
        "00000000 02 02 67 0045 03 6e6f 00 00",
    ),
    (
        InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60000, enable2_pc=True),
        6,
        "02 74 0000ea60 ffffffffffffffff ffff 01 00 00",
    ),
    (
        InitProducerIdResponse(
            producer_id=1, producer_epoch=2, ongoing_txn_producer_id=1, ongoing_txn_producer_epoch=1
        ),
        6,
        "00000000 0000 0000000000000001 0002 0000000000000001 0001 00",
    ),
    (
        WriteTxnMarkersRequest(
            markers=[
                WriteTxnMarkersRequestMarker(
                    producer_id=1,
                    producer_epoch=2,
                    transaction_result=True,
                    topics=[WriteTxnMarkersRequestTopic(name="a", partition_indexes=[3])],
                    coordinator_epoch=4,
                    transaction_version=2,
                )
            ]
        ),
        2,
        "02 0000000000000001 0002 01 02 02 61 02 00000003 00 00000004 02 00 00",
    ),
    (
        WriteTxnMarkersResponse(
            markers=[
                WriteTxnMarkersResponseMarker(
                    producer_id=1,
                    topics=[
                        WriteTxnMarkersResponseTopic(
                            name="a", partitions=[WriteTxnMarkersResponsePartition(partition_index=3, error_code=6)]
                        )
                    ],
                )
            ]
        ),
        1,
        "02 0000000000000001 02 02 61 02 00000003 0006 00 00 00 00",
    ),
]


GOLDENS = FROM_KAFKA_PYTHON + FROM_JAVA_4_3 + BY_HAND


@pytest.mark.parametrize(
    ("message", "version", "golden"),
    GOLDENS,
    ids=[f"{type(message).__name__}-v{version}" for message, version, _ in GOLDENS],
)
def test_our_bytes_are_those_that_others_write(message: Any, version: int, golden: str) -> None:
    expected = bytes.fromhex(golden)
    for module in (codec, reference):
        assert module.encode(message, version).hex(" ") == expected.hex(" ")
        assert module.decode(type(message), expected, version) == (message, len(expected))

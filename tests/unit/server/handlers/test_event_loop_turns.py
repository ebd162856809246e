"""Requests about thousands of resources: other tasks get the event loop between two of them."""

import asyncio

import pytest
from tests.unit.server.handlers.peer import peer

from tailrace.protocol.message import Message
from tailrace.protocol.messages.config import (
    AlterConfigsRequest,
    AlterConfigsRequestConfig,
    AlterConfigsRequestResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from tailrace.protocol.messages.consumer_group import ConsumerGroupDescribeRequest
from tailrace.protocol.messages.coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.group_admin import DeleteGroupsRequest, DescribeGroupsRequest
from tailrace.protocol.messages.group_offset import OffsetFetchRequest, OffsetFetchRequestGroup
from tailrace.protocol.messages.topic import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
    DeleteTopicsRequest,
    DeleteTopicsRequestTopic,
)
from tailrace.protocol.messages.transaction_admin import DescribeTransactionsRequest

COUNT = 50
NAMES = [f"t{number}" for number in range(COUNT)]
TOPIC = 2

REQUESTS = [
    AlterConfigsRequest(
        resources=[
            AlterConfigsRequestResource(
                resource_type=TOPIC, resource_name="t", configs=[AlterConfigsRequestConfig(name=name, value="")]
            )
            for name in NAMES
        ]
    ),
    IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsRequestResource(
                resource_type=TOPIC,
                resource_name="t",
                configs=[IncrementalAlterConfigsRequestConfig(name=name, value="")],
            )
            for name in NAMES
        ]
    ),
    CreateTopicsRequest(
        topics=[
            CreateTopicsRequestTopic(
                name=name, num_partitions=1, configs=[CreateTopicsRequestConfig(name=name, value="")]
            )
            for name in NAMES
        ]
    ),
    DeleteTopicsRequest(topics=[DeleteTopicsRequestTopic(name=name) for name in NAMES]),
    CreatePartitionsRequest(topics=[CreatePartitionsRequestTopic(name=name, count=2) for name in NAMES]),
    FindCoordinatorRequest(key_type=0, coordinator_keys=NAMES),
    DescribeGroupsRequest(groups=NAMES),
    ConsumerGroupDescribeRequest(group_ids=NAMES),
    DeleteGroupsRequest(groups_names=NAMES),
    OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=name, topics=None) for name in NAMES]),
    DescribeTransactionsRequest(transactional_ids=NAMES),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: type(request).__name__)
async def test_what_is_answered_at_once_does_not_hold_the_event_loop(request_: Message) -> None:
    """100,000 resources or long names, each of which is answered without a wait, held the event loop for 30 s."""
    async with peer() as client:
        await client.create("t")
        asking = asyncio.create_task(client.ask(request_))
        turns = 0
        while not asking.done():
            await asyncio.sleep(0)
            turns += 1
        assert turns >= COUNT

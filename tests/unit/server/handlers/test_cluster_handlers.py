"""ApiVersions, DescribeCluster, DescribeLogDirs, FindCoordinator and InitProducerId."""

import struct
from pathlib import Path

import pytest
from tests.unit.sample import make_batch
from tests.unit.server.handlers.peer import peer

from tailrace.protocol.errors import ErrorCode, RemoteProtocolError
from tailrace.protocol.frame import decode_response
from tailrace.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tailrace.protocol.messages.cluster import (
    DescribeClusterRequest,
    DescribeLogDirsRequest,
    DescribeLogDirsRequestTopic,
)
from tailrace.protocol.messages.coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.producer import InitProducerIdRequest
from tailrace.server.api import APIS
from tailrace.storage.error import StorageError

# --- ApiVersions


async def test_the_table_is_the_registry() -> None:
    async with peer() as client:
        request = ApiVersionsRequest(client_software_name="peer", client_software_version="1.0-rc.2")
        response = await client.ask(request, 4)
        table = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
        assert table == {key: (served.advertised_min, served.version_max) for key, served in APIS.items()}
        assert list(table) == sorted(table)
        assert client.line.client_software == "peer 1.0-rc.2"


async def test_what_clients_look_for_is_advertised() -> None:
    async with peer() as client:
        response = await client.ask(ApiVersionsRequest(), 0)
        table = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
        assert table[0][0] == 0  # librdkafka before 2.11.1 compresses only if Produce 0 is there
        # KIP-896: what Java clients from 4.0 on need
        for key, version in {0: 3, 1: 4, 2: 1, 19: 2, 20: 1, 23: 2, 32: 1, 35: 1}.items():
            low, high = table[key]
            assert low <= version <= high


async def test_an_advertised_version_that_is_not_served_closes_the_connection() -> None:
    async with peer() as client:
        frame = struct.pack(">hhih", 0, 2, 1, -1) + struct.pack(">hii", -1, 1000, 0)
        with pytest.raises(RemoteProtocolError, match="PRODUCE v2"):
            await client.serve(frame)


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
async def test_an_unknown_version_is_answered_in_version_zero(version: int) -> None:
    async with peer() as client:
        reply = await client.serve(struct.pack(">hhihb", 18, version, 7, -1, 0))
        assert reply is not None
        correlation_id, response = decode_response(ApiVersionsResponse, reply, 0)
        assert (correlation_id, response.error_code) == (7, ErrorCode.UNSUPPORTED_VERSION)
        assert {api.api_key: api.max_version for api in response.api_keys}[18] == 4


@pytest.mark.parametrize("text", ["", " ", "a b", "-a", "a-", ".", "ä", "a\n", "a" * 30_000 + "!"])
async def test_software_names_are_fit_for_a_metric(text: str) -> None:
    async with peer() as client:
        for name, version in ((text, "1"), ("peer", text)):
            request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
            response = await client.ask(request, 3)
            assert (response.error_code, response.api_keys) == (ErrorCode.INVALID_REQUEST, [])
        assert client.line.client_software == ""


# --- DescribeCluster


async def test_the_cluster() -> None:
    async with peer() as client:
        response = await client.ask(DescribeClusterRequest())
        assert (response.error_code, response.controller_id) == (0, 1)
        assert response.cluster_id == client.broker.cluster_id
        assert [(broker.broker_id, broker.host, broker.port) for broker in response.brokers] == [
            (1, "broker.example", 9092)
        ]
        assert response.cluster_authorized_operations == -(2**31)


async def test_operations_on_the_cluster_are_told_when_asked_for() -> None:
    async with peer() as client:
        response = await client.ask(DescribeClusterRequest(include_cluster_authorized_operations=True))
        # Kafka's bits: create 5, alter 7, describe 8, cluster action 9, describe configs 10, alter configs 11,
        # idempotent write 12.
        assert response.cluster_authorized_operations == 0b1_1111_1010_0000


@pytest.mark.parametrize(
    ("endpoint_type", "code"), [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (7, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)]
)
async def test_this_is_a_broker(endpoint_type: int, code: int) -> None:
    async with peer() as client:
        response = await client.ask(DescribeClusterRequest(endpoint_type=endpoint_type))
        assert (response.error_code, bool(response.error_message), response.brokers) == (code, True, [])


# --- DescribeLogDirs


async def test_folders_and_what_is_in_them() -> None:
    async with peer(log_dirs="/a,/b") as client:
        await client.create("t", 3)
        size = len(make_batch(b"v"))
        await client.produce(make_batch(b"v"), index=1)
        response = await client.ask(DescribeLogDirsRequest(topics=None))
        found = {
            result.log_dir: {
                (topic.name, p.partition_index): p.partition_size for topic in result.topics for p in topic.partitions
            }
            for result in response.results
        }
        assert found == {"/a": {("t", 0): 0, ("t", 2): 0}, "/b": {("t", 1): size}}


async def test_folders_are_told_by_their_whole_path() -> None:
    """A relative path was told as it stood in `log.dirs`, which means nothing on the client's machine."""
    async with peer(log_dirs="data/a") as client:
        (result,) = (await client.ask(DescribeLogDirsRequest(topics=None))).results
        assert result.log_dir == str(Path.cwd() / "data/a")


async def test_only_the_partitions_that_were_asked_for() -> None:
    async with peer() as client:
        await client.create("t", 3)
        await client.create("u")
        topics = [DescribeLogDirsRequestTopic(topic="t", partitions=[2, 9])]
        (result,) = (await client.ask(DescribeLogDirsRequest(topics=topics))).results
        assert [(topic.name, [p.partition_index for p in topic.partitions]) for topic in result.topics] == [("t", [2])]
        (empty,) = (await client.ask(DescribeLogDirsRequest(topics=[]))).results
        assert empty.topics == []


async def test_a_folder_that_failed_says_so() -> None:
    async with peer(log_dirs="/a,/b") as client:
        await client.create("t", 2)
        client.broker.log_dirs[0]._folder.fail(StorageError("/a", OSError(5, "broken")))
        response = await client.ask(DescribeLogDirsRequest(topics=None))
        assert [(result.log_dir, result.error_code, len(result.topics)) for result in response.results] == [
            ("/a", ErrorCode.KAFKA_STORAGE_ERROR, 0),
            ("/b", 0, 1),
        ]


# --- FindCoordinator


@pytest.mark.parametrize("version", [0, 1, 2, 3])
async def test_one_coordinator(version: int) -> None:
    async with peer() as client:
        response = await client.ask(FindCoordinatorRequest(key="g"), version)
        assert (response.error_code, response.node_id, response.host, response.port) == (0, 1, "broker.example", 9092)
        assert response.error_message == ("NONE" if version else "")  # Kafka's text for success


@pytest.mark.parametrize("version", [4, 5])
async def test_many_coordinators(version: int) -> None:
    async with peer() as client:
        response = await client.ask(FindCoordinatorRequest(coordinator_keys=["g", "", "g2"], key_type=1), version)
        assert [(found.key, found.error_code, found.node_id, found.port) for found in response.coordinators] == [
            ("g", 0, 1, 9092),
            ("", 0, 1, 9092),
            ("g2", 0, 1, 9092),
        ]


@pytest.mark.parametrize("key_type", [2, 9, -1])
async def test_other_kinds_of_coordinators_are_not_there(key_type: int) -> None:
    async with peer() as client:
        old = await client.ask(FindCoordinatorRequest(key="g", key_type=key_type), 1)
        assert (old.error_code, old.node_id, bool(old.error_message)) == (ErrorCode.INVALID_REQUEST, -1, True)
        new = await client.ask(FindCoordinatorRequest(coordinator_keys=["g"], key_type=key_type), 5)
        assert [(found.error_code, found.node_id) for found in new.coordinators] == [(ErrorCode.INVALID_REQUEST, -1)]


# --- InitProducerId


async def test_every_producer_gets_its_own_id() -> None:
    async with peer() as client:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
        replies = [await client.ask(request, 5) for _ in range(3)]
        assert [(reply.error_code, reply.producer_id, reply.producer_epoch) for reply in replies] == [
            (0, 0, 0),
            (0, 1, 0),
            (0, 2, 0),
        ]


@pytest.mark.parametrize(
    ("transactional_id", "producer_id", "epoch", "code"),
    [
        ("", -1, -1, ErrorCode.INVALID_REQUEST),
        ("tx", -1, -1, ErrorCode.NOT_COORDINATOR),  # nobody has asked who that is
        (None, 5, -1, ErrorCode.INVALID_REQUEST),
        (None, -1, 5, ErrorCode.INVALID_REQUEST),
        (None, 5, 5, 0),
    ],
)
async def test_what_a_producer_may_show(transactional_id: str | None, producer_id: int, epoch: int, code: int) -> None:
    async with peer() as client:
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=1000,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        reply = await client.ask(request, 5)
        assert (reply.error_code, reply.producer_id >= 0) == (code, code == 0)

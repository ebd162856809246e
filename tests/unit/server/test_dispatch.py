"""What a peer sees of each kind of error, and what the log says of it."""

import struct
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.faults.live import request_header

from tailrace.base import limits
from tailrace.base.clock import SystemClock
from tailrace.config.broker import BrokerConfig
from tailrace.coordination.cluster import ClusterMetadata
from tailrace.coordination.memory import MemoryStore, MemoryTree
from tailrace.protocol.api_key import ApiKey
from tailrace.protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from tailrace.protocol.frame import decode_response, encode_request
from tailrace.protocol.message import Message
from tailrace.protocol.messages.cluster import DescribeClusterRequest, DescribeClusterResponse
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tailrace.protocol.messages.topic import DeleteTopicsRequest, DeleteTopicsResponse
from tailrace.runtime.broker import Broker
from tailrace.server.api import Api
from tailrace.server.connection import Connection, ConnectionClosed
from tailrace.server.dispatch import Dispatcher, Intercept
from tailrace.server.handlers import APIS
from tailrace.storage.error import StorageError


class Peer:
    """A connection as far as the dispatcher knows it."""

    session = None
    principal = "User:ANONYMOUS"
    host = "127.0.0.1"

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note_once(self, text: str) -> None:
        self.notes.append(text)


class Scripted:
    """DescribeCluster, answered by the test; `failures` are the errors that `fail` was asked to tell."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, outcome: Message | Exception | None) -> None:
        self.failures: list[ApiError] = []
        self._outcome = outcome
        api = Api(ApiKey.DESCRIBE_CLUSTER, DescribeClusterRequest, 0, 2, 0, self._handle, self._fail, "")
        monkeypatch.setitem(APIS, ApiKey.DESCRIBE_CLUSTER, api)

    async def _handle(self, context: Any, request: Any) -> Message | None:
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome

    def _fail(self, context: Any, request: Any, error: ApiError) -> DescribeClusterResponse:
        self.failures.append(error)
        return DescribeClusterResponse(error_code=error.code, error_message=error.message)


def frame(request: Message, version: int, client_id: str = "t") -> bytearray:
    return bytearray(b"".join(encode_request(5, client_id, request, version))[4:])


async def serve(
    data: bytes | bytearray, *, peer: Peer | None = None, intercept: Intercept | None = None
) -> bytes | None:
    broker = SimpleNamespace(
        metadata=ClusterMetadata(MemoryStore(MemoryTree())), config=BrokerConfig(), clock=SystemClock()
    )
    dispatcher = Dispatcher(cast("Broker", broker), intercept)
    reply = await dispatcher.serve(cast("Connection", peer or Peer()), bytearray(data))
    return None if reply is None else b"".join(reply)[4:]


async def ask(client_id: str = "t") -> DescribeClusterResponse:
    """The reply to the scripted DescribeCluster."""
    reply = await serve(frame(DescribeClusterRequest(), 1, client_id))
    assert reply is not None
    correlation_id, response = decode_response(DescribeClusterResponse, reply, 1)
    assert correlation_id == 5
    return response


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


async def test_a_reply(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    Scripted(monkeypatch, DescribeClusterResponse(cluster_id="here"))
    assert (await ask()).cluster_id == "here"
    assert lines(caplog) == []


async def test_no_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    Scripted(monkeypatch, None)
    assert await serve(frame(DescribeClusterRequest(), 1)) is None


async def test_an_outcome_is_told_with_its_code_and_not_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    Scripted(monkeypatch, ApiError(ErrorCode.INVALID_REQUEST, "no"))
    response = await ask()
    assert (response.error_code, response.error_message) == (ErrorCode.INVALID_REQUEST, "no")
    assert lines(caplog) == []


async def test_a_failed_disk_is_told_without_its_path_and_logged_with_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    Scripted(monkeypatch, StorageError("/data/secret", OSError(5, "Input/output error")))
    response = await ask()
    assert response.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "secret" not in (response.error_message or "")
    assert lines(caplog) == ["DESCRIBE_CLUSTER failed: /data/secret: Input/output error"]


async def test_a_bug_is_told_as_unknown_and_logged_with_its_trace(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    Scripted(monkeypatch, ZeroDivisionError("secret"))
    response = await ask()
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "secret" not in (response.error_message or "")
    assert lines(caplog) == ["DESCRIBE_CLUSTER v1 of client t failed"]
    assert caplog.records[0].exc_info is not None


async def test_a_reply_that_cannot_be_encoded_is_a_bug_like_any_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Encoding happens after the handler; failing there must not cost the peer its connection."""
    scripted = Scripted(monkeypatch, DescribeClusterResponse(cluster_id="x" * 40_000))
    response = await ask()
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert [error.code for error in scripted.failures] == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert lines(caplog) == ["DESCRIBE_CLUSTER v1 of client t failed"]


async def test_a_client_cannot_write_lines_into_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    Scripted(monkeypatch, ZeroDivisionError())
    await ask(client_id="me\n2026-01-01 INFO all is well\x1b[2J" + "x" * 5000)
    (line,) = lines(caplog)
    assert line.isprintable()
    assert "me\\n2026-01-01 INFO all is well\\x1b[2J" in line
    assert len(line) < limits.LOG_TEXT_LENGTH_MAX + 100


@pytest.mark.parametrize("error", [RemoteProtocolError("broken"), ConnectionClosed("enough")])
async def test_what_ends_the_connection_is_left_to_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    Scripted(monkeypatch, error)
    with pytest.raises(type(error)):
        await serve(frame(DescribeClusterRequest(), 1))
    assert lines(caplog) == []


async def test_an_intercept_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    Scripted(monkeypatch, DescribeClusterResponse(cluster_id="here"))

    async def refuse(context: Any, request: Message) -> None:
        assert isinstance(request, DescribeClusterRequest)
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "later")

    reply = await serve(frame(DescribeClusterRequest(), 1), intercept=refuse)
    assert reply is not None
    assert decode_response(DescribeClusterResponse, reply, 1)[1].error_code == ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "shorter than its header"),
        (b"\x00\x12", "shorter than its header"),
        (request_header(999, 0), "API key 999 is not served"),
        (request_header(-1, 0), "API key -1 is not served"),
        (request_header(4, 0), "API key 4 is not served"),
        (request_header(60, 3) + b"\x00", "DESCRIBE_CLUSTER v3 is not served"),
        (request_header(3, -1), "METADATA v-1 is not served"),
        (request_header(0, 2), "PRODUCE v2 is not served"),
        (request_header(3, 1), "ends early"),
        (request_header(3, 1) + struct.pack(">i", 2_000_000_000), "more elements than the remaining data"),
        (request_header(19, 4) + struct.pack(">i", -2), "negative length"),
        (struct.pack(">hhih", 18, 0, 1, 30_000) + b"short", "client id is longer"),
        (request_header(3, 1) + struct.pack(">ih", 1, 3) + b"\xff\xfe\x80", "not UTF-8"),
    ],
)
async def test_what_is_no_request(data: bytes, problem: str) -> None:
    with pytest.raises(RemoteProtocolError, match=problem):
        await serve(data)


async def test_more_elements_than_anybody_needs() -> None:
    topics = [MetadataRequestTopic(name="t")] * (limits.REQUEST_ELEMENTS_MAX + 1)
    with pytest.raises(RemoteProtocolError, match="more elements than one message may have"):
        await serve(frame(MetadataRequest(topics=topics), 1))


async def test_bytes_after_the_body_are_noted_and_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    Scripted(monkeypatch, DescribeClusterResponse(cluster_id="here"))
    peer = Peer()
    for extra in (b"abc", b"defg"):
        assert await serve(frame(DescribeClusterRequest(), 1) + extra, peer=peer) is not None
    assert set(peer.notes) == {"DESCRIBE_CLUSTER v1 with bytes after its end"}


@pytest.mark.parametrize(
    ("request_", "version", "extra", "is_noted"),
    [
        (MetadataRequest(topics=None), 13, b"\x01\x00\x00", False),
        (MetadataRequest(topics=None), 13, b"\x01\x00", True),
        (MetadataRequest(topics=None), 8, b"\x01\x00\x00", True),
        (MetadataRequest(topics=[]), 13, b"\x01\x00\x00", True),
    ],
)
async def test_what_librdkafka_leaves_behind_is_not_noted(
    request_: MetadataRequest, version: int, extra: bytes, is_noted: bool
) -> None:
    """Each librdkafka client that listed all topics got a warning in the log."""

    async def stop(_context: object, _request: object) -> None:
        raise ConnectionClosed("seen enough")

    peer = Peer()
    with pytest.raises(ConnectionClosed):
        await serve(frame(request_, version) + extra, peer=peer, intercept=stop)
    assert bool(peer.notes) is is_noted


async def test_an_unknown_version_of_api_versions_is_answered_in_version_0() -> None:
    reply = await serve(request_header(18, 99) + b"\x00")
    assert reply is not None
    correlation_id, error_code, count = struct.unpack_from(">ihi", reply)
    assert (correlation_id, error_code) == (7, ErrorCode.UNSUPPORTED_VERSION)
    assert (18, 0, 4) in [struct.unpack_from(">hhh", reply, 10 + 6 * index) for index in range(count)]
    assert len(reply) == 10 + 6 * count


async def test_an_outcome_for_every_thing_that_was_asked(caplog: pytest.LogCaptureFixture) -> None:
    async def refuse(context: Any, request: Message) -> None:
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    reply = await serve(frame(DeleteTopicsRequest(topic_names=["a", "b"]), 3), intercept=refuse)
    assert reply is not None
    _, response = decode_response(DeleteTopicsResponse, reply, 3)
    assert {entry.name: entry.error_code for entry in response.responses} == {
        "a": ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        "b": ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }

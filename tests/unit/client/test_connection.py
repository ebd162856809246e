"""One connection, against peers that behave well, badly and not at all."""

import asyncio
import os
import socket
import struct
from collections.abc import Awaitable, Callable

import pytest
from tests.unit.client.scripted_broker import Answer, answer_versions, frame, scripted_broker
from tests.unit.sim.scene import play, running_loop

from tailrace.base.event_loop import new_event_loop
from tailrace.client.address import Address
from tailrace.client.connection import Connection
from tailrace.client.error import BrokerUnavailable, RequestTimeout
from tailrace.protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from tailrace.protocol.frame import RequestHeader, decode_request_header
from tailrace.protocol.messages.api_versions import ApiVersionsResponse, ApiVersionsResponseApi
from tailrace.protocol.messages.cluster import DescribeClusterRequest
from tailrace.protocol.messages.fetch import FetchRequest
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tailrace.sim.process import Life, Process

linux = pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux has all options")


async def ask(connection: Connection, timeout_ms: float | None = None) -> MetadataResponse:
    return await connection.request(MetadataRequest(topics=[]), MetadataResponse, timeout_ms=timeout_ms)


async def answer_metadata(header: RequestHeader, writer: asyncio.StreamWriter) -> None:
    """The correlation id comes back as the controller id, so that a test can tell replies apart."""
    writer.write(
        frame(header.correlation_id, MetadataResponse(controller_id=header.correlation_id), header.api_version)
    )


def with_peer(action: Callable[[Connection], Awaitable[None]], *answers: Answer, timeout_ms: float = 5_000) -> None:
    async def run() -> None:
        async with scripted_broker(*answers) as address:
            connection = await Connection.open(address, request_timeout_ms=timeout_ms)
            try:
                await action(connection)
            finally:
                await connection.close()

    asyncio.run(run())


def test_the_highest_version_in_common_is_spoken() -> None:
    async def check(connection: Connection) -> None:
        assert connection.version(MetadataRequest) == 12  # theirs; ours goes to 13
        assert connection.version(MetadataRequest, version_max=9) == 9

    with_peer(check, answer_versions)


@pytest.mark.parametrize("request_type", [DescribeClusterRequest, FetchRequest], ids=["apart", "absent"])
def test_an_api_without_a_common_version_is_an_error(request_type: type) -> None:
    async def check(connection: Connection) -> None:
        with pytest.raises(ApiError) as caught:
            connection.version(request_type)
        assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION

    with_peer(check, answer_versions)


def test_an_old_broker_is_asked_again_in_a_version_it_knows() -> None:
    seen: list[int] = []

    async def refuse(header: RequestHeader, writer: asyncio.StreamWriter) -> None:
        seen.append(header.api_version)
        known = [ApiVersionsResponseApi(api_key=18, min_version=0, max_version=2)]
        refusal = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=known)
        writer.write(frame(header.correlation_id, refusal, 0))

    async def accept(header: RequestHeader, writer: asyncio.StreamWriter) -> None:
        seen.append(header.api_version)
        await answer_versions(header, writer)

    async def check(connection: Connection) -> None:
        assert connection.version(MetadataRequest) == 12

    with_peer(check, refuse, accept)
    assert seen == [4, 2]


def test_replies_go_to_whom_they_belong_however_they_are_cut() -> None:
    held: list[bytes] = []

    async def hold(header: RequestHeader, _writer: asyncio.StreamWriter) -> None:
        response = MetadataResponse(controller_id=header.correlation_id)
        held.append(frame(header.correlation_id, response, header.api_version))

    async def release(header: RequestHeader, writer: asyncio.StreamWriter) -> None:
        await hold(header, writer)
        for byte in b"".join(held):
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)

    async def check(connection: Connection) -> None:
        replies = await asyncio.gather(*(ask(connection) for _ in range(3)))
        assert [reply.controller_id for reply in replies] == [2, 3, 4]
        assert connection.in_flight_count == 0

    with_peer(check, answer_versions, hold, hold, release)


def test_large_replies_and_small_ones_are_told_apart() -> None:
    async def reply(header: RequestHeader, writer: asyncio.StreamWriter) -> None:
        name = "x" * (300_000 if header.correlation_id % 2 else 3)
        writer.write(frame(header.correlation_id, MetadataResponse(cluster_id=name[:32000]), header.api_version))

    async def check(connection: Connection) -> None:
        replies = await asyncio.gather(*(ask(connection) for _ in range(20)))
        assert [len(reply.cluster_id or "") for reply in replies] == [3, 32000] * 10

    with_peer(check, answer_versions, reply)


def test_a_request_that_is_not_answered_takes_the_connection_with_it() -> None:
    async def silence(_header: RequestHeader, _writer: asyncio.StreamWriter) -> None:
        pass

    async def check(connection: Connection) -> None:
        behind = asyncio.create_task(ask(connection))
        await asyncio.sleep(0)
        with pytest.raises(RequestTimeout, match="METADATA"):
            await ask(connection, timeout_ms=50)
        with pytest.raises((BrokerUnavailable, RequestTimeout)):
            await behind
        assert not connection.is_open
        with pytest.raises(BrokerUnavailable):
            await ask(connection)

    with_peer(check, answer_versions, silence)


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, new_event_loop])
@linux
def test_a_long_wait_is_watched_by_the_operating_system(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """A broker's machine lost power after it had read a JoinGroup request, and was back soon. The member had nothing
    more to send, so it never learned of it, and waited for max.poll.interval.ms and five seconds.
    """
    options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, socket.TCP_USER_TIMEOUT)

    async def check() -> None:
        async with scripted_broker(answer_versions, answer_metadata) as address:
            connection = await Connection.open(address, request_timeout_ms=30_000)
            transport = connection._stream._transport
            assert transport is not None
            with socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno())) as own:
                await ask(connection)
                assert own.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 0
                await ask(connection, timeout_ms=305_000)
                assert own.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
                assert [own.getsockopt(socket.IPPROTO_TCP, each) for each in options] == [10, 10, 3, 30_000]
            await connection.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(check())


@linux
@pytest.mark.parametrize("is_back", [True, False])
def test_a_long_wait_ends_if_the_machine_of_the_broker_is_gone(is_back: bool) -> None:
    async def scene() -> None:
        broker, client = Process("broker", "south"), Process("client", "north")
        reads: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def serve() -> None:
            async with scripted_broker(answer_versions, read, host="south", port=9):
                await asyncio.Event().wait()

        async def read(_header: RequestHeader, _writer: asyncio.StreamWriter) -> None:
            reads.set_result(None)

        async def wait() -> None:
            connection = await Connection.open(Address("south", 9), request_timeout_ms=3_000)
            await ask(connection, timeout_ms=305_000)

        broker.spawn(serve())
        waiting = client.spawn(wait())
        await reads
        broker.life = Life.DEAD
        running_loop().network.power_off("south")
        if is_back:
            running_loop().network.power_on("south")
        with pytest.raises(BrokerUnavailable, match="reset" if is_back else "timed out"):
            async with asyncio.timeout(5):
                await waiting

    play(scene())


def test_a_connection_that_is_given_up_is_reset() -> None:
    """The client's kernel went on sending what it had taken, so a request could arrive long after its repetition."""

    async def run() -> None:
        ended: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                for answer in (answer_versions, None):
                    (length,) = struct.unpack(">i", await reader.readexactly(4))
                    header, _ = decode_request_header(await reader.readexactly(length))
                    if answer is not None:
                        await answer(header, writer)
                await reader.read()
                ended.set_result(None)
            except OSError as error:
                ended.set_result(error)
            finally:
                writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            connection = await Connection.open(Address(*server.sockets[0].getsockname()))
            with pytest.raises(RequestTimeout):
                await ask(connection, timeout_ms=50)
            assert not connection.is_open
            assert isinstance(await ended, ConnectionResetError)

    asyncio.run(run())


def test_a_peer_that_hangs_up_is_noticed() -> None:
    async def hang_up(_header: RequestHeader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def check(connection: Connection) -> None:
        with pytest.raises(BrokerUnavailable, match="closed"):
            await ask(connection)
        assert not connection.is_open

    with_peer(check, answer_versions, hang_up)


@pytest.mark.parametrize(
    ("garbage", "message"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "Kafka broker"),
        (b"\xff\xff\xff\xff", "Kafka broker"),
        (b"\0\0\0\0", "Kafka broker"),
        (b"\0\0\0\2ab", "a reply without a request"),
        (b"\0\0\0\4\0\0\0\x63", "instead of"),
        (b"\0\0\0\5\0\0\0\2\0", "ends early"),
    ],
    ids=["http", "negative", "empty", "short", "foreign", "truncated"],
)
def test_a_peer_that_talks_nonsense_is_let_go(garbage: bytes, message: str) -> None:
    async def talk(_header: RequestHeader, writer: asyncio.StreamWriter) -> None:
        writer.write(garbage)

    async def check(connection: Connection) -> None:
        with pytest.raises((RemoteProtocolError, BrokerUnavailable), match=message):
            await ask(connection)
        assert not connection.is_open

    with_peer(check, answer_versions, talk)


def test_an_asker_that_gives_up_does_not_disturb_the_others() -> None:
    async def check(connection: Connection) -> None:
        gone = asyncio.create_task(ask(connection))
        await asyncio.sleep(0)
        gone.cancel()
        assert (await ask(connection)).controller_id == 3

    with_peer(check, answer_versions, answer_metadata)


def test_a_broker_that_asks_for_silence_gets_it() -> None:
    times: list[float] = []

    async def throttle(header: RequestHeader, writer: asyncio.StreamWriter) -> None:
        times.append(asyncio.get_running_loop().time())
        writer.write(frame(header.correlation_id, MetadataResponse(throttle_time_ms=200), header.api_version))

    async def check(connection: Connection) -> None:
        await ask(connection)
        await ask(connection)
        assert times[1] - times[0] >= 0.2

    with_peer(check, answer_versions, throttle)


def test_nobody_there_is_said_in_plain_words() -> None:
    async def run() -> None:
        async with scripted_broker(answer_versions) as address:
            pass
        with pytest.raises(BrokerUnavailable, match=f"cannot connect to {address}: Connection refused"):
            await Connection.open(address)
        with pytest.raises(BrokerUnavailable, match=r"cannot connect to nowhere\.invalid:1: "):
            await Connection.open(Address("nowhere.invalid", 1))

    asyncio.run(run())


def test_a_peer_that_never_answers_is_given_up() -> None:
    async def silence(_header: RequestHeader, _writer: asyncio.StreamWriter) -> None:
        pass

    async def run() -> None:
        async with scripted_broker(silence) as address:
            with pytest.raises(RequestTimeout, match="did not answer in 50 ms"):
                await Connection.open(address, request_timeout_ms=50)

    asyncio.run(run())

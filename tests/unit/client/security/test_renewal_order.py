"""No request comes between the two of a login that is renewed."""

import asyncio

import pytest
from tests.unit.client.scripted_broker import frame, scripted_broker

from tailrace.client.connection import Connection
from tailrace.client.security.login import PlainLogin
from tailrace.client.security.security import Security
from tailrace.protocol.api_key import ApiKey
from tailrace.protocol.frame import RequestHeader
from tailrace.protocol.messages.api_versions import ApiVersionsResponse, ApiVersionsResponseApi
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tailrace.protocol.messages.sasl import SaslAuthenticateResponse, SaslHandshakeResponse

KEYS = (ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
VERSIONS = ApiVersionsResponse(
    api_keys=[ApiVersionsResponseApi(api_key=key, min_version=0, max_version=1) for key in KEYS]
)
REPLIES = {
    ApiKey.API_VERSIONS: VERSIONS,
    ApiKey.METADATA: MetadataResponse(),
    ApiKey.SASL_HANDSHAKE: SaslHandshakeResponse(mechanisms=["PLAIN"]),
    ApiKey.SASL_AUTHENTICATE: SaslAuthenticateResponse(session_lifetime_ms=3_600_000),
}


async def test_a_request_that_waited_to_be_written_does_not_split_a_login(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request waited for room in the write buffer, while the next one began to renew the login. It was then sent
    after SaslHandshake, where a broker expects SaslAuthenticate and answers ILLEGAL_SASL_STATE.
    """
    seen: list[ApiKey] = []
    is_blocked, may_write = asyncio.Event(), asyncio.Event()

    async def answer(header: RequestHeader, writer: asyncio.StreamWriter) -> None:
        key = ApiKey(header.api_key)
        seen.append(key)
        if seen.count(ApiKey.SASL_HANDSHAKE) == 2 and key is ApiKey.SASL_HANDSHAKE:
            may_write.set()  # the renewal is under way
            for _ in range(10):
                await asyncio.sleep(0)
        writer.write(frame(header.correlation_id, REPLIES[key], header.api_version))

    async with scripted_broker(answer) as address, asyncio.timeout(60):
        connection = await Connection.open(address, security=Security(login=PlainLogin("alice", "secret")))
        session, wait_writable = connection._session, connection._stream.wait_writable
        assert session is not None

        async def wait_for_room() -> None:
            if not is_blocked.is_set():
                is_blocked.set()
                await may_write.wait()
            await wait_writable()

        monkeypatch.setattr(connection._stream, "wait_writable", wait_for_room)
        seen.clear()
        seen.append(ApiKey.SASL_HANDSHAKE)
        first = asyncio.create_task(connection.request(MetadataRequest(), MetadataResponse))
        await is_blocked.wait()
        session._renew_at_s = 0.0
        second = asyncio.create_task(connection.request(MetadataRequest(), MetadataResponse))
        await asyncio.gather(first, second)
        await connection.close()
    login = [ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE]
    assert seen[1:] == [*login, ApiKey.METADATA, ApiKey.METADATA]

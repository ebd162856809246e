"""One connection to one broker.

Requests are written at once and in order, and the broker answers in that order, so several may be in
flight. The client learns the broker's API versions when it connects, and uses the highest version of
each API that both support (KIP-35, KIP-511). TLS and a login by SASL come before everything else.
"""

import asyncio
import os
import re
import socket
import ssl
from collections import deque
from struct import Struct
from typing import Generic, Self, TypeVar

from tailrace import __version__
from tailrace.client.address import Address
from tailrace.client.error import AuthenticationError, BrokerUnavailable, RequestTimeout
from tailrace.client.security.security import PLAINTEXT, Security
from tailrace.client.security.session import Session
from tailrace.client.security.tls_error import closed_in_handshake, explain_tls
from tailrace.client.stream import Stream
from tailrace.protocol.api_key import ApiKey
from tailrace.protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from tailrace.protocol.frame import decode_response, encode_request
from tailrace.protocol.message import Message
from tailrace.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tailrace.protocol.primitive import Buffer

R = TypeVar("R", bound=Message)

_CORRELATION_ID = Struct(">i")
_ERROR_CODE = Struct(">h")
_CORRELATION_ID_MASK = 0x7FFF_FFFF
_FIRST_API_VERSIONS = 4  # known to Kafka 3.9 and later; version 5 adds fields that this client does not use
_SOFTWARE_NAME = "tailrace"


class Connection:
    """Requests to one broker and their replies; create it with `open`."""

    def __init__(
        self, address: Address, client_id: str, request_timeout_ms: float, security: Security = PLAINTEXT
    ) -> None:
        self.address = address
        self._client_id = client_id
        self._request_timeout_ms = request_timeout_ms
        self.finalized_features: dict[str, int] = {}
        self._versions: dict[int, range] = {}
        self._correlation_id = 0
        self._waiting: deque[tuple[int, asyncio.Future[Buffer]]] = deque()
        self._lost: Exception | None = None
        self._stream = Stream(self._on_frame, self._on_lost)
        self._silent_until_s = 0.0
        self._is_welcome = False
        self._session = None if security.login is None else Session(security.login, address, self._ask)

    @classmethod
    async def open(
        cls,
        address: Address,
        *,
        client_id: str = "tailrace",
        request_timeout_ms: float = 30_000,
        security: Security = PLAINTEXT,
    ) -> Self:
        """Connect, read the API versions and log in.

        Raises `BrokerUnavailable`, `RequestTimeout`, `AuthenticationError` or `RemoteProtocolError`.
        """
        connection = cls(address, client_id, request_timeout_ms, security)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(request_timeout_ms / 1000):
                transport = security.transport(address.host)
                await loop.create_connection(lambda: connection._stream, address.host, address.port, **transport)
                await connection._read_versions()
                if connection._session is not None:
                    await connection._session.begin()
        except TimeoutError:
            connection._abort()
            raise RequestTimeout(f"{address} did not answer in {request_timeout_ms:g} ms") from None
        except ssl.SSLError as error:
            connection._abort()
            raise explain_tls(error, address) from None
        except OSError as error:
            if security.tls is not None and isinstance(error, ConnectionError) and error.errno is None:
                raise closed_in_handshake(address) from None
            raise BrokerUnavailable(f"cannot connect to {address}: {_reason(error)}") from None
        except BaseException:
            connection._abort()
            raise
        return connection

    @property
    def is_open(self) -> bool:
        return self._lost is None

    @property
    def in_flight_count(self) -> int:
        """The number of requests that wait for a reply."""
        return len(self._waiting)

    @property
    def api_keys(self) -> list[int]:
        """The keys of the APIs that the broker advertises."""
        return sorted(self._versions)

    def version(self, request_type: type[Message], version_max: int | None = None) -> int:
        """Return the version to use for an API; raises `ApiError` UNSUPPORTED_VERSION if none is common."""
        ours = request_type.SCHEMA.versions
        theirs = self._versions.get(_api_key(request_type), range(0))
        version = min(ours[-1], theirs.stop - 1, ours[-1] if version_max is None else version_max)
        if version < max(ours[0], theirs.start) or not theirs:
            name = _api_key(request_type).name
            message = f"{self.address} and this client have no version of {name} in common"
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, message)
        return version

    async def request(
        self,
        request: Message,
        reply_type: type[R],
        *,
        version_max: int | None = None,
        timeout_ms: float | None = None,
    ) -> R:
        """Send a request and return its reply.

        If the reply does not come in time the connection is closed: the broker answers in order, so
        later requests would not be answered either. While a request may take longer than usual, such as a join
        that waits for other members, the connection ends if the broker's machine is silent for the usual time.
        """
        timeout_ms = self._request_timeout_ms if timeout_ms is None else timeout_ms
        if timeout_ms > self._request_timeout_ms:
            self._stream.watch_peer(self._request_timeout_ms)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await (await self.start(request, reply_type, version_max=version_max)).reply()
        except TimeoutError:
            raise self.give_up(type(request), timeout_ms) from None

    async def start(
        self, request: Message, reply_type: type[R], *, version_max: int | None = None
    ) -> "StartedRequest[R]":
        """Send a request and return as soon as it is written, so that the next can follow in order.

        The caller enforces the timeout, and calls `give_up` when it expires.
        """
        await self.ready()
        return self.start_at_once(request, reply_type, version_max=version_max)

    def start_at_once(
        self, request: Message, reply_type: type[R], *, version_max: int | None = None
    ) -> "StartedRequest[R]":
        """Send a request, directly after `ready`."""
        version = self.version(type(request), version_max)
        return StartedRequest(self, self._put(request, version), reply_type, version)

    def give_up(self, request_type: type[Message], timeout_ms: float) -> RequestTimeout:
        """Close because a request was not answered in time; returns the error to raise."""
        error = RequestTimeout(f"{self.address} did not answer {_api_key(request_type).name} in {timeout_ms:g} ms")
        self._abort(error)
        return error

    def read_reply(self, reply_type: type[R], frame: Buffer, version: int) -> R:
        """Decode the reply in a frame, and obey its throttle time."""
        reply = self._decode(reply_type, frame, version)
        self._obey_throttle(getattr(reply, "throttle_time_ms", 0))
        return reply

    async def send(self, request: Message, *, version_max: int | None = None) -> None:
        """Send a request that has no reply: a produce request with acks=0."""
        version = self.version(type(request), version_max)
        await self.ready()
        self._correlation_id = (self._correlation_id + 1) & _CORRELATION_ID_MASK
        self._stream.write(encode_request(self._correlation_id, self._client_id, request, version))

    async def close(self) -> None:
        """Close after the written bytes are sent; requests that wait for a reply fail."""
        if self._lost is None:
            self._on_lost(None)
            await self._stream.close()

    async def ready(self) -> None:
        """Wait until a request may be written: the broker has throttled nothing, and no login is under way."""
        while True:
            delay_s = self._silent_until_s - asyncio.get_running_loop().time()
            if delay_s > 0:
                await asyncio.sleep(delay_s)
            if self._session is not None:
                try:
                    await self._session.renew_if_due()
                except AuthenticationError as error:
                    self._abort(error)
            await self._stream.wait_writable()
            self._check_open()
            # Another request may have begun a renewal meanwhile; a broker answers anything in between with an error.
            if self._session is None or not self._session.is_renewing:
                return

    # --- inside

    def _check_open(self) -> None:
        if isinstance(self._lost, AuthenticationError):
            raise AuthenticationError(str(self._lost))
        if self._lost is not None:
            raise BrokerUnavailable(str(self._lost))

    async def _ask(self, request: Message, reply_type: type[R]) -> R:
        """Send a request of the login, which does not wait for the login."""
        version = self.version(type(request))
        await self._stream.wait_writable()
        self._check_open()
        return self._decode(reply_type, await self._put(request, version), version)

    async def _write(self, request: Message, version: int) -> asyncio.Future[Buffer]:
        await self.ready()
        return self._put(request, version)

    def _put(self, request: Message, version: int) -> asyncio.Future[Buffer]:
        self._correlation_id = (self._correlation_id + 1) & _CORRELATION_ID_MASK
        pieces = encode_request(self._correlation_id, self._client_id, request, version)
        reply: asyncio.Future[Buffer] = asyncio.get_running_loop().create_future()
        self._waiting.append((self._correlation_id, reply))
        self._stream.write(pieces)
        return reply

    def _on_frame(self, frame: Buffer) -> None:
        if not self._waiting or len(frame) < _CORRELATION_ID.size:
            self._abort(RemoteProtocolError(f"{self.address} sent a reply without a request"))
            return
        expected, reply = self._waiting.popleft()
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
        if correlation_id != expected:
            error = RemoteProtocolError(f"{self.address} answered request {correlation_id} instead of {expected}")
            if not reply.done():
                reply.set_exception(error)
            self._abort(error)
        else:
            self._is_welcome = bool(self._versions)
            if not reply.done():  # the caller may have been cancelled
                reply.set_result(frame)

    def _on_lost(self, cause: Exception | None) -> None:
        if self._lost is not None:
            return
        self._lost = BrokerUnavailable(f"the connection to {self.address} was closed{self._hint()}")
        if isinstance(cause, ssl.SSLError):
            self._lost = explain_tls(cause, self.address)
        elif isinstance(cause, OSError):
            self._lost = BrokerUnavailable(f"the connection to {self.address} broke: {_reason(cause)}")
        elif cause is not None:
            self._lost = cause
        for _, reply in self._waiting:
            if not reply.done():
                reply.set_exception(self._lost)
                reply.exception()  # marks it as retrieved: the caller may have been cancelled
        self._waiting.clear()
        if self._session is not None:
            self._session.cancel()

    def _hint(self) -> str:
        """Return what may be wrong if the broker closes the connection at the first request after the versions."""
        if self._is_welcome or self._session is not None or not (self._waiting and self._versions):
            return ""
        return " at the first request; if the broker expects a login, set security.protocol to SASL_SSL or another"

    def _abort(self, error: Exception | None = None) -> None:
        self._on_lost(error)
        self._stream.abort()

    def _decode(self, reply_type: type[R], frame: Buffer, version: int) -> R:
        try:
            return decode_response(reply_type, frame, version)[1]
        except RemoteProtocolError as error:
            self._abort(error)
            raise

    def _obey_throttle(self, throttle_time_ms: int) -> None:
        """Send nothing for as long as the broker asks; it would delay its replies otherwise (KIP-219)."""
        if throttle_time_ms > 0:
            now_s = asyncio.get_running_loop().time()
            self._silent_until_s = max(self._silent_until_s, now_s + throttle_time_ms / 1000)

    async def _read_versions(self) -> None:
        reply = await self._request_versions(_FIRST_API_VERSIONS)
        if reply.error_code == ErrorCode.UNSUPPORTED_VERSION:
            known = {api.api_key: api.max_version for api in reply.api_keys}
            reply = await self._request_versions(min(known.get(ApiKey.API_VERSIONS, 0), _FIRST_API_VERSIONS))
        if reply.error_code:
            raise ApiError(ErrorCode(reply.error_code), f"{self.address} did not list its API versions")
        self._versions = {api.api_key: range(api.min_version, api.max_version + 1) for api in reply.api_keys}
        if reply.finalized_features_epoch >= 0:
            self.finalized_features = {found.name: found.max_version_level for found in reply.finalized_features}

    async def _request_versions(self, version: int) -> ApiVersionsResponse:
        request = ApiVersionsRequest(client_software_name=_SOFTWARE_NAME, client_software_version=__version__)
        frame = await (await self._write(request, version))
        # A broker that does not know the version answers in version 0.
        body = _CORRELATION_ID.size
        if frame[body : body + _ERROR_CODE.size] == _ERROR_CODE.pack(ErrorCode.UNSUPPORTED_VERSION):
            version = 0
        return self._decode(ApiVersionsResponse, frame, version)


class StartedRequest(Generic[R]):
    """A request that was written and waits for its reply."""

    def __init__(
        self, connection: Connection, frame: asyncio.Future[Buffer], reply_type: type[R], version: int
    ) -> None:
        self._connection = connection
        self._frame = frame
        self._reply_type = reply_type
        self._version = version

    async def reply(self) -> R:
        """Wait for the reply; raises the error that closed the connection."""
        return self._connection.read_reply(self._reply_type, await self._frame, self._version)


def _api_key(request_type: type[Message]) -> ApiKey:
    key = request_type.SCHEMA.key
    if key is None:
        raise TypeError(f"{request_type.__name__} is not a request")
    return key


def _reason(error: OSError) -> str:
    """Return the system's text for an error. If a name has several addresses, asyncio joins all errors in one text."""
    if isinstance(error, socket.gaierror):
        return error.strerror or str(error)
    number = error.errno
    if number is None and (found := re.search(r"\[Errno (\d+)\]", str(error))):
        number = int(found[1])
    return str(error) if number is None else os.strerror(number)

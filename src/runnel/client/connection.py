"""One connection to one broker.

Requests are written at once and in order, and the broker answers in that order, so several
may be under way. Which version an API is spoken in is settled when the connection opens:
the highest that both sides know (KIP-35, KIP-511).
"""

import asyncio
import os
import re
import socket
from collections import deque
from struct import Struct
from typing import Generic, Self, TypeVar

from runnel import __version__
from runnel.client.address import Address
from runnel.client.error import BrokerUnavailable, RequestTimeout
from runnel.client.stream import Stream
from runnel.protocol.api_key import ApiKey
from runnel.protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from runnel.protocol.frame import decode_response, encode_request
from runnel.protocol.message import Message
from runnel.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from runnel.protocol.primitive import Buffer

R = TypeVar("R", bound=Message)

_CORRELATION_ID = Struct(">i")
_ERROR_CODE = Struct(">h")
_CORRELATION_ID_MASK = 0x7FFF_FFFF
_FIRST_API_VERSIONS = 4  # what brokers from Kafka 3.9 on know; 5 adds only what we have not to say
_SOFTWARE_NAME = "runnel"


class Connection:
    """Requests to one broker and its replies; made by `open`."""

    def __init__(self, address: Address, client_id: str, request_timeout_ms: float) -> None:
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

    @classmethod
    async def open(cls, address: Address, *, client_id: str = "runnel", request_timeout_ms: float = 30_000) -> Self:
        """Connect and settle versions; raises `BrokerUnavailable`, `RequestTimeout` or `RemoteProtocolError`."""
        connection = cls(address, client_id, request_timeout_ms)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(request_timeout_ms / 1000):
                await loop.create_connection(lambda: connection._stream, address.host, address.port)
                await connection._settle_versions()
        except TimeoutError:
            connection._abort()
            raise RequestTimeout(f"{address} did not answer in {request_timeout_ms:g} ms") from None
        except OSError as error:
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
        """How many requests wait for their replies."""
        return len(self._waiting)

    @property
    def api_keys(self) -> list[int]:
        """The keys of the APIs that the broker advertises."""
        return sorted(self._versions)

    def version(self, request_type: type[Message], version_max: int | None = None) -> int:
        """The version to speak an API in; raises `ApiError` UNSUPPORTED_VERSION when there is none in common."""
        ours = request_type.SCHEMA.versions
        theirs = self._versions.get(_api_key(request_type), range(0))
        version = min(ours[-1], theirs.stop - 1, ours[-1] if version_max is None else version_max)
        if version < max(ours[0], theirs.start) or not theirs:
            name = _api_key(request_type).name
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"{self.address} does not speak {name} as this client does")
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

        A request that is not answered in time takes the connection with it: the broker answers
        in order, so nothing after it would be answered either.
        """
        timeout_ms = self._request_timeout_ms if timeout_ms is None else timeout_ms
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await (await self.start(request, reply_type, version_max=version_max)).reply()
        except TimeoutError:
            raise self.give_up(type(request), timeout_ms) from None

    async def start(
        self, request: Message, reply_type: type[R], *, version_max: int | None = None
    ) -> "StartedRequest[R]":
        """Send a request and return as soon as it is on its way, so that the next may follow in order.

        The caller sees to the time-out, and calls `give_up` when it is over.
        """
        version = self.version(type(request), version_max)
        return StartedRequest(self, await self._write(request, version), reply_type, version)

    def give_up(self, request_type: type[Message], timeout_ms: float) -> RequestTimeout:
        """Close because a request was not answered in time; the error to raise."""
        error = RequestTimeout(f"{self.address} did not answer {_api_key(request_type).name} in {timeout_ms:g} ms")
        self._abort(error)
        return error

    def read_reply(self, reply_type: type[R], frame: Buffer, version: int) -> R:
        """The reply in a frame; obeys what it says of throttling."""
        reply = self._decode(reply_type, frame, version)
        self._obey_throttle(getattr(reply, "throttle_time_ms", 0))
        return reply

    async def send(self, request: Message, *, version_max: int | None = None) -> None:
        """Send a request that has no reply, which is only a produce request with acks=0."""
        version = self.version(type(request), version_max)
        await self._ready()
        self._correlation_id = (self._correlation_id + 1) & _CORRELATION_ID_MASK
        self._stream.write(encode_request(self._correlation_id, self._client_id, request, version))

    async def close(self) -> None:
        """Close; what was sent still goes out, what waits for a reply fails."""
        if self._lost is None:
            self._on_lost(None)
            self._stream.close()
            await asyncio.sleep(0)  # lets the transport finish, so that no socket is left to the garbage collector

    # --- inside

    async def _ready(self) -> None:
        delay_s = self._silent_until_s - asyncio.get_running_loop().time()
        if delay_s > 0:
            await asyncio.sleep(delay_s)
        await self._stream.wait_writable()
        if self._lost is not None:
            raise BrokerUnavailable(str(self._lost))

    async def _write(self, request: Message, version: int) -> asyncio.Future[Buffer]:
        await self._ready()
        self._correlation_id = (self._correlation_id + 1) & _CORRELATION_ID_MASK
        pieces = encode_request(self._correlation_id, self._client_id, request, version)
        reply: asyncio.Future[Buffer] = asyncio.get_running_loop().create_future()
        self._waiting.append((self._correlation_id, reply))
        self._stream.write(pieces)
        return reply

    def _on_frame(self, frame: Buffer) -> None:
        if not self._waiting or len(frame) < _CORRELATION_ID.size:
            self._abort(RemoteProtocolError(f"{self.address} sent what nobody asked for"))
            return
        expected, reply = self._waiting.popleft()
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
        if correlation_id != expected:
            error = RemoteProtocolError(f"{self.address} answered request {correlation_id} instead of {expected}")
            if not reply.done():
                reply.set_exception(error)
            self._abort(error)
        elif not reply.done():  # its asker may have been cancelled
            reply.set_result(frame)

    def _on_lost(self, cause: Exception | None) -> None:
        if self._lost is not None:
            return
        self._lost = BrokerUnavailable(f"the connection to {self.address} was closed")
        if isinstance(cause, OSError):
            self._lost = BrokerUnavailable(f"the connection to {self.address} broke: {_reason(cause)}")
        elif cause is not None:
            self._lost = cause
        for _, reply in self._waiting:
            if not reply.done():
                reply.set_exception(self._lost)
                reply.exception()  # marks it as seen: its asker may be gone
        self._waiting.clear()

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
        """Keep silent for as long as the broker asks; it delays us anyway if we do not (KIP-219)."""
        if throttle_time_ms > 0:
            now_s = asyncio.get_running_loop().time()
            self._silent_until_s = max(self._silent_until_s, now_s + throttle_time_ms / 1000)

    async def _settle_versions(self) -> None:
        reply = await self._ask_versions(_FIRST_API_VERSIONS)
        if reply.error_code == ErrorCode.UNSUPPORTED_VERSION:
            known = {api.api_key: api.max_version for api in reply.api_keys}
            reply = await self._ask_versions(min(known.get(ApiKey.API_VERSIONS, 0), _FIRST_API_VERSIONS))
        if reply.error_code:
            raise ApiError(ErrorCode(reply.error_code), f"{self.address} does not tell what it speaks")
        self._versions = {api.api_key: range(api.min_version, api.max_version + 1) for api in reply.api_keys}
        if reply.finalized_features_epoch >= 0:
            self.finalized_features = {found.name: found.max_version_level for found in reply.finalized_features}

    async def _ask_versions(self, version: int) -> ApiVersionsResponse:
        request = ApiVersionsRequest(client_software_name=_SOFTWARE_NAME, client_software_version=__version__)
        frame = await (await self._write(request, version))
        # A broker that does not know the version says so in version 0, whatever it was asked in.
        body = _CORRELATION_ID.size
        if frame[body : body + _ERROR_CODE.size] == _ERROR_CODE.pack(ErrorCode.UNSUPPORTED_VERSION):
            version = 0
        return self._decode(ApiVersionsResponse, frame, version)


class StartedRequest(Generic[R]):
    """A request that is on its way."""

    def __init__(
        self, connection: Connection, frame: asyncio.Future[Buffer], reply_type: type[R], version: int
    ) -> None:
        self._connection = connection
        self._frame = frame
        self._reply_type = reply_type
        self._version = version

    async def reply(self) -> R:
        """Wait for the reply; raises what broke the connection before it came."""
        return self._connection.read_reply(self._reply_type, await self._frame, self._version)


def _api_key(request_type: type[Message]) -> ApiKey:
    key = request_type.SCHEMA.key
    if key is None:
        raise TypeError(f"{request_type.__name__} is no request")
    return key


def _reason(error: OSError) -> str:
    """The system's words for an error. Where a name has several addresses, asyncio puts all errors into one text."""
    if isinstance(error, socket.gaierror):
        return error.strerror or str(error)
    number = error.errno
    if number is None and (found := re.search(r"\[Errno (\d+)\]", str(error))):
        number = int(found[1])
    return str(error) if number is None else os.strerror(number)

"""HTTP requests to one of several registries, over connections that stay open.

If a registry does not answer, or answers with 5xx, the next one is asked, and the one that answers stays the first
choice. After all of them have failed, the client waits and starts again. A deletion is sent only once: after 5xx or a
lost connection, a registry may have carried it out.
"""

import http.client
import json
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from tailrace.base.registry_address import RegistryAddress
from tailrace.base.schema_limits import REGISTRY_CONNECTIONS_IDLE_MAX, REGISTRY_REPLY_BYTES_MAX
from tailrace.client.backoff import Backoff
from tailrace.schema.error import RegistryError, RegistryUnavailable
from tailrace.schema.exchange import read_refusal, request_headers

_FAILED = 500
_REFUSED = 400


class Request(NamedTuple):
    """A request to any of the registries."""

    method: str
    path: str
    query: Mapping[str, str]
    body: Any = None

    @property
    def target(self) -> str:
        """The path with its query."""
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path

    @property
    def is_repeatable(self) -> bool:
        """Whether a request that may have been carried out can be sent again.

        Lookups change nothing, a schema is registered only once, and a config that is set twice is the same. A second
        deletion finds nothing, or deletes the version that is the latest after the first.
        """
        return self.method != "DELETE"


class HttpClient:
    """Sends requests. Threads may share it."""

    def __init__(
        self,
        urls: Sequence[str],
        *,
        user: str | None,
        password: str | None,
        tls: ssl.SSLContext | None,
        timeout_s: float,
        retries: int,
        backoff: Backoff,
    ) -> None:
        self._addresses = [RegistryAddress.of(url) for url in urls]
        if not self._addresses:
            raise ValueError("name at least one URL of a registry")
        self._headers = request_headers(None if user is None else f"{user}:{password or ''}")
        self._tls = tls
        self._timeout_s = timeout_s
        self._retries = retries
        self._backoff = backoff
        self._lock = threading.Lock()
        self._idle: dict[RegistryAddress, list[http.client.HTTPConnection]] = {each: [] for each in self._addresses}

    def close(self) -> None:
        """Close the connections that are idle."""
        with self._lock:
            idle = [connection for each in self._idle.values() for connection in each]
            for connections in self._idle.values():
                connections.clear()
        for connection in idle:
            connection.close()

    def send(self, request: Request) -> Any:
        """Return the JSON value of the answer. Raise `RegistryError` or `RegistryUnavailable`."""
        problem: Exception | None = None
        for round_ in range(self._retries + 1):
            if round_:
                time.sleep(self._backoff.wait_s(round_))
            with self._lock:
                addresses = list(self._addresses)
            for address in addresses:
                try:
                    status, body = self._ask(address, request)
                except (OSError, http.client.HTTPException) as error:
                    reason = f"{address.url}: {error or type(error).__name__}"
                    if isinstance(error, _Unanswered) and not request.is_repeatable:
                        raise RegistryUnavailable(f"{reason}; the deletion may have been carried out") from error
                    problem = RegistryUnavailable(reason)
                    continue
                if status < _FAILED:
                    self._prefer(address)
                    return _read(address, status, body)
                problem = _refusal(address, status, body)
                if not request.is_repeatable:
                    raise problem
        if problem is None:
            raise ValueError("retries must not be negative")
        raise problem

    def _prefer(self, address: RegistryAddress) -> None:
        with self._lock:
            if self._addresses[0] != address:
                self._addresses.remove(address)
                self._addresses.insert(0, address)

    def _ask(self, address: RegistryAddress, request: Request) -> tuple[int, bytes]:
        body = None if request.body is None else json.dumps(request.body).encode()
        # An idle connection may be closed already, and a request that was sent over it cannot always be repeated.
        connection, is_fresh = self._connection(address) if request.is_repeatable else (self._open(address), True)
        try:
            try:
                return self._exchange(address, connection, request, body)
            except (ConnectionError, http.client.BadStatusLine):
                # The registry may have closed an idle connection, which the client notices only now.
                if is_fresh:
                    raise
            connection.close()
            connection = self._open(address)
            return self._exchange(address, connection, request, body)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise _Unanswered(str(error) or type(error).__name__) from error

    def _exchange(
        self, address: RegistryAddress, connection: http.client.HTTPConnection, request: Request, body: bytes | None
    ) -> tuple[int, bytes]:
        connection.request(request.method, address.path + request.target, body, self._headers)
        response = connection.getresponse()
        data = response.read(REGISTRY_REPLY_BYTES_MAX + 1)
        if len(data) > REGISTRY_REPLY_BYTES_MAX:
            raise http.client.HTTPException(f"the answer has more than {REGISTRY_REPLY_BYTES_MAX} bytes")
        self._keep(address, connection)
        return response.status, data

    def _connection(self, address: RegistryAddress) -> tuple[http.client.HTTPConnection, bool]:
        with self._lock:
            if self._idle[address]:
                return self._idle[address].pop(), False
        return self._open(address), True

    def _open(self, address: RegistryAddress) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection
        if address.is_tls:
            context = self._tls or ssl.create_default_context()
            connection = http.client.HTTPSConnection(
                address.host, address.port, timeout=self._timeout_s, context=context
            )
        else:
            connection = http.client.HTTPConnection(address.host, address.port, timeout=self._timeout_s)
        connection.connect()
        return connection

    def _keep(self, address: RegistryAddress, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if connection.sock is not None and len(self._idle[address]) < REGISTRY_CONNECTIONS_IDLE_MAX:
                self._idle[address].append(connection)
                return
        connection.close()


class _Unanswered(OSError):
    """A request that was sent, perhaps in part, and not answered."""


def _read(address: RegistryAddress, status: int, body: bytes) -> Any:
    if status >= _REFUSED:
        raise _refusal(address, status, body)
    try:
        return json.loads(body) if body else None
    except ValueError:
        raise RegistryUnavailable(f"{address.url}: the answer is not JSON; is this the URL of a registry?") from None


def _refusal(address: RegistryAddress, status: int, body: bytes) -> RegistryError:
    refusal = read_refusal(body)
    if refusal is None:
        return RegistryError(status, status, f"{address.url} answered with HTTP status {status}")
    return RegistryError(status, refusal.code, refusal.message)

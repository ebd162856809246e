"""A registry with its socket and its HTTP server."""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tailrace.registry.core.error import RegistryError
from tailrace.registry.election import SESSION_TIMEOUT_MS, Member
from tailrace.registry.http.app import make_app
from tailrace.registry.service import Registry
from tailrace.security.tls.context import make_client_context
from tailrace.security.tls.store import Stores
from tailrace.web.auth import Users
from tailrace.web.entrance import make_door, warn_of_exposure
from tailrace.web.server import HttpServer


@dataclass(frozen=True, slots=True)
class Options:
    """What a registry is started with."""

    bootstrap: str
    host: str = "127.0.0.1"
    port: int = 0
    advertised_host: str = "127.0.0.1"
    topic: str = "_schemas"
    group_id: str = "schema-registry"
    can_lead: bool = True
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    client: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Configs of Kafka clients by name, such as those of TLS and SASL."""
    users: Users | None = None
    has_cluster_users: bool = False
    """Whether callers log in as users of the cluster, whose ACLs decide what they may do."""
    certificate: Path | None = None
    key: Path | None = None
    ca: Path | None = None
    """Certificates to trust when a request is forwarded to the leader; those of the system if it is None."""


class RegistryServer:
    """One registry behind a socket, which is bound at once, so that its address is known before it serves."""

    def __init__(self, options: Options) -> None:
        tls = None if options.ca is None else make_client_context(Stores(truststore_location=str(options.ca)))
        client = {**options.client, "bootstrap.servers": options.bootstrap}
        door = make_door(options.users, client if options.has_cluster_users else None, "registry")
        self._http = HttpServer(options.host, options.port, certificate=options.certificate, key=options.key)
        warn_of_exposure(door, options.host, self._http.scheme)
        member = Member(options.advertised_host, self._http.port, self._http.scheme, can_lead=options.can_lead)
        self.registry = Registry(
            options.bootstrap,
            member,
            topic=options.topic,
            group_id=options.group_id,
            session_timeout_ms=options.session_timeout_ms,
            client=options.client,
        )
        self._app = make_app(self.registry, door, tls=tls)

    @property
    def url(self) -> str:
        """The address of the REST API."""
        return self.registry.member.url

    def stop(self) -> None:
        """Finish the requests that are being served, and end `run`."""
        self._http.stop()

    async def run(self, on_ready: Callable[[], None]) -> None:
        """Serve until stopped, or until the topic cannot be read any more.

        `on_ready` is called when the registry takes every request.
        """

        async def tell() -> None:
            while True:
                with contextlib.suppress(RegistryError):
                    await self.registry.known_leader()
                    break
            on_ready()

        await self._http.run(self._app, tell, watch=self.registry.store.watch)


async def serve(options: Options, on_ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT. `on_ready` is called with the URL when the registry takes every request."""
    server = RegistryServer(options)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop)
    await server.run(lambda: on_ready(server.url))

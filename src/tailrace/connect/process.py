"""A Connect service with its socket and its HTTP server."""

import asyncio
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tailrace.connect.http.app import make_app
from tailrace.connect.service import ConnectService, ServiceOptions
from tailrace.web.auth import Users
from tailrace.web.entrance import make_door, warn_of_exposure
from tailrace.web.server import HttpServer


@dataclass(frozen=True, slots=True)
class Listening:
    """Where a service listens, and who may ask it."""

    host: str = "127.0.0.1"
    port: int = 0
    advertised_host: str = "127.0.0.1"
    users: Users | None = None
    has_cluster_users: bool = False
    """Whether callers log in as users of the cluster, whose ACLs decide what they may do."""
    certificate: Path | None = None
    key: Path | None = None


class ConnectServer:
    """One Connect service behind a socket, which is bound at once, so that its address is known before it serves."""

    def __init__(self, options: ServiceOptions, listening: Listening) -> None:
        door = make_door(listening.users, options.client if listening.has_cluster_users else None, "connect")
        self._http = HttpServer(listening.host, listening.port, certificate=listening.certificate, key=listening.key)
        warn_of_exposure(door, listening.host, self._http.scheme)
        host = f"[{listening.advertised_host}]" if ":" in listening.advertised_host else listening.advertised_host
        address = f"{host}:{self._http.port}"
        self.url = f"{self._http.scheme}://{address}"
        self.service = ConnectService(options, address)
        self._app = make_app(self.service, door)

    def stop(self) -> None:
        """Finish the requests that are being served, stop all applications, and end `run`."""
        self._http.stop()

    async def run(self, on_ready: Callable[[], None]) -> None:
        """Serve until stopped, or until another service takes over, which raises `Replaced`."""

        async def tell() -> None:
            on_ready()

        await self._http.run(self._app, tell, watch=self.service.watch)


async def serve(options: ServiceOptions, listening: Listening, on_ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT. `on_ready` is called with the URL when the service takes requests."""
    server = ConnectServer(options, listening)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop)
    await server.run(lambda: on_ready(server.url))

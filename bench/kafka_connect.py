"""A real Kafka Connect worker in distributed mode, from its jars on Maven Central.

with KafkaConnect(broker.bootstrap_servers) as connect:
    httpx.get(connect.url + "/connectors")
"""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.kafka import KAFKA_VERSION, LOG4J_VERSION, STOP_TIMEOUT_S, free_ports, require_java
from bench.maven import Classpath

READY_TIMEOUT_S = 120.0

_MAIN = "org.apache.kafka.connect.cli.ConnectDistributed"
_LOG4J = """\
appender.console.type = Console
appender.console.name = STDOUT
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %c{1}: %m%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = STDOUT
"""


def connect_classpath(version: str = KAFKA_VERSION) -> Classpath:
    """Return the class path of Kafka Connect with its own connectors, and a logging backend."""
    require_java()
    kafka = [f"org.apache.kafka:{name}:{version}" for name in ("connect-runtime", "connect-file", "connect-json")]
    log4j = [f"org.apache.logging.log4j:{name}:{LOG4J_VERSION}" for name in ("log4j-slf4j-impl", "log4j-core")]
    return Classpath.of(f"connect-{version}", [*kafka, *log4j])


class KafkaConnect:
    """One worker of a Kafka Connect cluster."""

    def __init__(
        self,
        bootstrap_servers: str,
        properties: Mapping[str, str] | None = None,
        *,
        plugins: Sequence[Classpath] = (),
        heap_mb: int = 256,
    ) -> None:
        """Name the brokers, properties in addition to the worker's own, and connectors beside those of Kafka."""
        self.url = ""
        self._bootstrap_servers = bootstrap_servers
        self._properties = dict(properties or {})
        self._plugins = plugins
        self._heap_mb = heap_mb
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def log_text(self) -> str:
        """Return the output of the worker so far."""
        return "" if self._folder is None else (self._folder / "connect.log").read_text(errors="replace")

    def start(self) -> Self:
        """Start the JVM and return when the worker answers requests for connectors."""
        classpath = connect_classpath()
        folder = self._folder = Path(tempfile.mkdtemp(prefix="kafka-connect-"))
        port = free_ports(1)[0]
        self.url = f"http://127.0.0.1:{port}"
        (folder / "log4j2.properties").write_text(_LOG4J)
        # The worker takes each folder below its plug-in path for one plug-in, with a class loader of its own.
        (folder / "plugins").mkdir()
        for plugin in self._plugins:
            (folder / "plugins" / plugin.folder.name).symlink_to(plugin.folder)
        settings = folder / "connect.properties"
        settings.write_text(
            "".join(f"{name}={value}\n" for name, value in self._worker_properties(port, folder).items())
        )
        options = [f"-Xmx{self._heap_mb}m", f"-Dlog4j2.configurationFile={folder}/log4j2.properties"]
        try:
            with (folder / "connect.log").open("wb") as log:
                self._process = subprocess.Popen(
                    classpath.command(_MAIN, str(settings), options=options),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop the worker cleanly; kill it after a timeout."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def create(self, name: str, config: Mapping[str, str]) -> None:
        """Create a connector, and return when it and its tasks run."""
        try:
            self._request("PUT", f"/connectors/{name}/config", dict(config))
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"Kafka Connect refused connector {name}: {error.read().decode()}") from None
        deadline = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < deadline:
            states: list[dict[str, str]] = []
            with contextlib.suppress(urllib.error.HTTPError):  # the status may not be known yet
                found = self._request("GET", f"/connectors/{name}/status")
                states = [found["connector"], *found["tasks"]]
            failed = [each for each in states if each["state"] == "FAILED"]
            if failed:
                raise RuntimeError(f"connector {name} failed: {failed[0].get('trace', '')}")
            if len(states) > 1 and all(each["state"] == "RUNNING" for each in states):
                return
            time.sleep(0.1)
        raise RuntimeError(f"connector {name} did not run within {READY_TIMEOUT_S:.0f} s:\n{self.log_text()}")

    @contextlib.contextmanager
    def running(self, config: Mapping[str, str]) -> Iterator[None]:
        """Run a connector with a name of its own during the block."""
        name = f"connector-{uuid.uuid4().hex[:8]}"
        self.create(name, config)
        try:
            yield
        finally:
            self._request("DELETE", f"/connectors/{name}")

    def _request(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers, method=method)  # noqa: S310 - our own URL
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            text = answer.read()
        return json.loads(text) if text else None

    def _worker_properties(self, port: int, folder: Path) -> dict[str, str]:
        return {
            "bootstrap.servers": self._bootstrap_servers,
            "group.id": "connect-cluster",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "config.storage.topic": "connect-configs",
            "status.storage.topic": "connect-status",
            "offset.storage.topic": "connect-offsets",
            "config.storage.replication.factor": "1",
            "status.storage.replication.factor": "1",
            "offset.storage.replication.factor": "1",
            "offset.flush.interval.ms": "500",
            "listeners": f"http://127.0.0.1:{port}",
            "plugin.discovery": "only_scan",
            **({"plugin.path": f"{folder}/plugins"} if self._plugins else {}),
            **self._properties,
        }

    def _wait_until_ready(self) -> None:
        process = self._process
        deadline = time.monotonic() + READY_TIMEOUT_S
        while process is not None and time.monotonic() < deadline:
            if process.poll() is not None:
                raise RuntimeError(
                    f"Kafka Connect exited at start with status {process.returncode}:\n{self.log_text()}"
                )
            with contextlib.suppress(urllib.error.URLError, TimeoutError, ConnectionError):
                if urllib.request.urlopen(f"{self.url}/connectors", timeout=5).status == 200:  # noqa: S310 - our own URL
                    return
            time.sleep(0.1)
        raise RuntimeError(f"Kafka Connect was not ready within {READY_TIMEOUT_S:.0f} s:\n{self.log_text()}")

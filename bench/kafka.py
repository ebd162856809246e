"""A real Apache Kafka, one node in KRaft mode on loopback, from its jars on Maven Central.

    with ApacheKafka() as kafka:
        connect_to(kafka.bootstrap_servers)

From the command line, `python -m bench.kafka start` runs one until Ctrl-C, and
`python -m bench.kafka run org.apache.kafka.tools.DumpLogSegments …` runs any of Kafka's tools.
A missing tool (Java, Maven, the network) is reported as `Unavailable` with a reason.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.cache import NotInstalled, Unavailable, require_tool
from bench.maven import JAVA_VERSION_MIN, Classpath

KAFKA_VERSION = "4.3.1"
LOG4J_VERSION = "2.25.4"
READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0

__all__ = ["KAFKA_VERSION", "ApacheKafka", "Unavailable", "kafka_classpath"]

_LOG4J = """\
appender.console.type = Console
appender.console.name = STDOUT
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %c{1}: %m%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = STDOUT
logger.server.name = kafka.server.KafkaRaftServer
logger.server.level = info
"""


def kafka_classpath(version: str = KAFKA_VERSION) -> Classpath:
    """Return the class path of Kafka's broker, clients and command-line tools with a logging backend."""
    require_java()
    coordinates = [
        f"org.apache.kafka:kafka_2.13:{version}",
        f"org.apache.kafka:kafka-tools:{version}",
        f"org.apache.logging.log4j:log4j-slf4j-impl:{LOG4J_VERSION}",
        f"org.apache.logging.log4j:log4j-core:{LOG4J_VERSION}",
    ]
    return Classpath.of(f"broker-{version}", coordinates)


def require_java() -> None:
    """Raise `NotInstalled` unless Java is recent enough for Apache Kafka."""
    done = subprocess.run([require_tool("java"), "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(\d+)', done.stderr + done.stdout)
    if found is None or int(found.group(1)) < JAVA_VERSION_MIN:
        raise NotInstalled(f"Apache Kafka {KAFKA_VERSION} needs Java {JAVA_VERSION_MIN} or newer")


_OWN_PORTS = 15_000, 30_000  # below those that Linux and macOS give to connections


class ApacheKafka:
    """A single Kafka node for a benchmark or a test, with its own data and ports."""

    def __init__(
        self,
        properties: Mapping[str, str] | None = None,
        *,
        data: Path | None = None,
        heap_mb: int = 512,
        version: str = KAFKA_VERSION,
    ) -> None:
        self.version = version
        self.bootstrap_servers = ""
        self._properties = dict(properties or {})
        self._keeps_data = data is not None
        self._data = data
        self._heap_mb = heap_mb
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id of the broker's JVM."""
        if self._process is None:
            raise RuntimeError("Apache Kafka is not running")
        return self._process.pid

    @property
    def log_folder(self) -> Path:
        """The folder with one sub-folder for each partition."""
        if self._data is None:
            raise RuntimeError("Apache Kafka is not running")
        return self._data / "logs"

    def log_text(self) -> str:
        """Return the output of the broker so far."""
        return (self.log_folder.parent / "server.log").read_text(errors="replace")

    def start(self) -> Self:
        """Format the storage, start the JVM and return when clients can connect."""
        classpath = kafka_classpath(self.version)
        folder = self._data = self._data or Path(tempfile.mkdtemp(prefix="apache-kafka-"))
        folder.mkdir(parents=True, exist_ok=True)
        port, controller_port = free_ports(2)
        (folder / "log4j2.properties").write_text(_LOG4J)
        settings = folder / "server.properties"
        settings.write_text(self._server_properties(port, controller_port))
        options = [
            f"-Xmx{self._heap_mb}m",
            f"-Xms{self._heap_mb}m",
            f"-Dlog4j2.configurationFile={folder}/log4j2.properties",
        ]
        try:
            _format_storage(classpath, settings, options)
            with (folder / "server.log").open("wb") as log:
                self._process = subprocess.Popen(
                    classpath.command("kafka.Kafka", str(settings), options=options),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise
        self.bootstrap_servers = f"127.0.0.1:{port}"
        return self

    def stop(self) -> None:
        """Stop the broker cleanly; kill it after a timeout."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if not self._keeps_data and self._data is not None:
            shutil.rmtree(self._data, ignore_errors=True)
            self._data = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _server_properties(self, port: int, controller_port: int) -> str:
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.log_folder),
            "num.partitions": "1",
            "default.replication.factor": "1",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            # Retention runs once, before there is a record, so records may have the time of another year.
            "log.initial.task.delay.ms": "100",
            "log.retention.check.interval.ms": "86400000",
            **self._properties,
        }
        return "".join(f"{name}={value}\n" for name, value in settings.items())

    def _wait_until_ready(self) -> None:
        process = self._process
        deadline = time.monotonic() + READY_TIMEOUT_S
        while process is not None and time.monotonic() < deadline:
            if process.poll() is not None:
                raise RuntimeError(f"Apache Kafka exited at start with status {process.returncode}:\n{self.log_text()}")
            if "Kafka Server started" in self.log_text():
                return
            time.sleep(0.05)
        raise RuntimeError(f"Apache Kafka was not ready within {READY_TIMEOUT_S:.0f} s:\n{self.log_text()}")


def _format_storage(classpath: Classpath, settings: Path, options: list[str]) -> None:
    # A leading zero byte, because an id that began with "-" would be taken for an option.
    cluster_id = base64.urlsafe_b64encode(b"\0" + uuid.uuid4().bytes[1:]).decode().rstrip("=")
    arguments = ["format", "--ignore-formatted", "--cluster-id", cluster_id, "--config", str(settings)]
    command = classpath.command("kafka.tools.StorageTool", *arguments, options=options)
    done = subprocess.run(command, capture_output=True, text=True, timeout=READY_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"cannot format the storage of Apache Kafka:\n{done.stdout}{done.stderr}")


def free_ports(count: int) -> list[int]:
    """Return ports of loopback that are free now, and that the system gives to no connection in the meantime."""
    found: list[int] = []
    with contextlib.ExitStack() as stack:
        while len(found) < count:
            port = random.SystemRandom().randrange(*_OWN_PORTS)
            held = stack.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                held.bind(("127.0.0.1", port))
                found.append(port)
    return found


def _start(arguments: argparse.Namespace) -> int:
    properties = dict(pair.split("=", 1) for pair in arguments.set)
    with ApacheKafka(properties, data=arguments.data) as kafka:
        print(f"kafka: {kafka.version} ready on {kafka.bootstrap_servers}, process {kafka.pid}", flush=True)
        # Not before this point: the JVM would inherit the mask and never get its own SIGTERM.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        signal.sigwait({signal.SIGINT, signal.SIGTERM})
    return 0


def _run(arguments: argparse.Namespace) -> int:
    return subprocess.run(kafka_classpath().command(*arguments.command), check=False).returncode


def main() -> int:
    """Run the command line of this module."""
    parser = argparse.ArgumentParser(prog="python -m bench.kafka", description="Real Apache Kafka, for comparison.")
    commands = parser.add_subparsers(required=True)
    start = commands.add_parser("start", help="run a broker until Ctrl-C")
    start.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a line of server.properties")
    start.add_argument("--data", type=Path, help="keep the data in this folder")
    start.set_defaults(action=_start)
    run = commands.add_parser("run", help="run one of Kafka's main classes with its arguments")
    run.add_argument("command", nargs=argparse.REMAINDER)
    run.set_defaults(action=_run)
    arguments = parser.parse_args()
    try:
        return int(arguments.action(arguments))
    except Unavailable as reason:
        print(f"kafka: {reason}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())

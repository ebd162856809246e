"""Three ZooKeeper servers and three brokers, each a process that can be killed, stopped for a while and cut off."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil
from tests.faults.readiness import has_output
from tests.faults.storm_network import Network

READY_TIMEOUT_S = 90
BROKER_COUNT = 3
_FOR_ALL = (signal.SIGSTOP, signal.SIGCONT)


class Member:
    """One process of the cluster, which starts again with the same words."""

    def __init__(self, name: str, arguments: Sequence[str], folder: Path, network: Network) -> None:
        self.name = name
        self.is_paused = False
        self._command = [*network.prefix(name), sys.executable, "-m", "tailrace.cli.main", *arguments]
        self._log = folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._is_ready = False

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def launch(self) -> None:
        if self._process is not None:
            self._end()
        self._is_ready = False
        with self._log.open("a") as log:
            self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=log)

    def wait_until_ready(self) -> None:
        assert self._process is not None
        output = self._process.stdout
        assert output is not None
        line = output.readline() if has_output(output, READY_TIMEOUT_S) else b""
        assert b" ready on " in line, f"{self.name}: {self.log[-3000:]}"
        self._is_ready = True

    @property
    def is_ready(self) -> bool:
        """Whether it has said so; once it has, that is not forgotten until it is launched again."""
        assert self._process is not None
        assert self._process.stdout is not None
        if not self._is_ready and has_output(self._process.stdout, 0):
            self.wait_until_ready()
        return self._is_ready

    def start(self) -> None:
        self.launch()
        self.wait_until_ready()

    def terminate(self) -> None:
        """Ask it to stop, and do not wait."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        if self.is_running:
            self._signal(signal.SIGKILL)
        self._end()

    def stop(self) -> None:
        self.terminate()
        self._end()

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)
        self.is_paused = True

    def resume(self) -> None:
        self._signal(signal.SIGCONT)
        self.is_paused = False

    def _signal(self, number: signal.Signals) -> None:
        """Signal the process and, where it only looks after another, that one, too."""
        assert self._process is not None
        process = psutil.Process(self._process.pid)
        for other in [process, *process.children(recursive=True)] if number in _FOR_ALL else [process]:
            with contextlib.suppress(psutil.NoSuchProcess):
                other.send_signal(number)

    def _end(self) -> None:
        if self._process is None:
            return
        self._process.wait(READY_TIMEOUT_S)
        if self._process.stdout is not None:
            self._process.stdout.close()
        self.is_paused = False


class Cluster:
    """All members, and how clients reach them."""

    def __init__(self, folder: Path, network: Network, options: Mapping[str, str], server_count: int = 3) -> None:
        self.network = network
        numbers = range(1, server_count + 1)
        ports = {number: [network.port() for _ in range(3)] for number in numbers}
        hosts = {number: network.host(f"zookeeper-{number}") for number in numbers}
        ensemble = ",".join(f"{number}={hosts[number]}:{ports[number][1]}:{ports[number][2]}" for number in numbers)
        connect = ",".join(f"{hosts[number]}:{ports[number][0]}" for number in numbers)
        self.servers = {
            number: Member(
                f"zookeeper-{number}",
                [
                    *("zookeeper", "start", "--data", str(folder / f"zookeeper-{number}")),
                    *("--listen", f"{hosts[number]}:{ports[number][0]}"),
                    *(("--id", str(number), "--servers", ensemble) if server_count > 1 else ()),
                ],
                folder,
                network,
            )
            for number in numbers
        }
        self.addresses = {
            number: f"{network.host(f'broker-{number}')}:{network.port()}" for number in range(1, BROKER_COUNT + 1)
        }
        self.brokers = {
            number: Member(
                f"broker-{number}",
                [
                    *("start", "--data", str(folder / f"broker-{number}"), "--listen", address),
                    *_settings({"node.id": str(number), "zookeeper.connect": connect, **options}),
                ],
                folder,
                network,
            )
            for number, address in self.addresses.items()
        }

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(self.addresses.values())

    @property
    def members(self) -> list[Member]:
        return [*self.servers.values(), *self.brokers.values()]

    def start(self) -> None:
        for group in (self.servers, self.brokers):
            for member in group.values():
                member.launch()
            for member in group.values():
                member.wait_until_ready()

    def end(self) -> None:
        for member in self.members:
            member.kill()


def _settings(options: Mapping[str, str]) -> list[str]:
    return [word for name, value in options.items() for word in ("--set", f"{name}={value}")]

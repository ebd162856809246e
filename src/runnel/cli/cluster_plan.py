"""What a cluster on this machine is made of, kept in `cluster.json` in its folder."""

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click

from runnel.cli.daemon import Daemon

PLAN_FILE_NAME = "cluster.json"
HOST = "127.0.0.1"
_REPLICAS_MAX = 3


@dataclass(slots=True)
class Member:
    """A broker, or the ZooKeeper server, and its process if it was started."""

    name: str
    port: int
    daemon: Daemon | None = None

    @property
    def is_running(self) -> bool:
        return self.daemon is not None and self.daemon.is_running

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"


@dataclass(slots=True)
class ClusterPlan:
    """The members of a cluster, and the settings that were given for all brokers."""

    folder: Path
    zookeeper: Member
    brokers: dict[int, Member] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)

    @classmethod
    def make(cls, folder: Path) -> "ClusterPlan":
        return cls(folder, Member("zookeeper", _free_port()))

    @classmethod
    def load(cls, folder: Path) -> "ClusterPlan | None":
        """The plan in a folder; None if there is none."""
        path = folder / PLAN_FILE_NAME
        try:
            saved = json.loads(path.read_text())
            plan = cls(folder, _member(saved["zookeeper"]), settings=dict(saved["settings"]))
            plan.brokers = {int(broker_id): _member(broker) for broker_id, broker in saved["brokers"].items()}
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            raise click.ClickException(f"{path} is not what `runnel cluster` wrote there") from None
        return plan

    @classmethod
    def require(cls, folder: Path) -> "ClusterPlan":
        plan = cls.load(folder)
        if plan is None:
            raise click.ClickException(f"there is no cluster in {folder}: `runnel cluster start --brokers 3` makes one")
        return plan

    def save(self) -> None:
        """Write the plan, whole or not at all."""
        saved = {
            "zookeeper": asdict(self.zookeeper),
            "brokers": {broker_id: asdict(broker) for broker_id, broker in self.brokers.items()},
            "settings": self.settings,
        }
        path = self.folder / PLAN_FILE_NAME
        new = path.with_suffix(".new")
        new.write_text(json.dumps(saved, indent=2) + "\n")
        os.replace(new, path)

    def grow(self, broker_count: int, port: int) -> None:
        """Have so many brokers, on ports from `port` on; with port 0 on any that are free."""
        for broker_id in range(1, broker_count + 1):
            if broker_id not in self.brokers:
                chosen = port + broker_id - 1 if port else _free_port()
                self.brokers[broker_id] = Member(f"broker-{broker_id}", chosen)

    def broker(self, broker_id: int) -> Member:
        if broker_id not in self.brokers:
            known = ", ".join(map(str, self.brokers))
            raise click.ClickException(f"there is no broker {broker_id} in {self.folder}, only {known}")
        return self.brokers[broker_id]

    def broker_settings(self, broker_id: int) -> dict[str, str]:
        """All settings of a broker. What the user gave comes last and wins."""
        replicas = min(_REPLICAS_MAX, len(self.brokers))
        return {
            "node.id": str(broker_id),
            "log.dirs": str(self.folder / f"broker-{broker_id}"),
            "listeners": f"PLAINTEXT://{self.brokers[broker_id].address}",
            "zookeeper.connect": self.zookeeper.address,
            # A cluster is there to survive one of its brokers; Kafka's own defaults would keep one copy of each topic.
            "default.replication.factor": str(replicas),
            "min.insync.replicas": str(max(1, replicas - 1)),
            "offsets.topic.replication.factor": str(replicas),
            **self.settings,
        }


def _member(saved: Mapping[str, Any]) -> Member:
    daemon = saved["daemon"]
    return Member(saved["name"], saved["port"], daemon and Daemon(**daemon))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port

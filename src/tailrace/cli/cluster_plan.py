"""The members of a cluster on this machine, saved in `cluster.json` in its folder."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click

from tailrace.cli.daemon import Daemon
from tailrace.cli.port import find_port
from tailrace.config.properties import format_properties

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
    """The members of a cluster, and the configs that the user set for all brokers."""

    folder: Path
    zookeeper: Member
    brokers: dict[int, Member] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)

    @classmethod
    def make(cls, folder: Path) -> "ClusterPlan":
        return cls(folder, Member("zookeeper", find_port(HOST)))

    @classmethod
    def load(cls, folder: Path) -> "ClusterPlan | None":
        """Return the plan saved in a folder; None if there is none."""
        path = folder / PLAN_FILE_NAME
        try:
            saved = json.loads(path.read_text())
            plan = cls(folder, _member(saved["zookeeper"]), settings=dict(saved["settings"]))
            plan.brokers = {int(broker_id): _member(broker) for broker_id, broker in saved["brokers"].items()}
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            raise click.ClickException(
                f"{path} is not a cluster plan of `tailrace cluster`; restore it or remove the folder"
            ) from None
        return plan

    @classmethod
    def require(cls, folder: Path) -> "ClusterPlan":
        plan = cls.load(folder)
        if plan is None:
            raise click.ClickException(
                f"there is no cluster in {folder}: create one with `tailrace cluster start --brokers 3`"
            )
        return plan

    def save(self) -> None:
        """Write the plan atomically."""
        saved = {
            "zookeeper": asdict(self.zookeeper),
            "brokers": {broker_id: asdict(broker) for broker_id, broker in self.brokers.items()},
            "settings": self.settings,
        }
        _write_private(self.folder / PLAN_FILE_NAME, json.dumps(saved, indent=2) + "\n")

    def save_config(self, broker_id: int) -> Path:
        """Write the properties file of a broker, whose secrets must not be in the process list; return its path."""
        path = self._config_file(broker_id)
        _write_private(path, format_properties(self.broker_settings(broker_id)))
        return path

    def remove(self) -> None:
        """Delete the saved plan and the properties files."""
        for path in (self.folder / PLAN_FILE_NAME, *map(self._config_file, self.brokers)):
            path.unlink(missing_ok=True)

    def _config_file(self, broker_id: int) -> Path:
        return self.folder / f"{self.brokers[broker_id].name}.properties"

    def grow(self, broker_count: int, port: int) -> None:
        """Add brokers up to this count, on ports from `port` on; port 0 chooses free ports."""
        for broker_id in range(1, broker_count + 1):
            if broker_id not in self.brokers:
                chosen = port + broker_id - 1 if port else self._find_unused_port()
                self.brokers[broker_id] = Member(f"broker-{broker_id}", chosen)

    def _find_unused_port(self) -> int:
        """Return a free port that the plan does not use; its members may not be running yet."""
        planned = {self.zookeeper.port, *(broker.port for broker in self.brokers.values())}
        while (port := find_port(HOST)) in planned:
            pass
        return port

    def broker(self, broker_id: int) -> Member:
        if broker_id not in self.brokers:
            known = ", ".join(map(str, self.brokers))
            raise click.ClickException(f"there is no broker {broker_id} in {self.folder}, only {known}")
        return self.brokers[broker_id]

    def broker_settings(self, broker_id: int) -> dict[str, str]:
        """Return all configs of a broker; those that the user set override the others."""
        replicas = min(_REPLICAS_MAX, len(self.brokers))
        return {
            "node.id": str(broker_id),
            "log.dirs": str(self.folder / f"broker-{broker_id}"),
            "listeners": f"PLAINTEXT://{self.brokers[broker_id].address}",
            "zookeeper.connect": self.zookeeper.address,
            # A cluster should survive the loss of one broker; Kafka's defaults keep only one copy of each topic.
            "default.replication.factor": str(replicas),
            "min.insync.replicas": str(max(1, replicas - 1)),
            "offsets.topic.replication.factor": str(replicas),
            **self.settings,
        }


def _write_private(path: Path, text: str) -> None:
    """Replace a file atomically with one that only its owner can read, because configs may be secrets."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)  # it would keep its mode
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as output:
        output.write(text)
    os.replace(new, path)


def _member(saved: Mapping[str, Any]) -> Member:
    daemon = saved["daemon"]
    return Member(saved["name"], saved["port"], daemon and Daemon(**daemon))

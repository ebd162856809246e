"""A real cluster in a storm: brokers and ZooKeeper servers are killed, stopped and cut off under load.

Three brokers and three ZooKeeper servers are processes of their own, on loopback or, with
`--network`, each in a network namespace whose link can be cut. Producers of two kinds write to a
topic with three replicas and `min.insync.replicas=2`, a consumer reads. At the end all is healed,
everything is read once more from the beginning, and the checkers judge the whole history.

    python -m tests.faults.storm --minutes 10 --seed 1
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

from confluent_kafka.admin import AdminClient, NewTopic
from tests.faults.storm_client import Client, ConfluentSender, Reader, TailraceSender, shown
from tests.faults.storm_network import Namespaces, Network, can_make_namespaces
from tests.faults.storm_process import Cluster, Member

from tailrace.sim.check import check, summary
from tailrace.sim.history import OK, History, write_history

TOPIC = "storm"
PARTITION_COUNT = 6
SESSION_TIMEOUT_MS = 6_000
OPTIONS = {
    "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "replica.lag.time.max.ms": "4000",
    "offsets.topic.num.partitions": "4",
    "log.segment.bytes": "1048576",
}
CALM_SHARE = 0.25
CALM_S = (3.0, 8.0)
FAULT_S = (0.5, 12.0)
HEALING_TIMEOUT_S = 120.0


class StormFailure(AssertionError):
    """A promise that was not kept."""


class Storm:
    """A cluster, its clients, and what happens to them."""

    def __init__(self, folder: Path, network: Network, seed: int) -> None:
        self.folder = folder
        self.random = Random(seed)
        self.network = network
        self.cluster = Cluster(folder, network, OPTIONS)
        self.partitions = [(TOPIC, index) for index in range(PARTITION_COUNT)]
        self.clients: list[Client] = []
        self.faults: Counter[str] = Counter()
        self.dead_leaders: list[tuple[float, str]] = []  # when, and which partition it led
        self.events: list[dict[str, object]] = []

    def run(self, duration_s: float) -> None:
        try:
            self.cluster.start()
            self._create()
            self._begin()
            ends_s = time.monotonic() + duration_s
            while time.monotonic() < ends_s:
                self._step()
                self._complain()
                self._show(ends_s - time.monotonic())
            self._finish()
        finally:
            self.cluster.end()
            self.network.close()

    # Load.

    def _create(self) -> None:
        self.admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap_servers})
        topic = NewTopic(TOPIC, PARTITION_COUNT, 3, config={"min.insync.replicas": "2"})
        for outcome in self.admin.create_topics([topic], operation_timeout=30).values():
            outcome.result(60)

    def _begin(self) -> None:
        servers = self.cluster.bootstrap_servers
        self.clients = [
            ConfluentSender("confluent-1", servers, self.partitions),
            ConfluentSender("confluent-2", servers, self.partitions),
            TailraceSender("tailrace-1", servers, self.partitions),
            Reader("reader-1", servers, self.partitions),
        ]
        for client in self.clients:
            client.start()

    # Weather.

    def _step(self) -> None:
        time.sleep(self.random.uniform(*CALM_S))
        if self.random.random() < CALM_SHARE:
            return
        kinds = ["kill", "kill", "pause", "stop"] + (["cut", "cut one way"] if self.network.can_cut else [])
        kind, (role, member) = self.random.choice(kinds), self._victim()
        self.faults[f"{kind} {role}"] += 1
        self._note_dead_leader(member, kind)
        self._hit(kind, member)
        time.sleep(self.random.uniform(*FAULT_S))
        self._heal(kind, member)

    def _victim(self) -> tuple[str, Member]:
        role = self.random.choice(["leader", "broker", "controller", "zookeeper"])
        if role == "zookeeper":
            return role, self.random.choice(list(self.cluster.servers.values()))
        found = self.admin.list_topics(timeout=30)
        if role == "controller" and found.controller_id in self.cluster.brokers:
            return role, self.cluster.brokers[found.controller_id]
        leaders = [partition.leader for partition in found.topics[TOPIC].partitions.values() if partition.leader > 0]
        if role == "leader" and leaders:
            return role, self.cluster.brokers[self.random.choice(leaders)]
        return "broker", self.random.choice(list(self.cluster.brokers.values()))

    def _note_dead_leader(self, member: Member, kind: str) -> None:
        if kind != "kill" or member not in self.cluster.brokers.values():
            return
        found = self.admin.list_topics(TOPIC, timeout=30).topics[TOPIC]
        for index, partition in found.partitions.items():
            if self.cluster.brokers.get(partition.leader) is member:
                self.dead_leaders.append((time.monotonic() * 1000, shown((TOPIC, index))))

    def _hit(self, kind: str, member: Member) -> None:
        match kind:
            case "kill":
                member.kill()
            case "stop":
                member.stop()
            case "pause":
                member.pause()
            case _:
                self.network.cut(member.name, one_way=kind == "cut one way")

    def _heal(self, kind: str, member: Member) -> None:
        match kind:
            case "kill" | "stop":
                member.start()
            case "pause":
                member.resume()
            case _:
                self.network.heal(member.name)

    def _complain(self) -> None:
        for member in self.cluster.brokers.values():
            if "Traceback" in member.log:
                raise StormFailure(f"{member.name}: {member.log[member.log.index('Traceback') :][:4000]}")
        if problems := [problem for client in self.clients for problem in client.problems]:
            raise StormFailure(problems[0])

    def _show(self, left_s: float) -> None:
        count = sum(len(client.recorder.events) for client in self.clients)
        faults = ", ".join(f"{count} {name}" for name, count in sorted(self.faults.items()))
        print(f"{left_s:6.0f} s left, {count:,} events; {faults}", flush=True)

    # Judgement.

    def _finish(self) -> None:
        for client in self.clients:
            client.stop()
        self._wait_until_healed()
        drain = Reader("drain", self.cluster.bootstrap_servers, self.partitions)
        drain.drain()
        self.clients.append(drain)
        self._complain()
        events = [event for client in self.clients for event in client.recorder.events]
        self.events = sorted(events, key=lambda event: float(str(event["time_ms"])))
        write_history(self.events, self.folder / "history.jsonl")

    def _wait_until_healed(self) -> None:
        deadline_s = time.monotonic() + HEALING_TIMEOUT_S
        while True:
            partitions = self.admin.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions.values()
            if all(len(partition.isrs) == 3 for partition in partitions):
                return
            if time.monotonic() > deadline_s:
                raise StormFailure(f"not all replicas are in sync after {HEALING_TIMEOUT_S:g} s")
            time.sleep(0.5)

    def unavailable_ms(self) -> list[float]:
        """After each kill of a leader, the time until its partition took a record that was sent after it."""
        invoked: dict[tuple[object, object], dict[str, object]] = {}
        taken: dict[str, list[tuple[float, float]]] = {}
        for event in self.events:
            key = event["process"], event["operation"]
            if event["kind"] == "send" and event["type"] == "invoke":
                invoked[key] = event
            elif event["kind"] == "send" and event["type"] == OK:
                begun = invoked[key]
                times = float(str(begun["time_ms"])), float(str(event["time_ms"]))
                taken.setdefault(str(begun["partition"]), []).append(times)
        waits = []
        for killed_ms, partition in self.dead_leaders:
            after = [ended for begun, ended in taken.get(partition, []) if begun >= killed_ms]
            waits += [min(after) - killed_ms] if after else []
        return waits


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--network", action="store_true", help="Cut links, too: needs root and network namespaces.")
    parser.add_argument("--folder", type=Path, help="Keep everything here.")
    options = parser.parse_args()
    if options.network and not can_make_namespaces():
        parser.error("network namespaces cannot be made here")
    with tempfile.TemporaryDirectory(prefix="tailrace-storm-") as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        storm = Storm(folder, Namespaces() if options.network else Network(), options.seed)
        storm.run(options.minutes * 60)
    return report(storm)


def report(storm: Storm) -> int:
    history = History(storm.events)
    findings = check(history)
    for finding in findings:
        print(finding)
    waits = sorted(storm.unavailable_ms())
    if waits:
        print(
            f"{len(waits)} partitions lost their leader by kill -9 and took records again after a median of "
            f"{waits[len(waits) // 2]:.0f} ms, at most {waits[-1]:.0f} ms; session time-out {SESSION_TIMEOUT_MS} ms"
        )
    print(f"{len(findings)} anomalies in: {summary(history)}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())

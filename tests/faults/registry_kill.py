"""kill -9 on the leader of three schema registries, again and again, while clients register schemas.

Ten clients register schemas at all registries, some of them the same ones at the same time, and try again after an
error. The registry that leads is killed, or stopped for longer than its session so that it comes back as one that still
takes itself for the leader. At the end every id that a client was given must mean the schema that it was given for, at
every registry and in a new one that reads the topic from its beginning; and no schema may have two ids.

    python -m tests.faults.registry_kill --kills 200 --seed 1
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from random import Random

import httpx
from tests.faults.broker_process import BrokerProcess
from tests.faults.storm_network import Network
from tests.faults.storm_process import Member

REGISTRY_COUNT = 3
CLIENT_COUNT = 10
SESSION_TIMEOUT_MS = 600
BROKER_OPTIONS = {
    "group.min.session.timeout.ms": "100",
    "group.initial.rebalance.delay.ms": "0",
    "log.segment.bytes": "1048576",
}
REQUEST_TIMEOUT_S = 30.0
LEADER_TIMEOUT_S = 120.0
SHARED_SCHEMA_SHARE = 0.3
PAUSE_SHARE = 0.2
REST_S = 0.05
PAGE_SIZE = 1_000


class Registries:
    """Three registry processes, and a question for the one that leads."""

    def __init__(self, folder: Path, bootstrap: str, session_timeout_ms: int) -> None:
        network = Network()
        self._folder, self._bootstrap, self._network = folder, bootstrap, network
        self._session_timeout_ms = session_timeout_ms
        self.members: dict[str, Member] = {}
        for number in range(REGISTRY_COUNT):
            self.add(f"registry-{number}")

    def add(self, name: str) -> str:
        """Prepare one more registry, and return its URL."""
        port = self._network.port()
        arguments = ["registry", "start", "--bootstrap-server", self._bootstrap, "--listen", f"127.0.0.1:{port}"]
        arguments += ["--session-timeout", str(self._session_timeout_ms)]
        self.members[f"http://127.0.0.1:{port}"] = Member(name, arguments, self._folder, self._network)
        return f"http://127.0.0.1:{port}"

    def start(self) -> None:
        """Start all at once."""
        for member in self.members.values():
            member.launch()
        for member in self.members.values():
            member.wait_until_ready()

    def find_leader(self) -> str:
        """Return the URL of a registry that takes itself for the leader."""
        deadline = time.monotonic() + LEADER_TIMEOUT_S
        while time.monotonic() < deadline:
            for url, member in self.members.items():
                if member.is_running and not member.is_paused and _is_leader(url):
                    return url
            time.sleep(0.02)
        raise AssertionError(f"no registry leads after {LEADER_TIMEOUT_S:g} s")


def _is_leader(url: str) -> bool:
    try:
        return bool(httpx.get(f"{url}/health", timeout=10.0).json()["is_leader"])
    except (httpx.HTTPError, KeyError, ValueError):
        return False


class Client(threading.Thread):
    """Registers schemas until stopped, and notes the id of each."""

    def __init__(self, number: int, seed: int, urls: list[str]) -> None:
        super().__init__(daemon=True)
        self._number = number
        self._random = Random(seed * 1000 + number)
        self._urls = urls
        self._is_stopping = threading.Event()
        self.given: list[tuple[str, str, int]] = []  # subject, schema, id
        self.error_count = 0

    def stop(self) -> None:
        """Finish the schema at hand and end."""
        self._is_stopping.set()
        self.join(120)

    def run(self) -> None:
        """Register one schema after the other."""
        with httpx.Client(timeout=REQUEST_TIMEOUT_S) as client:
            count = 0
            while not self._is_stopping.is_set():
                subject, schema = self._next(count)
                self._register(client, subject, schema)
                count += 1
                self._is_stopping.wait(REST_S)

    def _next(self, count: int) -> tuple[str, str]:
        """Return a schema of this client's own, or one that all clients register at about the same time."""
        if self._random.random() < SHARED_SCHEMA_SHARE:
            name = f"Shared{int(time.monotonic() * 4)}"
        else:
            name = f"Own{self._number}x{count}"
        return f"{name}-{self._random.randrange(3)}", json.dumps({"type": "record", "name": name, "fields": []})

    def _register(self, client: httpx.Client, subject: str, schema: str) -> None:
        while True:
            url = self._random.choice(self._urls)
            try:
                answer = client.post(f"{url}/subjects/{subject}/versions", json={"schema": schema})
            except httpx.HTTPError:
                self.error_count += 1
                time.sleep(0.02)
                continue
            if answer.status_code == 200:
                self.given.append((subject, schema, answer.json()["id"]))
                return
            assert answer.status_code >= 500, answer.text
            self.error_count += 1
            time.sleep(0.02)


def run(kills: int, seed: int, folder: Path, session_timeout_ms: int = SESSION_TIMEOUT_MS) -> str:
    """Run it all, and return a line about it. Raises AssertionError if a promise was broken."""
    random = Random(seed)
    broker = BrokerProcess(folder, BROKER_OPTIONS)
    broker.start()
    registries = Registries(folder, broker.address, session_timeout_ms)
    clients: list[Client] = []
    pause_count = 0
    try:
        registries.start()
        clients = [Client(number, seed, list(registries.members)) for number in range(CLIENT_COUNT)]
        for client in clients:
            client.start()
        for number in range(kills):
            time.sleep(random.uniform(0.05, 0.6))
            leader = registries.members[registries.find_leader()]
            if random.random() < PAUSE_SHARE:
                pause_count += 1
                leader.pause()
                time.sleep(session_timeout_ms / 1000 * 2)
                leader.resume()
            else:
                leader.kill()
                leader.start()
            if sys.stderr.isatty():
                print(f"\r{number + 1}/{kills}", end="", file=sys.stderr)
        for client in clients:
            client.stop()
        registries.find_leader()
        new = registries.add("registry-new")
        registries.members[new].start()
        registered = check(clients, list(registries.members))
        errors = sum(client.error_count for client in clients)
    finally:
        for client in clients:
            client.stop()
        for member in registries.members.values():
            if member.is_running:
                member.kill()
        broker.stop()
    return (
        f"{kills - pause_count} kills and {pause_count} pauses of the leader: {registered}, "
        f"{errors} requests were tried again; every id means its schema"
    )


def check(clients: list[Client], urls: list[str]) -> str:
    """Compare what the clients were told with what every registry says."""
    ids: defaultdict[str, set[int]] = defaultdict(set)
    for client in clients:
        for _, schema, schema_id in client.given:
            ids[schema].add(schema_id)
    twice = {schema: found for schema, found in ids.items() if len(found) > 1}
    assert not twice, f"schemas with several ids: {twice}"
    by_id: dict[int, str] = {}
    for schema, (schema_id,) in ((schema, tuple(found)) for schema, found in ids.items()):
        assert by_id.setdefault(schema_id, schema) == schema, f"id {schema_id} means {by_id[schema_id]} and {schema}"
    registered = {(subject, schema_id) for client in clients for subject, _, schema_id in client.given}
    for url in urls:
        _await_registry(url, by_id, registered)
    return f"{len(by_id)} schemas in {sum(len(client.given) for client in clients)} registrations"


def _await_registry(url: str, by_id: dict[int, str], registered: set[tuple[str, int]]) -> None:
    """Wait until a registry has what it must have: one that does not lead reads it a little later."""
    deadline = time.monotonic() + LEADER_TIMEOUT_S
    while True:
        try:
            _check_registry(url, by_id, registered)
            return
        except AssertionError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.2)


def _check_registry(url: str, by_id: dict[int, str], registered: set[tuple[str, int]]) -> None:
    found: dict[int, str] = {}
    places: set[tuple[str, int]] = set()
    with httpx.Client(base_url=url, timeout=REQUEST_TIMEOUT_S) as client:
        while page := client.get("/schemas", params={"offset": len(places), "limit": PAGE_SIZE}).json():
            for entry in page:
                places.add((entry["subject"], entry["id"]))
                assert found.setdefault(entry["id"], entry["schema"]) == entry["schema"], f"{url}: {entry} and {found}"
    for schema_id, schema in by_id.items():
        text = found.get(schema_id)
        assert text is not None, f"{url}: id {schema_id} was given for {schema} and is not there"
        assert json.loads(text) == json.loads(schema), f"{url}: id {schema_id} is {text} and was given for {schema}"
    assert registered <= places, f"{url} has lost {sorted(registered - places)}"


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    started_at_s = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        print(run(options.kills, options.seed, Path(folder)))
    print(f"{time.monotonic() - started_at_s:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())

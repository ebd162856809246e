"""Stores on a real ZooKeeper whose servers are killed and stopped and whose connections break, for as long as wanted.

Several stores write the same few nodes with compare-and-set, each through a connection of its
own that is cut, or made deaf in one direction. Meanwhile servers are killed, started again and
stopped for a moment. What must hold:

- a watcher sees each node's states in order, and never another value for one version;
- two commits of one version never both succeed, and one that succeeds has been told when it returns;
- a commit in doubt that is not there at the next connection never comes later;
- nobody sees an ephemeral node go while the lease of its maker still runs;
- in the end all stores hold what the servers hold.

    python -m tests.faults.zookeeper_soak --seconds 60 --servers 3 --seed 1
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random

from tests.port import free_port
from tests.unit.coordination.tcp_proxy import TcpProxy
from tests.unit.coordination.zookeeper_process import QUICK, ZooKeeperProcess

from tailrace.base.clock import SystemClock
from tailrace.coordination.store import (
    BadVersionError,
    Change,
    Check,
    Create,
    Delete,
    Node,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Operation,
    OutcomeUnknown,
    Put,
    SessionState,
)
from tailrace.coordination.zookeeper.link import ZooKeeperServers
from tailrace.coordination.zookeeper.zookeeper import ZooKeeperStore

STORE_COUNT = 3
WRITERS_PER_STORE = 4
PATHS = [f"/t{topic}/p/{partition}/s" for topic in range(3) for partition in range(3)]
EPHEMERAL = "/e/"
SESSION_TIMEOUT_MS = 1500
SETTLE_S = 60
ROOT = "/soak"

Key = tuple[str, int, int]
"""A state of a node: its path, the transaction that created it, its version."""


class Ledger:
    """What is known of all commits, and every promise that was broken."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.broken: list[object] = []
        self.written: dict[Key, bytes] = {}
        self.denied: dict[Key, bytes] = {}

    def see(self, key: Key, value: bytes) -> None:
        if self.written.get(key, value) != value:
            self.broken.append(("another value", key, value))
        if self.denied.get(key) == value:
            self.broken.append(("came late", key, value))

    def write(self, key: Key, value: bytes) -> None:
        if self.written.setdefault(key, value) != value:
            self.broken.append(("written twice", key, value))


class Member:
    """A store behind a connection that breaks, and what its watcher is told."""

    def __init__(self, number: int, store: ZooKeeperStore, ledger: Ledger) -> None:
        self.number = number
        self.store = store
        self.sessions = 0
        self._ledger = ledger
        self._last: dict[str, tuple[int, int]] = {}
        self.others: Sequence[Member] = ()
        store.watch(self._on_changes)
        store.on_session(self._on_session)

    def _on_session(self, state: SessionState) -> None:
        self._ledger.counts[state.value] += 1
        self.sessions += state is SessionState.EXPIRED

    def _on_changes(self, changes: Sequence[Change]) -> None:
        for path, node in changes:
            if path.startswith(EPHEMERAL):
                self._check_lease(path, node)
            if node is None:
                continue
            state = (node.created, node.version)
            if self._last.get(path, (-1, -1)) >= state:
                self._ledger.broken.append(("went back", self.number, path, self._last[path], state))
            self._last[path] = state
            self._ledger.see((path, *state), node.value)

    def _check_lease(self, path: str, node: Node | None) -> None:
        number, session = map(int, path.removeprefix(EPHEMERAL).split("-"))
        owner = self.others[number]
        is_ignorant = owner.sessions == session
        if node is None and is_ignorant and owner.store.lease_until_ms() > SystemClock().monotonic_ms():
            self._ledger.broken.append(("gone within its lease", path))

    async def register(self) -> None:
        """Keep an ephemeral node in every session."""
        while True:
            try:
                await self.store.wait_connected()
                await self.store.commit([Create(f"{EPHEMERAL}{self.number}-{self.sessions}", b"", is_ephemeral=True)])
            except (OutcomeUnknown, NodeExistsError):
                self._ledger.counts["registered again"] += 1
            await asyncio.sleep(0.1)

    async def write(self, dice: Random, writer: int, stopping: asyncio.Event) -> None:
        turn = 0
        while not stopping.is_set():
            turn += 1
            path = dice.choice(PATHS)
            await self._write_once(path, b"%d-%d-%d" % (self.number, writer, turn), dice)
            await asyncio.sleep(dice.random() * 0.01)

    async def _write_once(self, path: str, value: bytes, dice: Random) -> None:
        node = await self.store.get(path)
        operations: list[Operation] = [Create(path, value)]
        if node is not None:
            operations = [Put(path, value, node.version) if dice.random() < 0.9 else Delete(path, node.version)]
        other = dice.choice(PATHS)
        if other != path and (seen := await self.store.get(other)):
            operations.append(Check(other, seen.version))
        key = (path, node.created, node.version + 1) if node and isinstance(operations[0], Put) else None
        try:
            await self.store.commit(operations)
        except OutcomeUnknown:
            self._ledger.counts["unknown"] += 1
            await self.store.wait_connected()
            if key is not None and await self.store.get(path) == node:
                self._ledger.denied[key] = value
        except (BadVersionError, NoNodeError, NodeExistsError, NotEmptyError):
            self._ledger.counts["refused"] += 1
        else:
            self._ledger.counts["done"] += 1
            if key is not None:
                self._ledger.write(key, value)
                if await self.store.get(path) is not None and self._last[path] < key[1:]:
                    self._ledger.broken.append(("not told", key))


async def break_connection(proxy: TcpProxy, dice: Random, stopping: asyncio.Event) -> None:
    while not stopping.is_set():
        await asyncio.sleep(dice.random() * 1.5)
        fault = dice.choice(["cut", "cut", "deaf", "dumb", "long"])
        proxy.passes_answers = fault != "deaf"
        proxy.passes_requests = fault != "dumb"
        if fault in ("deaf", "dumb"):
            await asyncio.sleep(dice.random() * 0.5)
        proxy.cut()
        await asyncio.sleep(SESSION_TIMEOUT_MS / 1000 * 1.6 if fault == "long" else dice.random() * 0.3)
        proxy.mend()


async def break_server(server: ZooKeeperProcess, dice: Random) -> None:
    if dice.random() < 0.5:
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.launch)
        await asyncio.to_thread(server.wait_until_ready)
    else:
        server.pause()
        await asyncio.sleep(dice.random() * 2)
        server.resume()


def make_servers(folder: Path, count: int) -> list[ZooKeeperProcess]:
    if count == 1:
        return [ZooKeeperProcess(folder / "1")]
    members = ",".join(f"{number}=127.0.0.1:{free_port()}:{free_port()}" for number in range(1, count + 1))
    return [
        ZooKeeperProcess(folder / str(number), QUICK, ("--servers", members, "--id", str(number)))
        for number in range(1, count + 1)
    ]


async def settle(store: ZooKeeperStore) -> dict[str, Node]:
    """What a store holds when it has heard of everything."""
    async with asyncio.timeout(SETTLE_S):
        while True:
            await store.wait_connected()
            try:
                await store.commit([])
            except OutcomeUnknown:
                continue
            nodes = await store.tree("/")
            return {path: node for path, node in nodes.items() if not path.startswith(EPHEMERAL)}


async def soak(servers: Sequence[ZooKeeperProcess], seconds: float, seed: int) -> Ledger:
    """Write while everything breaks; returns what was found."""
    dice, ledger, stopping = Random(seed), Ledger(), asyncio.Event()
    async with AsyncExitStack() as stack:
        proxies = [
            await stack.enter_async_context(TcpProxy(server.address).listening())
            for _ in range(STORE_COUNT)
            for server in servers
        ]
        stores = []
        for number in range(STORE_COUNT):
            own = proxies[number * len(servers) : (number + 1) * len(servers)]
            hosts = ",".join(proxy.address for proxy in own)
            stores.append(ZooKeeperStore(ZooKeeperServers(hosts, SESSION_TIMEOUT_MS), root=ROOT))
            await stores[-1].open(20_000)
            stack.push_async_callback(stores[-1].close)
        members = [Member(number, store, ledger) for number, store in enumerate(stores)]
        for member in members:
            member.others = members
        spawn = asyncio.get_running_loop().create_task
        registering = [spawn(member.register()) for member in members]
        working = [spawn(each.write(dice, writer, stopping)) for each in members for writer in range(WRITERS_PER_STORE)]
        working += [spawn(break_connection(proxy, dice, stopping)) for proxy in proxies]
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            await asyncio.sleep(dice.random() * 5)
            await break_server(dice.choice(servers), dice)
        stopping.set()
        await asyncio.wait_for(asyncio.gather(*working), SETTLE_S)
        for task in registering:
            task.cancel()
        fresh = ZooKeeperStore(ZooKeeperServers(",".join(server.address for server in servers)), root=ROOT)
        await fresh.open(20_000)
        stack.push_async_callback(fresh.close)
        truth = await settle(fresh)
        ledger.broken += [("differs", member.number) for member in members if await settle(member.store) != truth]
    return ledger


def main() -> int:
    parser = argparse.ArgumentParser(description="Break a ZooKeeper and the connections to it, and look what holds.")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--servers", type=int, default=3, choices=(1, 3))
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        servers = make_servers(Path(folder), arguments.servers)
        try:
            for server in servers:
                server.launch()
            for server in servers:
                server.wait_until_ready()
            ledger = asyncio.run(soak(servers, arguments.seconds, arguments.seed))
        finally:
            for server in servers:
                server.stop()
    print(f"seed {arguments.seed}: {dict(ledger.counts)}")
    for each in ledger.broken:
        print(f"broken: {each}")
    return 1 if ledger.broken else 0


if __name__ == "__main__":
    sys.exit(main())

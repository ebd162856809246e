"""What groups cost: many classic groups of a few members on one broker.

    python -m bench.groups [--groups 1000] [--members 5] [--seconds 30]

Every member has a connection of its own and joins in two steps. Once all groups are stable each member sends a
heartbeat every three seconds, as clients do by default, and nothing else happens; that is when CPU, memory and the
time of a heartbeat are measured. Then the broker is killed and started again. Writes
`docs/benchmarks/groups.json` and `.md`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, TypeVar

from bench import machine
from bench.broker import cpu_seconds
from bench.cache import CHECKOUT
from bench.partitions import Broker
from runnel.protocol.errors import ErrorCode
from runnel.protocol.frame import decode_response, encode_request
from runnel.protocol.message import Message
from runnel.protocol.messages.coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from runnel.protocol.messages.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

HEARTBEAT_INTERVAL_S = 3.0
SUBSCRIPTION = bytes.fromhex("0003 00000001 000a 706167655f7669657773 ffffffff 00000000 ffffffff ffff")
R = TypeVar("R", bound=Message)


class Member:
    """A member of a group, on a connection of its own."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.member_id = ""
        self.generation = -1
        self.heartbeat_s: list[float] = []
        self.error_count = 0

    async def connect(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._reader, self._writer = await asyncio.open_connection(host, int(port))

    async def ask(self, request: Message, kind: type[R]) -> R:
        """The reply, in the newest version."""
        version = request.SCHEMA.versions[-1]
        self._writer.writelines(encode_request(1, "bench", request, version))
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        return decode_response(kind, await self._reader.readexactly(size), version)[1]

    async def join(self) -> None:
        """Join until there is an assignment for this generation."""
        while True:
            joined = await self.ask(self._join_request(), JoinGroupResponse)
            if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = joined.member_id
                continue
            if joined.error_code != ErrorCode.NONE:
                raise RuntimeError(f"a join was refused with {ErrorCode(joined.error_code).name}")
            self.generation = joined.generation_id
            assignments = [
                SyncGroupRequestAssignment(member_id=member.member_id, assignment=bytes(40))
                for member in joined.members
            ]
            request = SyncGroupRequest(
                group_id=self.group_id,
                generation_id=self.generation,
                member_id=self.member_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=assignments,
            )
            if (await self.ask(request, SyncGroupResponse)).error_code == ErrorCode.NONE:
                return

    def _join_request(self) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=45_000,
            rebalance_timeout_ms=60_000,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
        )

    async def beat(self, until: float) -> None:
        """Send heartbeats from a random moment of the first interval on."""
        await asyncio.sleep(random.random() * HEARTBEAT_INTERVAL_S)
        request = HeartbeatRequest(group_id=self.group_id, generation_id=self.generation, member_id=self.member_id)
        while time.perf_counter() < until:
            began = time.perf_counter()
            reply = await self.ask(request, HeartbeatResponse)
            self.heartbeat_s.append(time.perf_counter() - began)
            self.error_count += reply.error_code != ErrorCode.NONE
            await asyncio.sleep(max(0.0, HEARTBEAT_INTERVAL_S - (time.perf_counter() - began)))

    def close(self) -> None:
        self._writer.close()


async def _find_coordinator(address: str) -> None:
    member = Member("")
    await member.connect(address)
    found = await member.ask(FindCoordinatorRequest(coordinator_keys=["g"]), FindCoordinatorResponse)
    if found.coordinators[0].error_code != ErrorCode.NONE:
        raise RuntimeError("there is no coordinator")
    member.close()


async def _work(broker: Broker, group_count: int, member_count: int, seconds: float) -> dict[str, Any]:
    await _find_coordinator(broker.address)
    bare_mb = broker.rss_mb
    members = [Member(f"group-{number}") for number in range(group_count) for _ in range(member_count)]
    for start in range(0, len(members), 200):  # as many as the kernel takes at once
        await asyncio.gather(*(member.connect(broker.address) for member in members[start : start + 200]))
    connected_mb = broker.rss_mb
    began, cpu_s = time.perf_counter(), cpu_seconds(broker.pid)
    await asyncio.gather(*(member.join() for member in members))
    found: dict[str, Any] = {
        "join_s": round(time.perf_counter() - began, 1),
        "join_cpu_s": round(cpu_seconds(broker.pid) - cpu_s, 1),
    }
    began, cpu_s = time.perf_counter(), cpu_seconds(broker.pid)
    await asyncio.gather(*(member.beat(began + seconds) for member in members))
    wall_s, cpu_s = time.perf_counter() - began, cpu_seconds(broker.pid) - cpu_s
    times_ms = sorted(value * 1e3 for member in members for value in member.heartbeat_s)
    found |= {
        "heartbeats": len(times_ms),
        "heartbeats_per_s": round(len(times_ms) / wall_s),
        "cpu_share": round(cpu_s / wall_s, 3),
        "cpu_us_per_heartbeat": round(cpu_s / len(times_ms) * 1e6),
        "median_ms": round(statistics.median(times_ms), 2),
        "p99_ms": round(times_ms[len(times_ms) * 99 // 100], 2),
        "max_ms": round(times_ms[-1], 1),
        "errors": sum(member.error_count for member in members),
        "rss_mb": round(broker.rss_mb, 1),
        "kib_per_connection": round((connected_mb - bare_mb) * 1e6 / 1024 / len(members), 1),
        "kib_per_member": round((broker.rss_mb - connected_mb) * 1e6 / 1024 / len(members), 1),
    }
    for member in members:
        member.close()
    return found


async def _wait_until_loaded(address: str, group_id: str) -> float:
    """How long it takes until a coordinator knows its groups again."""
    member = Member(group_id)
    began = time.perf_counter()
    await member.connect(address)
    while True:
        request = HeartbeatRequest(group_id=group_id, generation_id=1, member_id="nobody")
        if (await member.ask(request, HeartbeatResponse)).error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            member.close()
            return time.perf_counter() - began


def measure(group_count: int, member_count: int, seconds: float, folder: Path) -> dict[str, Any]:
    """A broker through joins, heartbeats and a kill."""
    broker = Broker(folder)
    found = asyncio.run(_work(broker, group_count, member_count, seconds))
    broker.end(signal.SIGKILL)
    broker = Broker(folder)
    found["ready_after_kill_s"] = round(broker.ready_after_s, 2)
    found["loaded_after_ready_s"] = round(asyncio.run(_wait_until_loaded(broker.address, "group-0")), 3)
    broker.end(signal.SIGTERM)
    return found


def _page(result: dict[str, Any]) -> str:
    total = result["groups"] * result["members"]
    rows = {
        f"until all {total:,} members have their assignment": f"{result['join_s']} s, of which six are the wait of "
        f"new groups for more members; {result['join_cpu_s']} s of CPU",
        "heartbeats": f"{result['heartbeats_per_s']:,} a second, {result['errors']} errors",
        "CPU": f"{result['cpu_share'] * 100:.0f} % of one core, {result['cpu_us_per_heartbeat']} µs a heartbeat",
        "a heartbeat takes": f"{result['median_ms']} ms in the median, {result['p99_ms']} ms in 99 of 100 cases, "
        f"{result['max_ms']} ms at most",
        "memory of the broker": f"{result['rss_mb']:.0f} MB: {result['kib_per_connection']} KiB a connection, "
        f"{result['kib_per_member']} KiB a member",
        "ready again after kill -9": f"{result['ready_after_kill_s']} s, "
        f"and groups {result['loaded_after_ready_s']} s later",
    }
    table = "".join(f"| {name} | {value} |\n" for name, value in rows.items())
    return f"""# Groups

Written by `{result["command"]}`.

{result["groups"]:,} classic groups of {result["members"]} members on one broker with default settings. Every member
has a connection of its own and sends a heartbeat every three seconds for {result["seconds"]:g} seconds. All members are
in one process on the same machine, so a heartbeat's time includes theirs.

| | |
| --- | --- |
{table}
## The machine

{machine.table(result["conditions"])}"""


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.groups", description=__doc__.splitlines()[0])
    parser.add_argument("--groups", type=int, default=1000, help="how many (default 1000)")
    parser.add_argument("--members", type=int, default=5, help="members of each (default 5)")
    parser.add_argument("--seconds", type=float, default=30.0, help="how long heartbeats are sent (default 30)")
    parser.add_argument("--output", type=Path, default=CHECKOUT / "docs" / "benchmarks", help="where the results go")
    arguments = parser.parse_args()
    conditions = machine.conditions("runnel")
    options = {"groups": arguments.groups, "members": arguments.members, "seconds": arguments.seconds}
    folder = Path(tempfile.mkdtemp(prefix="runnel-groups-"))
    try:
        found = measure(arguments.groups, arguments.members, arguments.seconds, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    command = machine.command_line("bench.groups", **options)
    result = {"command": command, "conditions": conditions, **options, **found}
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "groups.json").write_text(json.dumps(result, indent=2) + "\n")
    (arguments.output / "groups.md").write_text(_page(result))
    print(json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())

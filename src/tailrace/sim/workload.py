"""The interface of workloads, of which a simulation runs several at a time."""

import asyncio
import itertools
from typing import Protocol

from tailrace.client.error import ClientError
from tailrace.protocol.errors import ApiError
from tailrace.sim.world import Program, World

FAILURES = (ClientError, ApiError)
TRY_AGAIN_S = 0.5


class Workload(Protocol):
    """Some clients with one purpose, and a final read that shows the result."""

    async def prepare(self) -> None:
        """Create what the clients need, before any fault."""
        ...

    def programs(self) -> dict[str, Program]:
        """Return the clients by name; each runs on its own host until `world.is_ending`."""
        ...

    async def drain(self) -> None:
        """Read everything after healing, when all clients have ended."""
        ...


def partition_name(target: tuple[str, int]) -> str:
    return f"{target[0]}-{target[1]}"


async def keep_trying(world: World, name: str, life: Program) -> None:
    """Run a client until it ends normally, restarting it under another name after a failure."""
    for attempt in itertools.count(1):
        try:
            await life(name if attempt == 1 else f"{name}.{attempt}")
            return
        except FAILURES as error:
            world.note(f"{name} gave up: {error}")
            await asyncio.sleep(TRY_AGAIN_S)

"""What clients do in a simulated world; a simulation runs any number of these next to each other."""

import asyncio
import itertools
from typing import Protocol

from runnel.client.error import ClientError
from runnel.protocol.errors import ApiError
from runnel.sim.world import Program, World

FAILURES = (ClientError, ApiError)
TRY_AGAIN_S = 0.5


class Workload(Protocol):
    """Some programs with one purpose, and what is read at the end to judge what became of it."""

    async def prepare(self) -> None:
        """Make what the programs need, before anything goes wrong."""
        ...

    def programs(self) -> dict[str, Program]:
        """The clients by their names; each runs on a host of its own until `world.is_ending`."""
        ...

    async def drain(self) -> None:
        """Read everything there is, when all is healed and all programs have ended."""
        ...


def partition_name(target: tuple[str, int]) -> str:
    return f"{target[0]}-{target[1]}"


async def keep_trying(world: World, name: str, life: Program) -> None:
    """Run a client, again under another name when it gave up, until it has ended in peace."""
    for attempt in itertools.count(1):
        try:
            await life(name if attempt == 1 else f"{name}.{attempt}")
            return
        except FAILURES as error:
            world.note(f"{name} gave up: {error}")
            await asyncio.sleep(TRY_AGAIN_S)

"""A real broker on a simulated host: killed, stopped, paused and started again, with a disk that outlives it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from random import Random

from runnel.config.broker import BrokerConfig
from runnel.coordination.store import MetadataStore
from runnel.runtime.error import DuplicateBroker, NotAdmitted
from runnel.runtime.partition import Partition
from runnel.server.server import Server
from runnel.sim.clock import SimClock
from runnel.sim.loop import VirtualLoop
from runnel.sim.process import Life, Process
from runnel.storage.memory_fs import Crash, MemoryFileSystem

PORT = 9092
FOLDER = "/data"


class SimBroker:
    """One broker through all its lives."""

    def __init__(
        self,
        loop: VirtualLoop,
        broker_id: int,
        options: Mapping[str, str],
        open_store: Callable[["SimBroker"], Awaitable[MetadataStore]],
        clock: SimClock,
        random: Random,
    ) -> None:
        self.broker_id = broker_id
        self.host = f"broker-{broker_id}"
        self.clock = clock
        self.fs = MemoryFileSystem(random)
        self.process: Process | None = None
        self.server: Server | None = None
        self.is_wounded = False  # it has lost power, and was not in sync since then
        self._loop = loop
        self._options = dict(options)
        self._open_store = open_store
        self._stopping = asyncio.Event()
        self._life_count = 0

    @property
    def address(self) -> str:
        return f"{self.host}:{PORT}"

    @property
    def is_up(self) -> bool:
        return self.process is not None and self.process.is_alive

    @property
    def is_admitted(self) -> bool:
        """Whether this life of the broker is one of the cluster, so that others count on what it has."""
        membership = getattr(self.server and self.server.broker, "membership", None)
        return membership is not None and membership.registration.is_admitted

    @property
    def is_in_sync(self) -> bool:
        """Whether it has all that was ever acknowledged to somebody, as far as it knows."""
        return self.is_admitted and all(self.broker_id in partition.isr for partition in self.replicas())

    def replicas(self) -> list[Partition]:
        """The partitions that the broker has open."""
        replicas = getattr(self.server and self.server.broker, "replicas", None)
        return [] if replicas is None else replicas.all()

    def start(self) -> None:
        """Begin a new life."""
        self._life_count += 1
        self._loop.network.power_on(self.host)
        self._stopping = asyncio.Event()
        self.process = Process(f"{self.host}.{self._life_count}", self.host)
        self._loop.watch(self.process.spawn(self._run(self.process, self._stopping)))

    async def _run(self, process: Process, stopping: asyncio.Event) -> None:
        listener = f"PLAINTEXT://{self.address}"
        config = BrokerConfig(
            {"node.id": str(self.broker_id), "listeners": listener, "log.dirs": FOLDER, **self._options}
        )
        server = Server(config, fs=self.fs, clock=self.clock, store=await self._open_store(self))
        self.server = server
        try:
            await server.start()
        except (NotAdmitted, DuplicateBroker) as error:
            self._loop.note(f"{self.host} gives up: {error}")
        else:
            await stopping.wait()
            await server.stop()
        self._end(process, is_power_loss=False)

    def stop(self) -> None:
        """Have it stop cleanly."""
        self._stopping.set()

    def kill(self, *, is_power_loss: bool) -> None:
        """End it at once: its files stay as they are, or as much of them as was synced and some of the rest."""
        if self.process is not None and self.process.is_alive:
            self._end(self.process, is_power_loss=is_power_loss)

    def kill_in_call(self, call_count: int, decide: Callable[[], bool | None]) -> None:
        """End it in the middle of a call to its file system, some calls from now.

        `decide` says then whether it loses power; or None, and it lives on until a later call.
        """
        process, last = self.process, self.fs.call_count + call_count

        def hook(count: int, operation: str, path: str) -> Crash | None:
            if count < last or process is None or (is_power_loss := decide()) is None:
                return None
            self._loop.note(f"{self.host} dies in {operation}")
            process.life = Life.DEAD
            # The file system is dead, too, until the step that is under way has ended.
            self._loop.call_soon_world(lambda: self._end(process, is_power_loss=is_power_loss))
            return Crash(f"{operation} {path}")

        self.fs.hook = hook

    def _end(self, process: Process, *, is_power_loss: bool) -> None:
        process.life = Life.DEAD
        process.held.clear()
        if process is not self.process:
            return
        self.process = self.server = None
        if is_power_loss:
            self.is_wounded = True
            self._loop.network.power_off(self.host)
            self.fs.lose_power()
        else:
            self._loop.network.end(process)
            self.fs.kill()

    def pause(self) -> None:
        """Stop it in the middle of whatever it does, as SIGSTOP would."""
        if self.process is not None and self.process.life is Life.RUNNING:
            self.process.life = Life.PAUSED

    def resume(self) -> None:
        """Let it go on."""
        if self.process is not None and self.process.life is Life.PAUSED:
            self._loop.resume(self.process)

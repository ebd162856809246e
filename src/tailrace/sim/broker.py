"""A real broker on a simulated host, with a disk that survives its processes."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from random import Random
from uuid import UUID

from tailrace.config.broker import BrokerConfig
from tailrace.coordination.store import MetadataStore
from tailrace.runtime.broker import Broker
from tailrace.runtime.membership import NotAdmitted
from tailrace.runtime.opener import open_broker
from tailrace.runtime.partition import Partition
from tailrace.runtime.registration import DuplicateBroker
from tailrace.server.server import serve_broker
from tailrace.sim.clock import SimClock
from tailrace.sim.loop import VirtualLoop
from tailrace.sim.process import Life, Process
from tailrace.storage.error import StorageError
from tailrace.storage.log import Log
from tailrace.storage.memory_fs import Crash, Hook, MemoryFileSystem

PORT = 9092
FOLDER = "/data"

FailCall = Callable[[str, str], OSError | None]
"""Returns the error of a file system call, from the operation and the path."""


class SimBroker:
    """One broker, through all its processes."""

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
        self.broker: Broker | None = None  # None while the process is down or opening its logs
        self.is_wounded = False  # it lost what was not flushed and has not been in sync since
        self.left: dict[tuple[UUID, int], Log] = {}  # the logs of the previous process, by topic id and partition
        self._loop = loop
        self._options = dict(options)
        self._open_store = open_store
        self._stopping = asyncio.Event()
        self._life_count = 0
        self._fail_call: FailCall | None = None
        self._die_in_call: Hook | None = None

    @property
    def address(self) -> str:
        return f"{self.host}:{PORT}"

    @property
    def is_up(self) -> bool:
        return self.process is not None and self.process.is_alive

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    @property
    def is_admitted(self) -> bool:
        """Whether the controller has admitted this process, so that others rely on its replicas."""
        return self.broker is not None and self.broker.membership.registration.is_admitted

    @property
    def is_in_sync(self) -> bool:
        """Whether its replicas are in sync and so have everything acknowledged, according to its own metadata."""
        if not self.is_admitted or self.has_failed_disk:
            return False
        return all(self.broker_id in partition.isr for partition in self.replicas())

    @property
    def has_failed_disk(self) -> bool:
        """Whether its log folder is offline, so that it has to be restarted."""
        return self.broker is not None and any(log_dir.is_offline for log_dir in self.broker.log_dirs)

    def replicas(self) -> list[Partition]:
        """Return the partitions that the broker has open."""
        return [] if self.broker is None else self.broker.replicas.all()

    def start(self) -> None:
        """Start a new process."""
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
        store = await self._open_store(self)
        try:
            broker = await open_broker(config, fs=self.fs, clock=self.clock, store=store)
        except StorageError as error:
            if self.fs.capacity_bytes is None:
                raise
            self._loop.note(f"{self.host} does not start: {error}")
            self._end(process, is_power_loss=False)
            return
        self.broker = broker
        try:
            server = await serve_broker(broker)
        except (NotAdmitted, DuplicateBroker) as error:
            self._loop.note(f"{self.host} gives up: {error}")
        else:
            await stopping.wait()
            await server.stop()
        self._end(process, is_power_loss=False)

    def stop(self) -> None:
        """Stop it cleanly."""
        self._stopping.set()

    def kill(self, *, is_power_loss: bool) -> None:
        """End it at once. Its files stay as they are, or after a power loss, as synced, with a part of the rest."""
        if self.process is not None and self.process.is_alive:
            self._end(self.process, is_power_loss=is_power_loss)

    def kill_in_call(self, call_count: int, decide: Callable[[], bool | None]) -> None:
        """End it during a file system call, `call_count` calls from now.

        `decide` then returns whether it loses power, or None to let it live until a later call.
        """
        process, last = self.process, self.fs.call_count + call_count

        def hook(count: int, operation: str, path: str) -> Crash | None:
            if count < last or process is None or (is_power_loss := decide()) is None:
                return None
            self._loop.note(f"{self.host} dies in {operation}")
            process.life = Life.DEAD
            # The file system is dead as well, until the current step has ended.
            self._loop.call_soon_world(lambda: self._end(process, is_power_loss=is_power_loss))
            return Crash(f"{operation} {path}")

        self._die_in_call = hook
        self._hook_calls()

    def fail_calls(self, fail: FailCall | None) -> None:
        """Have file system calls fail from now on, until the process ends; None ends that."""
        self._fail_call = fail
        self._hook_calls()

    def heal_calls(self) -> None:
        """End all that was to happen in file system calls."""
        self._fail_call = self._die_in_call = self.fs.hook = None

    def _hook_calls(self) -> None:
        def hook(count: int, operation: str, path: str) -> OSError | Crash | None:
            found = self._die_in_call(count, operation, path) if self._die_in_call is not None else None
            return found or (self._fail_call(operation, path) if self._fail_call is not None else None)

        self.fs.hook = hook

    def _end(self, process: Process, *, is_power_loss: bool) -> None:
        process.life = Life.DEAD
        process.ready.clear()
        if process is not self.process:
            return
        if self.broker is not None:
            self.left = {(partition.topic_id, partition.index): partition.log for partition in self.replicas()}
        self.process = self.broker = None
        self.heal_calls()
        if is_power_loss:
            self.is_wounded = True
            self._loop.network.power_off(self.host)
            self.fs.lose_power()
        else:
            self._loop.network.end(process)
            self.fs.kill()

    def pause(self) -> None:
        """Pause it at any point, like SIGSTOP."""
        if self.process is not None and self.process.life is Life.RUNNING:
            self.process.life = Life.PAUSED

    def resume(self) -> None:
        """Resume it."""
        if self.process is not None and self.process.life is Life.PAUSED:
            self._loop.resume(self.process)


def replica_of(partition: Partition, replicas: Iterable[Partition]) -> Partition | None:
    """Return the replica of a partition among those of a broker, and not one of another topic of that name."""
    topic, index = partition.topic, partition.index
    for replica in replicas:
        # The ids come last: they take the longest to compare.
        if replica.index == index and replica.topic == topic and replica.topic_id == partition.topic_id:
            return replica
    return None


def find_replica(replicas: Iterable[Partition], topic: str, topic_id: UUID, index: int) -> Partition | None:
    """Return the replica that a request names: by the name of its topic or, in newer versions, by the id."""
    numbered = [replica for replica in replicas if replica.index == index]
    named = next((replica for replica in numbered if replica.topic == topic), None)
    return named or next((replica for replica in numbered if replica.topic_id == topic_id), None)

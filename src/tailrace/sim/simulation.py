"""The simulation of one seed: brokers and clients, faults, healing, a final read, and checks."""

import asyncio
import errno
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from random import Random

from tailrace.client.setting import SettingValue
from tailrace.coordination.memory import MemoryStore
from tailrace.sim.broker import SimBroker
from tailrace.sim.check import check, summary
from tailrace.sim.clock import SimClock
from tailrace.sim.determinism import deterministic
from tailrace.sim.fault import Faults
from tailrace.sim.group_watch import GroupWatch
from tailrace.sim.group_workload import GroupWorkload, plain_group, with_automatic_members
from tailrace.sim.history import History
from tailrace.sim.live_topic_workload import LiveTopicWorkload
from tailrace.sim.loop import START_S, Stuck
from tailrace.sim.record_workload import RecordWorkload, Shape
from tailrace.sim.workload import Workload
from tailrace.sim.world import ACKNOWLEDGED, World
from tailrace.storage.error import StorageError

Settings = dict[str, SettingValue]

_ACKNOWLEDGED_MIN = 10
_LOOK_S = 0.1
_ENDING_S = 300.0  # for clients to end after healing: more than any of their timeouts


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one seed."""

    seed: int
    problems: list[str]
    summary: str
    digest: str
    step_count: int
    seconds: float
    notes: list[str]
    events: list[dict[str, object]]
    counts: Mapping[str, int]

    def __str__(self) -> str:
        word = "FAILED" if self.problems else "ok"
        return (
            f"seed {self.seed} {self.digest[:8]}: {word}, {self.step_count} steps, {self.seconds:.0f} s: {self.summary}"
        )


class Complaints(logging.Handler):
    """Collects the bugs that programs log: errors with an unexpected exception."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.DEBUG)
        self.found: list[str] = []
        self._world = world
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread != self._thread:
            return
        self._world.note(f"{record.levelname} {record.getMessage()}")
        error = record.exc_info[1] if record.exc_info else None
        if record.levelno >= logging.ERROR and error is not None and not _is_of_a_fault(error):
            self.found.append(f"{record.getMessage()}: {error!r}")


def _is_of_a_fault(error: BaseException) -> bool:
    """Return whether the simulation caused an error, as a coordinator reports it whose disk has failed."""
    return isinstance(error, StorageError) and error.cause.errno in (errno.EIO, errno.ENOSPC)


class Simulation:
    """The simulation of one broker and its clients."""

    settle_s = 5.0
    unlimited_share = 0.5
    """The share of seeds in which the limits of live topics stay as they are."""
    limits_every_s: tuple[float, ...] = (1.0, 4.0)

    def __init__(self, seed: int, *, for_s: float | None = None) -> None:
        """`for_s` is the duration of the faults; by default the seed chooses it."""
        self.world = World(seed)
        self.random = Random(f"simulation {seed}")
        chosen_s = self.choose_length()
        self.for_s = chosen_s if for_s is None else for_s
        self.loses_power = self.random.random() < 0.5
        self.is_calm = self.random.random() < 0.1
        self.shape = self.choose_shape()
        self.problems: list[str] = []
        self.find_awaited: Callable[[], Iterable[str]] = lambda: ["the end of the faults"]
        """Returns what the simulation waits for at present."""

    # --- choices of the seed

    def choose_length(self) -> float:
        """Choose the duration of the faults in seconds."""
        return 60.0

    def choose_workloads(self) -> list[Workload]:
        """Choose the workloads that run during the faults."""
        groups = GroupWorkload(self.world, with_automatic_members(self.world.seed, plain_group(self.shape)))
        return [RecordWorkload(self.world, self.shape), groups, *self.limiters(self.shape)]

    def limiters(self, *shapes: Shape) -> list[Workload]:
        """Return the workload that changes the limits of these topics and deletes their records, in some seeds."""
        random = Random(f"limiter {self.world.seed}")
        if random.random() < self.unlimited_share:
            return []
        return [LiveTopicWorkload(self.world, shapes, every_s=random.choice(self.limits_every_s))]

    def choose_shape(self) -> Shape:
        """Choose the parameters of the clients."""
        random = self.random
        client: dict[str, SettingValue] = {
            "request.timeout.ms": random.choice([1_500, 5_000, 30_000]),
            "metadata.max.age.ms": 30_000,
        }
        reading: dict[str, SettingValue] = {
            **client,
            "auto.offset.reset": "earliest",
            "fetch.max.wait.ms": random.choice([50, 500]),
        }
        protocol = random.choice(["classic", "consumer"])
        session: dict[str, SettingValue] = (
            {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 1_000} if protocol == "classic" else {}
        )
        return Shape(
            topic="views",
            partition_count=random.randint(1, 3),
            replication_factor=1,
            topic_configs=(),
            producer={
                **client,
                "delivery.timeout.ms": random.choice([40_000, 120_000]),
                "linger.ms": random.choice([0, 5, 50]),
                "max.in.flight.requests.per.connection": random.choice([1, 5, 5, 5]),
                "batch.size": random.choice([1, 300, 16_384]),
                "retry.backoff.ms": random.choice([1, 100]),
                "compression.type": random.choice(["none", "none", "lz4"]),
            },
            consumer=reading,
            member={
                **reading,
                **(session if protocol == "classic" else {}),
                "group.protocol": protocol,
                "enable.auto.commit": False,
            },
            pause_s=random.choice([0.05, 0.2, 0.5]),
            pipeline_max=random.choice([1, 10, 50]),
            burst_max=random.choice([1, 10, 50]),
            value_bytes=random.choice([0, 100, 1_000]),
        )

    def broker_options(self) -> dict[str, str]:
        """Return the configs of every broker."""
        options = {
            "offsets.topic.num.partitions": "2",
            "offsets.topic.replication.factor": "1",
            "group.initial.rebalance.delay.ms": "0",
            "log.message.timestamp.after.max.ms": str(2**63 - 1),  # clocks may be an hour off
            "log.roll.ms": str(self.random.choice([3_000, 20_000, 600_000])),
            "log.retention.check.interval.ms": Random(f"retention {self.world.seed}").choice(
                ["200", "300000", "300000"]
            ),
        }
        if self.loses_power:
            options["log.flush.interval.messages"] = "1"
        return options

    # --- the run

    def make_brokers(self) -> None:
        """Create the brokers, without starting them."""
        store = MemoryStore()

        async def open_store(_broker: SimBroker) -> MemoryStore:
            # The watchers and the session of the previous process are dead: no timeout is needed.
            await store.close()
            return store

        clock = SimClock(self.world.loop)
        dice = Random(f"disk {self.world.seed}")
        self.world.brokers = [SimBroker(self.world.loop, 1, self.broker_options(), open_store, clock, dice)]

    def make_faults(self) -> Faults:
        """Create the faults."""
        every_s = 1e9 if self.is_calm else self.random.choice([2.0, 6.0])
        return Faults(self.world, loses_power=self.loses_power, every_s=every_s)

    async def main(self) -> None:
        """Run the seed."""
        world = self.world
        self.make_brokers()
        for broker in world.brokers:
            broker.start()
        workloads = self.choose_workloads()
        for workload in workloads:
            await workload.prepare()
        for workload in workloads:
            for name, program in workload.programs().items():
                world.start_client(name, program)
        await self.make_faults().run(self.for_s)
        await asyncio.sleep(self.settle_s)
        try:
            async with asyncio.timeout(_ENDING_S):
                self.find_awaited = lambda: ["acknowledgements"]
                await self._work_goes_on()
                for workload in workloads:
                    if isinstance(workload, GroupWorkload):
                        self.find_awaited = workload.find_wrong
                        self.problems += await workload.converge()
                world.is_ending = True
                self.find_awaited = self._find_running
                await asyncio.gather(*(client.task for client in world.clients))
                world.note("drain")
                for workload in workloads:
                    self.find_awaited = partial(_name_drain, workload)
                    await workload.drain()
        except TimeoutError:
            waiting = "; ".join(self.find_awaited())
            self.problems.append(f"not finished {_ENDING_S:g} s after all faults were healed; waiting for: {waiting}")
        else:
            self.find_awaited = lambda: ["the checks at the end"]
            await self.end()

    def _find_running(self) -> list[str]:
        return [client.process.name for client in self.world.clients if not client.task.done()]

    async def _work_goes_on(self) -> None:
        """Wait until more records have been acknowledged after healing."""
        enough = self.world.counts[ACKNOWLEDGED] + _ACKNOWLEDGED_MIN
        while self.world.counts[ACKNOWLEDGED] < enough:  # noqa: ASYNC110 - the counts are plain data and signal nothing
            await asyncio.sleep(_LOOK_S)

    async def end(self) -> None:
        """Run further checks after everything has been read."""

    def report_commit(self, problem: str) -> None:
        """Handle a problem of the committed offsets."""
        self.world.loop.failures.append(problem)

    def judge(self, history: History) -> list[str]:
        """Return all anomalies of the history."""
        return list(map(str, check(history)))

    def run(self) -> Outcome:
        """Run the simulation and check its history."""
        world = self.world
        watching = GroupWatch(world.count, self.report_commit, world.recorder).watching()
        with deterministic(world.loop, world.seed), watching, _listening(world) as complaints:
            try:
                world.loop.limit_s = START_S + self.for_s + 2 * _ENDING_S
                world.loop.run_until_complete(self.main())
            except Exception as error:
                waiting = f", waiting for: {'; '.join(self.find_awaited())}" if isinstance(error, Stuck) else ""
                self.problems.append(f"the simulation ended with {error!r}{waiting}")
            finally:
                # Programs that still run now are ended without an event loop, and may log that their cleanup fails.
                complained = list(complaints.found)
                world.loop.close()
        history = world.recorder.history()
        self.problems += [*world.loop.failures, *complained, *self.judge(history)]
        return Outcome(
            world.seed,
            self.problems,
            summary(history),
            world.loop.digest,
            world.loop.step_count,
            world.now_ms() / 1000,
            world.notes,
            world.recorder.events,
            world.counts,
        )


def _name_drain(workload: Workload) -> list[str]:
    return [f"the drain of {type(workload).__name__}"]


@contextmanager
def _listening(world: World) -> Iterator[Complaints]:
    """Collect the log of the programs instead of printing it."""
    logger = logging.getLogger("tailrace")
    handler, level, propagates = Complaints(world), logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield handler
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagates

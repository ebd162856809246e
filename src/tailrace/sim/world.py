"""The parts of one simulation: the loop, the brokers, the clients, and the recorded history."""

from collections import Counter
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from tailrace.sim.broker import SimBroker
from tailrace.sim.history import Recorder
from tailrace.sim.loop import START_S, VirtualLoop
from tailrace.sim.process import Life, Process
from tailrace.sim.stranding import Stranding

ACKNOWLEDGED = "acknowledged"
"""The count of successful operations of every workload."""

Program = Callable[[str], Coroutine[Any, Any, None]]
"""A client, called with the name under which it records its history."""


class Client:
    """A program that is restarted under another name after it is killed."""

    def __init__(self, world: "World", name: str, program: Program) -> None:
        self.name = name
        self.host = f"host-of-{name}"
        self.process: Process
        self._world = world
        self._program = program
        self._life_count = 0
        self.start()

    def start(self) -> None:
        """Start the program, or start it again."""
        self._life_count += 1
        life_name = f"{self.name}.{self._life_count}"
        self.process = Process(life_name, self.host)
        self.task = self.process.spawn(self._program(life_name))
        self._world.loop.watch(self.task)

    def kill(self) -> None:
        """Kill the program."""
        self.process.life = Life.DEAD
        self._world.loop.network.end(self.process)


class World:
    """The world of one seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.loop = VirtualLoop(seed)  # type: ignore[abstract]  # mypy misses the implemented methods
        self.random = Random(f"world {seed}")
        self.stranding = Stranding(self.loop.network)
        self.recorder = Recorder(self.now_ms)
        self.brokers: list[SimBroker] = []
        self.clients: list[Client] = []
        self.notes: list[str] = []
        self.counts: Counter[str] = Counter()
        self.black_out: Callable[[], None] = lambda: None  # kills all brokers soon
        self.is_healed = False
        self.is_ending = False

    def now_ms(self) -> float:
        """Return the milliseconds since the start."""
        return (self.loop.time() - START_S) * 1000

    def note(self, text: str) -> None:
        """Record an event, for the analysis of a failure."""
        self.loop.note(text)
        self.notes.append(f"{self.now_ms() / 1000:9.3f} {text}")

    def count(self, kind: str) -> None:
        """Count an event, for the summary of a run."""
        self.counts[kind] += 1

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.address for broker in self.brokers)

    def start_client(self, name: str, program: Program) -> Client:
        """Start a program on a host of its own."""
        client = Client(self, name, program)
        self.clients.append(client)
        return client

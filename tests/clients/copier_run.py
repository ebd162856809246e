"""Copiers of one client that are killed, or stopped and replaced, while records flow; and whether each came once.

Copiers are programs as `copier.md` describes them. Two copy a topic to another. A copier that is replaced while it is
only stopped goes on later as a zombie, which must change nothing any more.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.clients import matrix, program
from tests.clients.copier_history import CopierHistory, Copy, Event, Line, Place
from tests.clients.copier_line import GIVE_UP
from tests.clients.copier_reader import GroupWatch, TargetWatch, read_all

from tailrace import Admin
from tailrace.client.admin.transaction import TransactionDescription
from tailrace.sim.check import check
from tailrace.sim.history import History

CHECKOUT = Path(__file__).resolve().parents[2]
PARTITION_COUNT = 4
SLOT_COUNT = 2
SESSION_MS = 2000
FENCE_TIMEOUT_S = 120.0
FLOW_PAUSE_S = 0.02
LOOK_PAUSE_S = 0.05
Command = tuple[list[str], dict[str, str] | None]


def _python(name: str) -> Callable[[], Command]:
    return lambda: ([sys.executable, "-m", f"tests.clients.copier_{name}"], None)


CLIENTS: dict[str, Callable[[], Command]] = {
    "tailrace": _python("tailrace"),
    "confluent-kafka": _python("confluent"),
    "aiokafka": _python("aiokafka"),
    "kafka-clients 4": program.java(matrix.entry("kafka-clients 4").version, "Copier").ready,
    "kafka-clients 3.9": program.java(matrix.entry("kafka-clients 3.9").version, "Copier").ready,
    "franz-go": program.go("copier").ready,
}


class Copier:
    """A running program."""

    def __init__(self, command: Command, arguments: list[str], transactional_id: str, output: Path) -> None:
        self.name = arguments[5]
        self.transactional_id = transactional_id
        self._output = output
        with output.open("wb") as out, output.with_suffix(".err").open("wb") as errors:
            self._process = subprocess.Popen(
                [*command[0], *arguments], env=command[1], stdout=out, stderr=errors, cwd=CHECKOUT
            )

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    @property
    def status(self) -> int | None:
        return self._process.poll()

    @property
    def errors(self) -> str:
        return self._output.with_suffix(".err").read_text(errors="replace")

    @property
    def is_ready(self) -> bool:
        """Whether it has fenced all before it."""
        return any(line.word == "ready" for line in self.lines())

    def lines(self) -> list[Line]:
        """What it has printed; not a line that is unfinished."""
        text = self._output.read_text()
        return [Line.of(line) for line in text[: text.rfind("\n") + 1].splitlines()]


class Flow:
    """A producer that fills the source at a steady pace, and knows what it wrote where."""

    def __init__(self, bootstrap: str, topic: str, count: int, per_second: int) -> None:
        self.written: dict[tuple[int, int], str] = {}
        self.events: list[Event] = []
        self._topic = topic
        self._count = count
        self._per_second = per_second
        self._failures: list[Any] = []
        self._stopping = threading.Event()
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def _run(self) -> None:
        numbers = iter(range(self._count))
        while chunk := list(itertools.islice(numbers, max(1, int(self._per_second * FLOW_PAUSE_S)))):
            for number in chunk:
                value = f"record-{number}"
                partition = number % PARTITION_COUNT
                self._producer.produce(self._topic, value, f"k{number % 100}", partition, self._delivered)
            self._producer.poll(0)
            if self._stopping.wait(FLOW_PAUSE_S):
                break
        if self._producer.flush(120) > 0:
            self._failures.append("not all records of the source were written")

    def _delivered(self, error: Any, message: Message) -> None:
        if error is not None:
            self._failures.append(error)
            return
        partition, offset, value = message.partition() or 0, message.offset() or 0, (message.value() or b"").decode()
        self.written[partition, offset] = value
        head = {"time_ms": time.time() * 1000, "process": "flow", "operation": len(self.written), "kind": "send"}
        place = f"{self._topic}-{partition}"
        self.events.append({**head, "type": "invoke", "partition": place, "value": f"{place}:{value}"})
        self.events.append({**head, "type": "ok", "offset": offset})

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def finish(self) -> None:
        self._thread.join()
        assert self._failures == []


class CopyRun:
    """One client, one source, one target."""

    def __init__(
        self, bootstrap: str, client: str, name: str, folder: Path, *, count: int, per_second: int, replicas: int = 1
    ) -> None:
        self.bootstrap = bootstrap
        self.source, self.target, self.group = f"{name}-source", f"{name}-target", f"{name}-group"
        self._command = CLIENTS[client]()
        self._folder = folder
        self._numbers = itertools.count(1)
        admin = AdminClient({"bootstrap.servers": bootstrap})
        topics = [NewTopic(topic, PARTITION_COUNT, replicas) for topic in (self.source, self.target)]
        for made in admin.create_topics(topics).values():
            made.result(60)
        self._gone: list[Copier] = []
        self._zombies: list[Copier] = []
        self.copiers = [self._start(slot) for slot in range(SLOT_COUNT)]
        self.flow = Flow(bootstrap, self.source, count, per_second)
        self.watch = TargetWatch(bootstrap, self.target, PARTITION_COUNT)
        self.group_watch = GroupWatch(bootstrap, self.group, self.source, PARTITION_COUNT)
        self.restart_count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for copier in (*self.copiers, *self._zombies):
            copier.kill()
        self.flow.stop()
        self.watch.stop()
        self.group_watch.stop()

    def _start(self, slot: int) -> Copier:
        name = f"copier-{slot}.{next(self._numbers)}"
        transactional_id = f"{self.group}-{slot}"
        partitions = ",".join(map(str, range(slot, PARTITION_COUNT, SLOT_COUNT)))
        arguments = [
            self.bootstrap,
            self.source,
            self.target,
            self.group,
            transactional_id,
            name,
            partitions,
            str(SESSION_MS),
        ]
        return Copier(self._command, arguments, transactional_id, self._folder / f"{name}.out")

    # --- what happens to it

    def kill(self, slot: int) -> None:
        """Kill -9 a copier, and start another in its place."""
        self.copiers[slot].kill()
        self._replace(slot)

    def fence(self, slot: int) -> None:
        """Stop a copier and start another in its place; it goes on when the other has fenced it."""
        zombie = self.copiers[slot]
        zombie.signal(signal.SIGSTOP)
        self._replace(slot, is_dead=False)
        self._zombies.append(zombie)
        self.wait_until(lambda: self.copiers[slot].is_ready, "it is fenced", FENCE_TIMEOUT_S)
        zombie.signal(signal.SIGCONT)

    def _replace(self, slot: int, *, is_dead: bool = True) -> None:
        if is_dead:
            self._gone.append(self.copiers[slot])
        self.copiers[slot] = self._start(slot)
        self.restart_count += 1

    def look(self) -> None:
        """Start copiers again that gave up, as whoever runs them would; nothing else may end one."""
        for slot, copier in enumerate(self.copiers):
            if copier.status is not None:
                assert copier.status == GIVE_UP, f"{copier.name} ended with {copier.status}:\n{copier.errors[-4000:]}"
                self._replace(slot)

    def wait_until(self, condition: Callable[[], bool], what: str, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}; {self}"
            self.look()
            time.sleep(LOOK_PAUSE_S)

    def wait_until_copied(self, count: int, timeout_s: float) -> None:
        """So many records are in the target and committed."""
        self.wait_until(lambda: self.watch.count >= count, f"{count} records are copied", timeout_s)

    # --- the end

    def finish(self, timeout_s: float) -> tuple[int, str]:
        """Wait until all is copied; then everything is there exactly once. How much that is, and its hash."""
        self.flow.finish()
        self.wait_until_copied(len(self.flow.written), timeout_s)
        for copier in (*self.copiers, *self._zombies):
            copier.signal(signal.SIGCONT)
            copier.kill()
        self._end_transactions()
        self.watch.stop()
        self.group_watch.stop()
        committed = list(read_all(self.bootstrap, self.target, PARTITION_COUNT, "read_committed", timeout_s))
        written = list(read_all(self.bootstrap, self.target, PARTITION_COUNT, "read_uncommitted", timeout_s))
        history = self._history(committed, written)
        found = [str(finding) for finding in check(history)]
        assert not found, found[:10]
        copies = [Copy.of(place.value) for place in committed]
        expected = [(*place, value.upper()) for place, value in self.flow.written.items()]
        assert _digest((copy.partition, copy.offset, copy.value) for copy in copies) == _digest(expected)
        assert all(place.partition == copy.partition for place, copy in zip(committed, copies, strict=True))
        return len(copies), _digest(expected)

    def epoch_sum(self) -> int:
        """How often the epochs of all copiers were raised: at least with each transaction in the second generation."""
        names = sorted({copier.transactional_id for copier in self.copiers})
        with Admin(self.bootstrap) as admin:
            found = admin.describe_transactions(names).values()
        return sum(each.producer_epoch for each in found if isinstance(each, TransactionDescription))

    def _end_transactions(self) -> None:
        """What killed copiers left open is aborted at once, and not after a time-out."""
        for transactional_id in sorted({copier.transactional_id for copier in self.copiers}):
            Producer({"bootstrap.servers": self.bootstrap, "transactional.id": transactional_id}).init_transactions(60)

    @property
    def transaction_counts(self) -> dict[str, int]:
        """How often the copiers said each word."""
        words = [line.word for copier in self._all() for line in copier.lines()]
        return {word: words.count(word) for word in ("committed", "aborted", "refused", "stalled")}

    def _all(self) -> list[Copier]:
        return [*self._gone, *self._zombies, *self.copiers]

    def _history(self, committed: list[Place], written: list[Place]) -> History:
        by_copier: dict[str, dict[int, list[Place]]] = {}
        for place in written:
            copy = Copy.of(place.value)
            by_copier.setdefault(copy.copier, {}).setdefault(copy.number, []).append(place)
        events = [*self.flow.events, *self.watch.events, *self.group_watch.events]
        for copier in self._all():
            history = CopierHistory(copier.name, copier.transactional_id, self.source, self.target, self.group)
            events += history.events(copier.lines(), by_copier.get(copier.name, {}))
        events.sort(key=lambda event: event["time_ms"])
        return History([*events, *self._drained(committed)])

    def _drained(self, committed: list[Place]) -> Iterator[Event]:
        head = {"time_ms": time.time() * 1000, "process": "last"}
        records = [[f"{self.target}-{place.partition}", place.offset, place.value.decode()] for place in committed]
        partitions = [f"{self.target}-{partition}" for partition in range(PARTITION_COUNT)]
        yield {**head, "operation": 1, "type": "invoke", "kind": "poll"}
        yield {**head, "operation": 1, "type": "ok", "kind": "poll", "records": records}
        yield {**head, "operation": 2, "type": "invoke", "kind": "drain", "partitions": partitions}
        yield {**head, "operation": 2, "type": "ok", "kind": "drain"}

    def __repr__(self) -> str:
        errors = "\n".join(f"{copier.name}: {copier.errors[-1000:]}" for copier in self._all() if copier.errors)
        return f"<written {len(self.flow.written)}, copied {self.watch.count}, {self.transaction_counts}> {errors}"


def _digest(copies: Any) -> str:
    """One hash for records in any order, each as often as it is there."""
    return hashlib.sha256(repr(sorted(copies)).encode()).hexdigest()

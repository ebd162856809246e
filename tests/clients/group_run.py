"""A consumer group of real clients that die and come back while records flow, and the ledger of what it did.

Members are programs as `member.md` describes them. What they print is what they read; what the broker says is
committed is looked at all the time. Whatever the group goes through, offsets that are committed were read before
and never go backwards.
"""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.clients import matrix, program
from tests.clients.raw import Wire

HERE = Path(__file__).resolve().parent
PARTITION_COUNT = 12
FLOW_PAUSE_S = 0.02
LOOK_PAUSE_S = 0.02
OFFSET_FETCH_VERSION = 5
COORDINATOR_ERRORS = (14, 15, 16)  # loading, not available, elsewhere: a broker that has just started says so


def _python(name: str) -> Callable[[], tuple[list[str], dict[str, str] | None]]:
    return lambda: ([sys.executable, str(HERE / f"member_{name}.py")], None)


CLIENTS: dict[str, Callable[[], tuple[list[str], dict[str, str] | None]]] = {
    "tailrace": _python("tailrace"),
    "confluent-kafka": _python("confluent"),
    "kafka-python": _python("kafka_python"),
    "aiokafka": _python("aiokafka"),
    "kafka-clients 4": program.java(matrix.entry("kafka-clients 4").version, "Member").ready,
    "franz-go": program.go("member").ready,
    "kafkajs": program.node("member.js").ready,
}


@dataclass
class Plan:
    """What a group is made of."""

    clients: tuple[str, ...]
    protocol: str = "classic"
    assignor: str = "default"
    session_ms: int = 2000


class Member:
    """A running program."""

    def __init__(self, client: str, arguments: list[str], output: Path) -> None:
        command, environment = CLIENTS[client]()
        self.client = client
        self.has_read = False
        self._output = output
        self._position = 0
        with output.open("wb") as out, output.with_suffix(".err").open("wb") as errors:
            self._process = subprocess.Popen([*command, *arguments], env=environment, stdout=out, stderr=errors)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def check(self) -> None:
        """A member does not end by itself."""
        status = self._process.poll()
        errors = self._output.with_suffix(".err").read_text(errors="replace")
        assert status is None, f"{self.client} ended with status {status}:\n{errors[-4000:]}"

    def take_lines(self) -> Iterator[tuple[int, int]]:
        """The partitions and offsets that it has printed since the last call; not a line that is unfinished."""
        with self._output.open("rb") as file:
            file.seek(self._position)
            found = file.read()
        whole = found[: found.rfind(b"\n") + 1]
        self._position += len(whole)
        self.has_read |= bool(whole)
        for line in whole.splitlines():
            partition, offset = line.split()
            yield int(partition), int(offset)


class Flow:
    """A producer that writes at a steady pace to one partition after the other until it is told to stop."""

    def __init__(self, bootstrap: str, topic: str, per_second: int) -> None:
        self.counts = [0] * PARTITION_COUNT  # acknowledged, by partition
        self._topic = topic
        self._per_second = per_second
        self._failures: list[Any] = []
        self._stopping = threading.Event()
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def count(self) -> int:
        return sum(self.counts)

    def _run(self) -> None:
        numbers = itertools.count()
        while not self._stopping.wait(FLOW_PAUSE_S):
            for number in itertools.islice(numbers, max(1, int(self._per_second * FLOW_PAUSE_S))):
                self._producer.produce(
                    self._topic, b"%d" % number, partition=number % PARTITION_COUNT, on_delivery=self._delivered
                )
            self._producer.poll(0)

    def _delivered(self, error: Any, message: Message) -> None:
        if error is not None:
            self._failures.append(error)
        else:
            self.counts[message.partition() or 0] += 1

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        assert self._producer.flush(60) == 0
        assert self._failures == []


class GroupRun:
    """One group on one topic."""

    def __init__(self, bootstrap: str, name: str, plan: Plan, folder: Path, *, per_second: int = 1000) -> None:
        self._bootstrap = bootstrap
        self._name = name
        self._plan = plan
        self._folder = folder
        self._numbers = itertools.count()
        self._committed = [0] * PARTITION_COUNT
        self._read: list[set[int]] = [set() for _ in range(PARTITION_COUNT)]
        self._read_below = [0] * PARTITION_COUNT
        self._dead: list[Member] = []
        self.read_count = 0  # with those that were read again
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(name, PARTITION_COUNT, 1)])[name].result(60)
        self.members = [self._start(client) for client in plan.clients]
        self._flow = Flow(bootstrap, name, per_second)
        self._wire: Wire | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in self.members:
            member.kill()
        self._disconnect()
        if error is not None:
            with contextlib.suppress(AssertionError):
                self._flow.stop()

    def _start(self, client: str) -> Member:
        plan = self._plan
        arguments = [self._bootstrap, self._name, self._name, plan.protocol, plan.assignor, str(plan.session_ms)]
        return Member(client, arguments, self._folder / f"member-{next(self._numbers)}.out")

    # --- what happens to it

    def replace(self, index: int) -> None:
        """Kill -9 a member and start another of its kind."""
        killed = self.members[index]
        killed.kill()
        self._dead.append(killed)
        self.members[index] = self._start(killed.client)

    def wait_until(self, condition: Callable[[], bool], what: str, timeout_s: float) -> None:
        """Keep the ledger until the condition holds."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}; {self}"
            self.look()
            time.sleep(LOOK_PAUSE_S)

    def wait_until_all_read(self, timeout_s: float) -> None:
        self.wait_until(lambda: all(member.has_read for member in self.members), "every member has read", timeout_s)

    def wait_until_owned(self, timeout_s: float) -> None:
        """Somebody commits for every partition what is written to it from now on."""
        wanted = list(self._flow.counts)
        self.wait_until(
            lambda: all(offset > before for offset, before in zip(self._committed, wanted, strict=True)),
            "all partitions are read",
            timeout_s,
        )

    def wait_until_sent(self, count: int, timeout_s: float) -> None:
        self.wait_until(lambda: self._flow.count >= count, f"{count} records are written", timeout_s)

    def finish(self, timeout_s: float) -> int:
        """Stop the flow; everything that was written is read and committed in the end. How much that was."""
        self._flow.stop()
        ends = self._flow.counts
        self.wait_until(lambda: self._committed == ends, "everything is committed", timeout_s)
        assert [len(offsets) for offsets in self._read] == ends
        assert self._read_below == ends
        return sum(ends)

    @property
    def committed_count(self) -> int:
        return sum(self._committed)

    # --- the ledger

    def look(self) -> None:
        """Look at what is committed, and then at what was read."""
        for member in self.members:
            member.check()
        committed = self._fetch_committed()
        for member in (*self.members, *self._dead):
            for partition, offset in member.take_lines():
                self._read[partition].add(offset)
                self.read_count += 1
        for partition, offset in committed.items():
            assert offset >= self._committed[partition], f"the commit of {partition} went back to {offset}; {self}"
            self._committed[partition] = offset
            while self._read_below[partition] in self._read[partition]:
                self._read_below[partition] += 1
            assert self._read_below[partition] >= offset, f"{offset} of {partition} is committed and not read; {self}"

    def _fetch_committed(self) -> dict[int, int]:
        """What is committed, by partition; nothing while the coordinator is not there."""
        try:
            self._wire = self._wire or Wire(self._bootstrap)
            topics = [{"name": self._name, "partition_indexes": list(range(PARTITION_COUNT))}]
            answer = self._wire.ask("OffsetFetch", OFFSET_FETCH_VERSION, group_id=self._name, topics=topics)
        except ConnectionError:
            answer = "closed"
        if isinstance(answer, str):
            self._disconnect()
            return {}
        if answer["error_code"] in COORDINATOR_ERRORS:
            return {}
        assert answer["error_code"] == 0
        (topic,) = answer["topics"]
        found = {one["partition_index"]: one["committed_offset"] for one in topic["partitions"]}
        lost = [partition for partition, offset in found.items() if offset < 0 < self._committed[partition]]
        assert lost == [], f"commits of {lost} are gone"
        return {partition: offset for partition, offset in found.items() if offset >= 0}

    def _disconnect(self) -> None:
        if self._wire is not None:
            self._wire.__exit__(None, None, None)
            self._wire = None

    def __repr__(self) -> str:
        return f"<written {self._flow.counts}, read {self._read_below}, committed {self._committed}>"

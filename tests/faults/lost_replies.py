"""Producers that lose replies again and again, behind a proxy: nothing twice, nothing missing, nothing out of order.

Each run has a seed, which chooses the sizes of batches and bursts, which replies are lost, and which repetitions the
broker refuses. Everything else is the order in which threads and sockets happen to act, so a seed is worth many runs.

    python -m tests.faults.lost_replies --runs 100 --seed 1 --face asyncio --in-flight 5
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any, NamedTuple

from tests.unit.client.face import Face
from tests.unit.client.lossy_proxy import LossyProxy, lossy_broker
from tests.unit.client.transaction.test_transaction import wait_for_markers

import tailrace
from tailrace.protocol.api_key import ApiKey
from tailrace.protocol.errors import ErrorCode
from tailrace.testing import Broker

FACES = ("thread", "asyncio")
IN_FLIGHT = (1, 5)
RECORD_COUNT = 200
PATIENCE_S = 60.0
BATCH_BYTES = (1, 300, 1_000, 16_384)
SEVERAL = 0.3  # how often a lost reply is followed by another
LOSSES = (0.05, 0.3)
REFUSALS = (
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.REQUEST_TIMED_OUT,
)
"""What the broker says instead of looking at the next batches, as Apache Kafka may before it looks for a duplicate."""


class Case(NamedTuple):
    """One kind of run."""

    face: str
    in_flight: int
    is_transactional: bool
    has_refusals: bool

    def __str__(self) -> str:
        words = [self.face, f"{self.in_flight} in flight"]
        words += ["transactions"] * self.is_transactional + ["refusals"] * self.has_refusals
        return ", ".join(words)


CASES = [
    Case(face, in_flight, is_transactional, has_refusals)
    for face in FACES
    for in_flight in IN_FLIGHT
    for is_transactional in (False, True)
    for has_refusals in (False, True)
]


class Sent(NamedTuple):
    """What was sent, and which of it counts."""

    acknowledged: list[int]
    failed: list[int]
    """Records that the producer gave up. Without transactions they may be in the log."""


class Lost:
    """The broker behind a proxy, and the losses of one run after the other."""

    def __init__(self, proxy: LossyProxy, broker: Broker) -> None:
        self._proxy = proxy
        self._broker = broker
        self._run_count = 0

    def run(self, case: Case, seed: int) -> tuple[str | None, int]:
        """Send records, and return what is wrong, None for nothing, and the number of replies that were lost."""
        dice = Random(f"{case} {seed}")
        self._run_count += 1
        topic = f"lost-{self._run_count}"
        self._broker.create_topic(topic)
        before = self._proxy.lost_count
        settings: dict[str, Any] = {
            "linger_ms": dice.choice([0, 1]),
            "batch_size": dice.choice(BATCH_BYTES),
            "max_in_flight_requests_per_connection": case.in_flight,
            "retry_backoff_ms": dice.choice([1, 5]),
            "retry_backoff_max_ms": 20,
        }
        if case.is_transactional:
            settings["transactional_id"] = topic
        with Face(case.face).producer(self._broker.bootstrap_servers, **settings) as producer:
            self._lose(case, dice, is_first_lost=seed % 3 == 0)
            sent = (_send_transactions if case.is_transactional else _send)(producer, topic, dice)
        self._calm()
        found = self._read(topic, is_transactional=case.is_transactional)
        wrong = _judge(sent, found, may_fail=case.has_refusals, counts_failed=not case.is_transactional)
        return wrong, self._proxy.lost_count - before

    def _lose(self, case: Case, dice: Random, *, is_first_lost: bool) -> None:
        def refuse() -> None:
            if case.has_refusals and dice.random() < 0.5:
                self._broker.inject("PRODUCE", error=dice.choice(REFUSALS).name, count=dice.choice([1, 1, 2]))

        chance = dice.choice(LOSSES)
        plan = [is_first_lost]
        while len(plan) < 2 * RECORD_COUNT:
            plan.append(dice.random() < (SEVERAL if plan[-1] else chance))
        self._proxy.lose(ApiKey.PRODUCE, *plan, then=refuse)

    def _calm(self) -> None:
        self._proxy.lose(ApiKey.PRODUCE)
        self._broker.clear_faults()

    def _read(self, topic: str, *, is_transactional: bool) -> list[int]:
        if not is_transactional:
            return [int(record.value or b"") for record in self._broker.consume(topic, [0])]
        bootstrap = self._broker.bootstrap_servers
        wait_for_markers(bootstrap, topic)
        with tailrace.Consumer(bootstrap, isolation_level="read_committed") as consumer:
            consumer.assign([(topic, 0, "earliest")])
            end = consumer.end_offsets([(topic, 0)])[tailrace.TopicPartition(topic, 0)]
            found: list[int] = []
            while consumer.position(topic, 0) < end:
                found += [int(record.value or b"") for record in consumer.poll(timeout_s=0.2)]
            return found


@contextmanager
def losing() -> Iterator[Lost]:
    """Run a broker for any number of runs."""
    with lossy_broker() as (proxy, broker):
        yield Lost(proxy, broker)


def _bursts(dice: Random) -> Iterator[range]:
    start = 0
    while start < RECORD_COUNT:
        stop = min(start + dice.choice([1, 10, 50]), RECORD_COUNT)
        yield range(start, stop)
        start = stop


def _send(producer: Any, topic: str, dice: Random) -> Sent:
    futures: list[Any] = []
    for burst in _bursts(dice):
        futures += [producer.send(topic, b"%d" % number, partition=0) for number in burst]
        if dice.random() < 0.5:
            producer.flush()
    return _sort(list(range(RECORD_COUNT)), futures)


def _send_transactions(producer: Any, topic: str, dice: Random) -> Sent:
    committed: list[int] = []
    failed: list[int] = []
    for burst in _bursts(dice):
        producer.begin_transaction()
        try:
            for number in burst:
                producer.send(topic, b"%d" % number, partition=0)
            if dice.random() < 0.8:
                producer.commit_transaction()
                committed += burst
                continue
        except (tailrace.TransactionFailed, tailrace.ApiError):
            failed += burst
        producer.abort_transaction()
    return Sent(committed, failed)


def _sort(numbers: Sequence[int], futures: Sequence[Any]) -> Sent:
    errors = [future.exception(PATIENCE_S) for future in futures]
    acknowledged = [number for number, error in zip(numbers, errors, strict=True) if error is None]
    failed = [number for number, error in zip(numbers, errors, strict=True) if error is not None]
    return Sent(acknowledged, failed)


def _judge(sent: Sent, found: list[int], *, may_fail: bool, counts_failed: bool) -> str | None:
    if sent.failed and not may_fail:
        return f"records {sent.failed} failed"
    twice = [number for number, count in Counter(found).items() if count > 1]
    if twice:
        return f"records {twice} are in the log twice"
    if missing := sorted(set(sent.acknowledged) - set(found)):
        return f"records {missing} were acknowledged and are not in the log"
    allowed = {*sent.acknowledged, *(sent.failed if counts_failed else ())}
    if strange := sorted(set(found) - allowed):
        return f"records {strange} were not committed and are in the log"
    if found != sorted(found):
        return f"the log is out of order: {found}"
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=100, help="runs of each case")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--face", choices=FACES, help="only this face")
    parser.add_argument("--in-flight", type=int, choices=IN_FLIGHT, help="only so many requests in flight")
    options = parser.parse_args(arguments)
    wrong_count = 0
    cases = [
        case for case in CASES if options.face in (None, case.face) and options.in_flight in (None, case.in_flight)
    ]
    with losing() as lost:
        for case in cases:
            lost_count = 0
            for seed in range(options.seed, options.seed + options.runs):
                wrong, count = lost.run(case, seed)
                lost_count += count
                if wrong is not None:
                    wrong_count += 1
                    print(f"{case}, seed {seed}: {wrong}", flush=True)
            print(f"{case}: {options.runs} runs, {lost_count} replies lost", flush=True)
    print(f"{wrong_count} of {len(cases) * options.runs} runs were wrong")
    return 1 if wrong_count else 0


if __name__ == "__main__":
    sys.exit(main())

"""The scenes of `hostile_network`: what the network and an administrator do to one producer, or to one member.

A seed chooses the sizes of batches and bursts, the losses, and how many requests are in flight. Everything else is the
order in which threads and sockets happen to act, so a seed is worth many runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import Any, NamedTuple

from tests.eventual import eventually
from tests.faults.hostile_client import Client, Sending, Tailrace, value
from tests.faults.hostile_judge import NO_OFFSET, Ledger, Verdict, judge, shown
from tests.unit.client.conftest import PATIENT_GROUPS, PATIENT_SESSION_MS
from tests.unit.client.lossy_proxy import LossyProxy, lossy_broker
from tests.unit.client.transaction.test_transaction import wait_for_markers

import tailrace
from tailrace.client.admin.core import ResourceType
from tailrace.protocol.api_key import ApiKey
from tailrace.protocol.errors import ErrorCode
from tailrace.testing import Broker

RECORD_COUNT = 100
HELD_COUNT = 2
LIMIT_COUNT = 3
BATCH_BYTES = (1, 300, 1_000, 16_384)
BURSTS = (1, 10, 50)
IN_FLIGHT = (1, 5, 5)
SEVERAL = 0.3  # how often a lost reply is followed by another
LOSSES = (0.05, 0.3)
PATIENT_MS = 10_000
IMPATIENT_MS = 150
DELIVERY_MS = 30_000
HOUR_MS = 3_600_000
RECORD_BYTES = 200
ABORTED = "aborted on purpose"
REFUSALS = (
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.REQUEST_TIMED_OUT,
)
"""What the broker says instead of looking at the next batches, as Apache Kafka may before it looks for a duplicate."""
TOO_LARGE_ALONE = {"max.message.bytes": "150"}
TOO_LARGE_TOGETHER = {"max.message.bytes": "1000"}
TOO_OLD = {"message.timestamp.before.max.ms": str(HOUR_MS)}


class Needed(Enum):
    """How many records a run must acknowledge to be worth anything."""

    ALL = "all"
    SOME = "some"
    NONE = "none"


class Outcome(NamedTuple):
    """What a run has shown."""

    wrong: str | None
    kinds: list[str]
    """The kinds of `Verdict` that are wrong, and others."""
    acknowledged_count: int = 0
    failed_count: int = 0


@dataclass
class Ground:
    """The broker behind a proxy, and the client that is tested."""

    proxy: LossyProxy
    broker: Broker
    admin: Any
    client: Client

    def run(self, scene: Scene, seed: int) -> Outcome:
        """Run a scene once on a topic of its own."""
        topic = f"{scene.name}-{self.client.name}-{seed}"
        self.create(topic)
        try:
            return scene.play(Run(self, scene, topic, Random(f"{scene.name} {seed}")))
        finally:
            self.proxy.calm()
            self.broker.clear_faults()
            self.admin.delete_topics([topic])

    def create(self, topic: str) -> None:
        """Create a topic; one of the same name may still be on its way out."""
        outcome = eventually(
            lambda: self.admin.create_topics([tailrace.NewTopic(topic, 1, 1)])[topic],
            lambda found: not isinstance(found, tailrace.ApiError),
        )
        assert not isinstance(outcome, tailrace.ApiError), outcome


@contextmanager
def hostile_ground(client: Client) -> Iterator[Ground]:
    """Run a broker for any number of runs."""
    options = {**PATIENT_GROUPS, "auto.create.topics.enable": "false"}
    with lossy_broker(**options) as (proxy, broker), tailrace.Admin(broker.bootstrap_servers) as admin:
        yield Ground(proxy, broker, admin, client)


@dataclass
class Run:
    """One producer, the records that it was given, and what became of them."""

    ground: Ground
    scene: Scene
    topic: str
    dice: Random
    sent: list[int] = field(default_factory=list)
    ledger: Ledger = field(default_factory=Ledger)
    producer: Sending | None = None

    @contextmanager
    def producing(self, **configs: Any) -> Iterator[None]:
        """Open a producer, and close it in the end."""
        dice = self.dice
        chosen = {
            "bootstrap.servers": self.ground.broker.bootstrap_servers,
            "enable.idempotence": True,
            "linger.ms": dice.choice([0, 1]),
            "batch.size": dice.choice(BATCH_BYTES),
            "max.in.flight.requests.per.connection": dice.choice(IN_FLIGHT),
            "retry.backoff.ms": dice.choice([1, 5]),
            "retry.backoff.max.ms": 20,
            "request.timeout.ms": PATIENT_MS,
            "delivery.timeout.ms": DELIVERY_MS,
        }
        self.producer = self.ground.client.open({**chosen, **configs})
        try:
            yield
        finally:
            self.ledger = self.producer.close()

    def send(self, count: int, size: int = 0, age_ms: int = 0) -> None:
        """Send the next records."""
        assert self.producer is not None
        timestamp_ms = int(time.time() * 1000) - age_ms
        for number in range(len(self.sent), len(self.sent) + count):
            self.sent.append(number)
            self.producer.send(self.topic, number, size, timestamp_ms)

    def flush(self) -> None:
        """Wait until each record has an outcome."""
        assert self.producer is not None
        self.producer.flush()

    def send_bursts(self) -> None:
        """Send as many records as a run has, and flush now and then."""
        for burst in _bursts(self.dice):
            self.send(len(burst))
            if self.dice.random() < 0.5:
                self.flush()

    def lose(self, *first: bool, then: Callable[[], None] | None = None) -> None:
        """Lose replies to Produce: the first as given, later ones by chance."""
        chance = self.dice.choice(LOSSES)
        plan = list(first)
        while len(plan) < 2 * RECORD_COUNT:
            plan.append(self.dice.random() < (SEVERAL if plan and plan[-1] else chance))
        self.ground.proxy.lose(ApiKey.PRODUCE, *plan, then=then)

    def judged(self, needed: Needed, *, note: str | None = None) -> Outcome:
        """Compare what the producer was told with the log."""
        self.ground.proxy.calm()
        self.ground.broker.clear_faults()
        found = [(record.offset, int(record.value or b"")) for record in self.ground.broker.consume(self.topic, [0])]
        return self.outcome(judge(self.sent, self.ledger, found), needed, note)

    def outcome(self, verdict: Verdict, needed: Needed, note: str | None = None) -> Outcome:
        """Add what a verdict does not know."""
        texts = [verdict.wrong] if verdict.wrong else []
        kinds = list(verdict.by_kind)
        if note is not None:
            texts.append(note)
            kinds.append("repeated too early")
        failed = {number: text for number, text in self.ledger.failed.items() if text != ABORTED}
        if needed is Needed.ALL and self.ground.client.is_ours and failed:
            texts.append(f"failed: {shown(list(failed))}, the first with {next(iter(failed.values()))}")
            kinds.append("failed")
        if needed is not Needed.NONE and not self.ledger.acknowledged:
            texts.append("no record was acknowledged")
            kinds.append("nothing acknowledged")
        return Outcome("; ".join(texts) or None, kinds, len(self.ledger.acknowledged), len(failed))


def _bursts(dice: Random) -> Iterator[range]:
    start = 0
    while start < RECORD_COUNT:
        stop = min(start + dice.choice(BURSTS), RECORD_COUNT)
        yield range(start, stop)
        start = stop


# --- lost replies


def lose_replies(run: Run) -> Outcome:
    """Lose replies singly and several in a row."""
    with run.producing():
        run.lose(run.dice.random() < 0.3)
        run.send_bursts()
    return run.judged(Needed.ALL)


def lose_and_refuse(run: Run) -> Outcome:
    """Lose replies, and refuse what is sent next, every other time."""
    with run.producing():
        run.lose(run.dice.random() < 0.3, then=lambda: _refuse(run))
        run.send_bursts()
    return run.judged(Needed.NONE)


def _refuse(run: Run) -> None:
    if run.dice.random() < 0.5:
        error, count = run.dice.choice(REFUSALS).name, run.dice.choice([1, 1, 2])
        run.ground.broker.inject("PRODUCE", error=error, count=count)


# --- held requests


def hold_requests(run: Run) -> Outcome:
    """Hold a Produce or, in one run of three, an OffsetCommit, and deliver it after its repetition."""
    return _hold_commits(run) if run.dice.random() < 1 / 3 else _hold_batches(run)


def _hold_batches(run: Run) -> Outcome:
    """In one run of three the producer gives up a batch as soon as its request has timed out."""
    note = None
    proxy = run.ground.proxy
    gives_up = run.dice.random() < 1 / 3
    delivery_ms = IMPATIENT_MS + 1 if gives_up else DELIVERY_MS
    with run.producing(**{"linger.ms": 0, "request.timeout.ms": IMPATIENT_MS, "delivery.timeout.ms": delivery_ms}):
        run.send(run.dice.choice(BURSTS))
        run.flush()
        for _ in range(HELD_COUNT):
            proxy.hold(ApiKey.PRODUCE)
            run.send(run.dice.choice(BURSTS))
            run.flush()
            if not proxy.is_holding:  # the producer gave the records up before it sent them
                assert gives_up
                proxy.calm()
                continue
            run.send(run.dice.choice(BURSTS))
            if run.dice.random() < 0.5:
                run.flush()
            try:
                proxy.deliver(has_end=run.dice.random() < 0.5)
            except AssertionError as error:
                note = str(error)
                proxy.calm()
    return run.judged(Needed.NONE if gives_up else Needed.ALL, note=note)


def _hold_commits(run: Run) -> Outcome:
    """The group must have the offset that was acknowledged last."""
    ground = run.ground
    ground.broker.produce(run.topic, [b"a record"])
    protocol = run.dice.choice(["classic", "consumer"])
    configs: dict[str, Any] = {
        "bootstrap.servers": ground.broker.bootstrap_servers,
        "group.id": run.topic,
        "group.protocol": protocol,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "request.timeout.ms": IMPATIENT_MS,
        "retry.backoff.ms": 1,
        "retry.backoff.max.ms": 2,
    }
    if protocol == "classic":
        configs["session.timeout.ms"] = PATIENT_SESSION_MS
    wrong: list[str] = []
    member = ground.client.join(run.topic, configs)
    try:
        for offset in range(1, 2 * HELD_COUNT, 2):
            ground.proxy.hold(ApiKey.OFFSET_COMMIT)
            member.commit(offset)
            member.commit(offset + 1)
            ground.proxy.deliver()
            found = member.committed()
            if found != offset + 1:
                wrong.append(f"offset {offset + 1} was acknowledged, and the group has {found} ({protocol})")
    finally:
        member.leave()
    return Outcome("; ".join(wrong) or None, ["offset went back"] * bool(wrong))


# --- lowered limits


def lower_limits(run: Run) -> Outcome:
    """Lower a limit of the topic after a lost reply, so that the batch would be refused; restore it some time later."""
    limits = run.dice.choice([TOO_LARGE_ALONE, TOO_LARGE_TOGETHER, TOO_OLD])
    with run.producing():
        _send_below_limits(run, limits)
    return run.judged(Needed.SOME)


def split(run: Run) -> Outcome:
    """The same with one large batch, which a producer may split when it is too large."""
    with run.producing(**{"linger.ms": PATIENT_MS, "batch.size": BATCH_BYTES[-1]}):
        _send_below_limits(run, TOO_LARGE_TOGETHER)
    return run.judged(Needed.SOME)


def _send_below_limits(run: Run, limits: dict[str, str]) -> None:
    dice = run.dice
    is_low = False

    def alter(*, to_low: bool) -> None:
        nonlocal is_low
        is_low = to_low
        changes = limits if to_low else dict.fromkeys(limits)
        run.ground.admin.alter_configs(ResourceType.TOPIC, run.topic, changes)

    def send(count: int) -> None:
        run.send(count, RECORD_BYTES, 2 * HOUR_MS)

    send(dice.choice(BURSTS))
    run.flush()
    for _ in range(LIMIT_COUNT):
        run.lose(True, dice.random() < 0.5, then=lambda: alter(to_low=not is_low))
        send(dice.choice([6, 20, 50]))
        if dice.random() < 0.7:
            run.flush()
        send(dice.choice(BURSTS))
        run.flush()
        run.ground.proxy.calm()
        alter(to_low=False)
        send(dice.choice(BURSTS))
        run.flush()


# --- a topic that is made again


def remake_topic(run: Run) -> Outcome:
    """Delete the topic after a lost reply, and create it again before the batch is repeated.

    What was acknowledged before counts for the deleted topic, and nothing of it may be in the new one.
    """
    is_remade = False

    def remake() -> None:
        nonlocal is_remade
        if not is_remade:
            is_remade = True
            run.ground.admin.delete_topics([run.topic])
            run.ground.create(run.topic)

    with run.producing():
        run.send(run.dice.choice([0, *BURSTS]))
        run.flush()
        before = list(run.sent)
        run.lose(True, then=remake)
        run.send_bursts()
    del run.sent[: len(before)]
    run.ledger.forget(before)
    return run.judged(Needed.SOME)


# --- transactions, with our client only


def lose_in_transactions(run: Run) -> Outcome:
    """Lose replies to a producer with transactions."""
    return _transact(run, None, Needed.ALL)


def lose_and_refuse_in_transactions(run: Run) -> Outcome:
    """Lose replies to it, and refuse what is sent next, every other time."""
    return _transact(run, lambda: _refuse(run), Needed.NONE)


def _transact(run: Run, then: Callable[[], None] | None, needed: Needed) -> Outcome:
    client, bootstrap = run.ground.client, run.ground.broker.bootstrap_servers
    assert isinstance(client, Tailrace), "transactions are tested with our client only"
    configs: dict[str, Any] = {
        "transactional_id": run.topic,
        "linger_ms": run.dice.choice([0, 1]),
        "batch_size": run.dice.choice(BATCH_BYTES),
        "max_in_flight_requests_per_connection": run.dice.choice(IN_FLIGHT),
        "retry_backoff_ms": run.dice.choice([1, 5]),
        "retry_backoff_max_ms": 20,
    }
    with client.face.producer(bootstrap, **configs) as producer:
        run.lose(run.dice.random() < 0.3, then=then)
        _send_transactions(run, producer)
    run.ground.proxy.calm()
    run.ground.broker.clear_faults()
    found = list(_read_committed(bootstrap, run.topic))
    return run.outcome(judge(run.sent, run.ledger, found, failed_may_be_written=False), needed)


def _send_transactions(run: Run, producer: Any) -> None:
    for burst in _bursts(run.dice):
        run.sent += burst
        is_last = burst.stop == RECORD_COUNT
        producer.begin_transaction()
        reason = ABORTED
        try:
            for number in burst:
                producer.send(run.topic, value(number), partition=0)
            if run.dice.random() < 0.8 or is_last:  # one at least is committed
                producer.commit_transaction()
                run.ledger.acknowledged |= dict.fromkeys(burst, NO_OFFSET)
                continue
        except (tailrace.TransactionFailed, tailrace.ApiError) as error:
            reason = str(error)
        run.ledger.failed |= dict.fromkeys(burst, reason)
        producer.abort_transaction()


def _read_committed(bootstrap: str, topic: str) -> Iterator[tuple[int, int]]:
    wait_for_markers(bootstrap, topic)
    with tailrace.Consumer(bootstrap, isolation_level="read_committed") as consumer:
        consumer.assign([(topic, 0, "earliest")])
        end = consumer.end_offsets([(topic, 0)])[tailrace.TopicPartition(topic, 0)]
        while consumer.position(topic, 0) < end:
            for record in consumer.poll(timeout_s=0.2):
                yield record.offset, int(record.value or b"")


class Scene(NamedTuple):
    """A scene by its name."""

    name: str
    play: Callable[[Run], Outcome]
    is_ours_only: bool = False


SCENES = {
    scene.name: scene
    for scene in (
        Scene("lost-replies", lose_replies),
        Scene("held-requests", hold_requests),
        Scene("lowered-limits", lower_limits),
        Scene("splits", split),
        Scene("remade-topic", remake_topic),
        Scene("refusals", lose_and_refuse),
        Scene("transactions", lose_in_transactions, is_ours_only=True),
        Scene("refused-transactions", lose_and_refuse_in_transactions, is_ours_only=True),
    )
}

"""Random producers of one transactional id: the broker says what our machine says, step by step.

Against Apache Kafka (TAILRACE_TEST_TARGET=kafka) this compares the machine with Kafka's coordinator, against Tailrace
it compares the broker with its own machine. Two things are left out: a producer that shows an identity which is not the
newest while a transaction is open, for which Kafka aborts the transaction and refuses it later; and one with the epoch
before that ends, by version 5, what was ended by an older one, to which Kafka gives the newest identity. The machine
refuses both.
"""

from __future__ import annotations

import time
from random import Random
from typing import Any

import pytest
from tests.clients.ask.asker import Asker
from tests.clients.ask.transaction_step import new_producer, new_transactional_id
from tests.clients.conftest import TARGET
from tests.clients.raw import Wire
from tests.unit.machines.transaction.transaction_script import TIMEOUT_MS, TransactionScript

from tailrace.machines.transaction.transaction import CLIENT_VERSION_1, CLIENT_VERSION_2, Identity

ROUND_COUNT = 40 if TARGET == "kafka" else 6
STEP_COUNT = 60
UNKNOWN_ID = 999_999
SETTLED_WITHIN_S = 60


class Pair:
    """A broker and the machine, asked the same."""

    def __init__(self, asker: Asker, wire: Wire, topic: str, random: Random) -> None:
        self.wire = wire
        self.topic = topic
        self.random = random
        self.script = TransactionScript()
        self.script.transactional_id = self.name = new_transactional_id(asker)
        self.producer_ids: dict[int, int] = {}  # the machine's, by the broker's
        self.identities: list[Identity] = []  # the broker's
        self.state: dict[str, Any] = {}

    def ask(self, api: str, version: int, **fields: Any) -> dict[str, Any]:
        answer = self.wire.ask(api, version, **fields)
        assert not isinstance(answer, str), answer
        return answer

    def step(self) -> None:
        """One random request to both, and what came of it."""
        steps = [self.init, self.resume, self.add, self.add, self.verify, self.end, self.end, self.end]
        broker, machine = (self.random.choice(steps) if self.identities else self.init)()
        assert broker == machine
        self.settle()
        transaction = self.script.transaction
        assert self.state["transaction_state"] == transaction.state.title
        assert self.state["producer_epoch"] == transaction.producer_epoch
        partitions = {(topic["topic"], index) for topic in self.state["topics"] for index in topic["partitions"]}
        assert partitions == transaction.partitions

    def settle(self) -> None:
        """Wait until nothing is being ended any more."""
        self.script.write_markers()
        deadline = time.monotonic() + SETTLED_WITHIN_S
        while True:
            described = self.ask("DescribeTransactions", 0, transactional_ids=[self.name])
            self.state = described["transaction_states"][0]
            if not self.state["transaction_state"].startswith("Prepare") or time.monotonic() > deadline:
                return

    def some_identity(self) -> Identity:
        """Mostly one that was given out lately."""
        identity = self.random.choice(self.identities[-4:])
        if self.random.random() < 0.15:
            epoch = identity.producer_epoch + self.random.choice([-2, -1, 1, 2])
            identity = Identity(identity.producer_id, max(0, epoch))
        return identity

    def known(self, identity: Identity) -> Identity:
        """The same producer, as the machine knows it."""
        return Identity(self.producer_ids.get(identity.producer_id, UNKNOWN_ID), identity.producer_epoch)

    def given(self, answer: dict[str, Any], machine: Any) -> tuple[tuple[int, int], tuple[int, int]]:
        """Take note of an identity that both have given out, and compare their answers."""
        if answer["error_code"] == 0 and answer["producer_id"] >= 0:
            self.producer_ids[answer["producer_id"]] = machine.producer_id
            self.identities.append(Identity(answer["producer_id"], answer["producer_epoch"]))
        return (answer["error_code"], answer["producer_epoch"]), (int(machine.error_code), machine.producer_epoch)

    def init(self, expected: Identity | None = None) -> Any:
        version = self.random.choice([3, 4, 5])
        shown = Identity(-1, -1) if expected is None else expected
        answer = self.ask(
            "InitProducerId",
            version,
            transactional_id=self.name,
            transaction_timeout_ms=TIMEOUT_MS,
            producer_id=shown.producer_id,
            producer_epoch=shown.producer_epoch,
        )
        ours = None if expected is None else self.known(expected)
        return self.given(answer, self.script.init(ours, version=version))

    def resume(self) -> Any:
        identity = self.some_identity()
        if self.state["transaction_state"] == "Ongoing":
            identity = Identity(self.state["producer_id"], self.state["producer_epoch"])
        return self.init(identity)

    def add(self) -> Any:
        version = self.random.choice([3, 5])
        identity, partition = self.some_identity(), (self.topic, self.random.randrange(2))
        client_version = CLIENT_VERSION_1 if version == 3 else CLIENT_VERSION_2
        return (
            self.added(version, identity, partition, verify_only=False),
            self.script.add(self.known(identity), partition, client_version=client_version),
        )

    def verify(self) -> Any:
        identity, partition = self.some_identity(), (self.topic, self.random.randrange(2))
        return (
            self.added(4, identity, partition, verify_only=True),
            self.script.verify(self.known(identity), partition)[0],
        )

    def added(self, version: int, identity: Identity, partition: tuple[str, int], *, verify_only: bool) -> int:
        topics = [{"name": partition[0], "partitions": [partition[1]]}]
        transaction: dict[str, Any] = {
            "transactional_id": self.name,
            "producer_id": identity.producer_id,
            "producer_epoch": identity.producer_epoch,
            "topics": topics,
        }
        if version < 4:
            fields = {f"v3_and_below_{name}": value for name, value in transaction.items()}
            answer = self.ask("AddPartitionsToTxn", version, **fields)
            results = answer["results_by_topic_v3_and_below"]
        else:
            answer = self.ask("AddPartitionsToTxn", version, transactions=[{**transaction, "verify_only": verify_only}])
            results = answer["results_by_transaction"][0]["topic_results"]
        code: int = results[0]["results_by_partition"][0]["partition_error_code"]
        return code

    def end(self) -> Any:
        version, commit, identity = self.random.choice([4, 5]), self.random.random() < 0.5, self.some_identity()
        is_before = identity.producer_epoch + 1 == self.state["producer_epoch"]
        if is_before and self.script.transaction.client_version < CLIENT_VERSION_2:
            version = 4
        answer = self.ask(
            "EndTxn",
            version,
            transactional_id=self.name,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            committed=commit,
        )
        machine = self.script.end(self.known(identity), commit=commit, version=version)
        if version < 5:
            return answer["error_code"], int(machine.error_code)
        return self.given(answer, machine)


@pytest.mark.parametrize("seed", range(ROUND_COUNT))
def test_the_broker_says_what_the_machine_says(broker_bootstrap: str, seed: int) -> None:
    asker = Asker(broker_bootstrap)
    topic = asker.topic(partitions=2)
    new_producer(asker)  # once there are producer ids, nobody is put off any more
    with asker.wire() as wire:
        pair = Pair(asker, wire, topic, Random(seed))
        for _ in range(STEP_COUNT):
            pair.step()

"""The checkers of producer ids, configs, elections and min.insync.replicas, each broken by hand or by an ablation."""

import asyncio
import json

import pytest
from tests.unit.sim.disk_ablation import ABLATIONS, FOUND
from tests.unit.sim.script import Scene, Script

from tailrace.coordination.layout import PRODUCER_ID_BLOCK, node_of
from tailrace.coordination.store import Change, Node
from tailrace.machines.controller.record import PartitionRecord
from tailrace.protocol.messages.producer import InitProducerIdRequest, InitProducerIdResponse
from tailrace.sim.broker import SimBroker
from tailrace.sim.check import check
from tailrace.sim.checkers.config import find_lost_configs
from tailrace.sim.cluster import ClusterSimulation
from tailrace.sim.history import Recorder
from tailrace.sim.invariant import Invariants, Violation
from tailrace.sim.producer_ids import ProducerIdLedger


def block(start: int, end: int) -> list[Change]:
    return [Change(PRODUCER_ID_BLOCK, Node(json.dumps({"block_start": start, "block_end": end}).encode(), 0))]


def give(ledger: ProducerIdLedger, producer_id: int, name: str | None = None) -> str | None:
    return ledger.answered(
        InitProducerIdRequest(transactional_id=name), InitProducerIdResponse(producer_id=producer_id)
    )


def test_a_producer_id_has_one_owner() -> None:
    ledger = ProducerIdLedger()
    assert ledger.committed(block(0, 999)) is None
    assert [give(ledger, 0), give(ledger, 1, "a"), give(ledger, 1, "a")] == [None] * 3
    assert "handed out for request 1 and request 4" in (give(ledger, 0) or "")
    assert "transactional id a and transactional id b" in (give(ledger, 1, "b") or "")
    assert "ids are reserved up to 1000 only" in (give(ledger, 1_000) or "")


def test_a_block_of_producer_ids_is_reserved_once() -> None:
    ledger = ProducerIdLedger()
    assert ledger.committed(block(0, 999)) is None
    assert ledger.committed(block(1_000, 1_999)) is None
    assert "from 1000 are reserved again" in (ledger.committed(block(1_000, 1_999)) or "")


@pytest.mark.parametrize(("value", "is_lost"), [("1", True), ("2", False), ("3", False), ("9", True), (None, True)])
def test_an_acknowledged_config_is_kept(value: str | None, is_lost: bool) -> None:
    """The second alteration was acknowledged, the third is in doubt."""
    recorder = Recorder(lambda: 0.0)
    for number in (1, 2, 3):
        operation = recorder.invoke("administrator", "alter", topic="t", configs={"c": str(number)})
        operation.ok() if number < 3 else operation.unknown("time-out")
    recorder.invoke("last", "describe", topic="t", broker=1).ok(configs={"c": value})
    assert bool(list(find_lost_configs(recorder.history()))) == is_lost
    assert len(check(recorder.history())) == is_lost


@pytest.mark.parametrize(
    ("before", "leader", "is_clean"),
    [
        (PartitionRecord("t", 0, 1, 4, (1, 2)), 2, True),
        (PartitionRecord("t", 0, 1, 4, (1, 2)), 3, False),
        (PartitionRecord("t", 0, 1, 4, (1,), elr=(3,)), 3, True),
        (PartitionRecord("t", 0, -1, 4, (), last_known_elr=(3,)), 3, True),
        (PartitionRecord("t", 0, -1, 4, (), elr=(2,), last_known_elr=(3,)), 3, False),
    ],
)
def test_a_leader_comes_from_those_that_have_everything(before: PartitionRecord, leader: int, is_clean: bool) -> None:
    after = PartitionRecord("t", 0, leader, 5, (leader,))
    changes = [Change(path, Node(value, 0)) for path, value in map(node_of, (before, after))]
    Invariants(unclean_topics={"t"}).committed(changes)
    if is_clean:
        Invariants().committed(changes)
    else:
        with pytest.raises(Violation, match="an unclean election"):
            Invariants().committed(changes)


class LonelyLeader(Script):
    """Both followers stop for so long that they leave the ISR."""

    async def play(self, leader: SimBroker, one: SimBroker, other: SimBroker) -> None:
        for follower in (one, other):
            self.network.cut(follower.host, leader.host)
        await asyncio.sleep(8)
        self.network.mend_all()


class LeftBehind(Script):
    """A follower leaves the ISR, and then both others die."""

    async def play(self, leader: SimBroker, one: SimBroker, other: SimBroker) -> None:
        for broker in (leader, one):
            self.network.cut(other.host, broker.host)
        await self.until(lambda: other.broker_id not in self.state.isr, look_s=0.01)
        self.network.mend_all()
        for broker in (leader, one):
            broker.kill(is_power_loss=False)
        await asyncio.sleep(9)


SCENES: dict[str, type[Script]] = {
    "one replica is enough": LonelyLeader,
    "any replica may lead": LeftBehind,
}


@pytest.mark.parametrize("name", SCENES)
def test_a_safeguard_is_needed_in_its_scene(name: str) -> None:
    """The scene goes well with it, and is found out without it."""
    outcome = Scene(1, SCENES[name]).run()
    assert not outcome.problems, outcome.notes
    with ABLATIONS[name]():
        outcome = Scene(1, SCENES[name]).run()
    assert any(word in problem for problem in outcome.problems for word in FOUND[name]), outcome.problems


@pytest.mark.slow
def test_producer_ids_that_are_not_reserved_are_noticed() -> None:
    """Seeds in which two brokers are asked for one show it."""
    name = "producer ids are not reserved"
    with ABLATIONS[name]():
        problems = (problem for seed in range(1, 60) for problem in ClusterSimulation(seed).run().problems)
        assert any(word in problem for problem in problems for word in FOUND[name])


def test_where_unclean_elections_are_allowed_replicas_agree_at_the_end() -> None:
    class Unclean(Scene):
        unclean_share = 1.0

    outcome = Unclean(1, LeftBehind).run()
    assert not outcome.problems, outcome.notes
    assert outcome.counts["unclean elections"]

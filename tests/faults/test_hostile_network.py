"""Some runs of `hostile_network`, and what its judge finds in a log that was tampered with."""

from collections.abc import Iterator

import pytest
from tests.faults import hostile_network
from tests.faults.hostile_client import CLIENTS, Client
from tests.faults.hostile_judge import NO_OFFSET, Ledger, judge
from tests.faults.hostile_scene import SCENES, Ground, Outcome, Scene, hostile_ground

pytestmark = pytest.mark.exact

SEEDS = range(1, 4)
OURS = [CLIENTS[name]() for name in ("tailrace", "tailrace-asyncio")]


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    with hostile_ground(CLIENTS["tailrace"]()) as made:
        yield made


@pytest.mark.parametrize("client", OURS, ids=lambda client: client.name)
@pytest.mark.parametrize("scene", SCENES.values(), ids=lambda scene: scene.name)
def test_a_hostile_network_costs_no_record_and_doubles_none(ground: Ground, client: Client, scene: Scene) -> None:
    ground.client = client
    before = ground.proxy.lost_count + ground.proxy.held_count
    assert [ground.run(scene, seed).wrong for seed in SEEDS] == [None] * len(SEEDS)
    assert ground.proxy.lost_count + ground.proxy.held_count > before


def test_another_client_is_run_in_the_same_scenes(ground: Ground) -> None:
    ground.client = CLIENTS["confluent"]()
    outcomes = [ground.run(scene, 1) for scene in SCENES.values() if not scene.is_ours_only]
    # On a busy machine, those that give up soon may give up everything.
    assert all(outcome.acknowledged_count + outcome.failed_count > 0 for outcome in outcomes)
    assert any(outcome.acknowledged_count > 0 for outcome in outcomes)


# --- the judge

SENT = range(5)
LOG = [(0, 0), (1, 1), (2, 2), (3, 3)]


def ledger() -> Ledger:
    """Four records are acknowledged, one of them without an offset, and one has failed."""
    return Ledger({0: 0, 1: 1, 2: NO_OFFSET, 3: 3}, {4: "too late"})


def test_a_log_with_each_acknowledged_record_once_and_in_order_is_right() -> None:
    assert judge(SENT, ledger(), LOG).wrong is None


def test_a_record_that_failed_may_be_in_the_log_but_not_in_that_of_a_transaction() -> None:
    log = [*LOG, (4, 4)]
    assert judge(SENT, ledger(), log).wrong is None
    assert judge(SENT, ledger(), log, failed_may_be_written=False).by_kind == {"strange": [4]}


def test_an_acknowledged_record_that_is_missing_is_found() -> None:
    assert judge(SENT, ledger(), [*LOG[:2], LOG[3]]).by_kind == {"lost": [2]}


@pytest.mark.parametrize("number", [2, 4])
def test_a_record_that_is_in_the_log_twice_is_found(number: int) -> None:
    assert judge(SENT, ledger(), [*LOG, (4, 4), (5, number)]).by_kind["twice"] == [number]


def test_records_in_another_order_are_found() -> None:
    swapped = Ledger({0: 0, 1: 2, 2: 1, 3: 3}, {4: "too late"})
    assert judge(SENT, swapped, [(0, 0), (1, 2), (2, 1), (3, 3)]).by_kind == {"out of order": [1]}


@pytest.mark.parametrize("log", [[(0, 0), (1, 1), (2, 2), (3, 4), (4, 3)], [(0, 0), (1, 1), (2, 2), (7, 3)]])
def test_an_acknowledgement_with_the_offset_of_another_record_is_found(log: list[tuple[int, int]]) -> None:
    assert judge(SENT, ledger(), log).by_kind["misplaced"] == [3]


def test_a_record_that_was_not_sent_is_found() -> None:
    assert judge(SENT, ledger(), [*LOG, (4, 9)]).by_kind == {"strange": [9]}


def test_a_record_without_an_outcome_is_found() -> None:
    assert judge(range(6), ledger(), LOG).by_kind == {"silent": [5]}


@pytest.mark.parametrize(("name", "status"), [("tailrace", 1), ("confluent", 0)])
def test_only_a_wrong_run_of_our_client_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, status: int
) -> None:
    monkeypatch.setattr(Ground, "run", lambda *_: Outcome("lost: 7", ["lost"]))
    assert hostile_network.main(["--client", name, "--scene", "splits", "--runs", "2"]) == status
    assert "2 runs wrong (lost: 2)" in capsys.readouterr().out

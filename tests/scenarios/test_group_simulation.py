"""Consumers of both protocols while everything goes wrong: nobody ever has what another has, and all calm down.

The quick runs are here; `make simulate-groups` runs many more and larger ones. A failure names its seed and the
command that repeats it.
"""

from collections.abc import Callable

import pytest
from tests.scenarios.group_check import Violation
from tests.scenarios.group_simulation import simulate

from tailrace.machines.group.consumer import classic_member, coordinator, group, reconciliation


@pytest.mark.parametrize("seed", range(1, 7))
def test_groups_survive_a_storm(seed: int) -> None:
    outcome = simulate(seed)
    assert outcome.process_count > 40
    assert outcome.gain_count > 50
    assert outcome.commit_count > 20
    assert outcome.restart_count > 0


def test_a_run_can_be_repeated_exactly() -> None:
    assert simulate(3) == simulate(3)


def simulate_many(count: int) -> None:
    for seed in range(1, count + 1):
        simulate(seed)


# Safeguards, each of which is switched off in turn: the checker must notice.


def no_wait_for_release(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(group.ConsumerGroup, "is_free", lambda *_: True)


def no_wait_for_revocation(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reconciliation, "_still_owned", lambda *_: False)


def anybody_may_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(group.ConsumerGroup, "check_offset_commit", lambda *_, **__: None)


def no_rejoin_for_classic_members(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(classic_member, "_has_to_join", lambda *_: False)


def sessions_last_forever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(coordinator.ConsumerCoordinator, "fence", lambda *_: None)


@pytest.mark.parametrize(
    "ablate",
    [
        no_wait_for_release,
        no_wait_for_revocation,
        anybody_may_commit,
        no_rejoin_for_classic_members,
        sessions_last_forever,
    ],
)
def test_the_checker_notices_when_a_safeguard_is_off(
    ablate: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    ablate(monkeypatch)
    with pytest.raises(Violation, match=r"repeat with: python -m tests\.scenarios\.group_simulation --seed"):
        simulate_many(8)

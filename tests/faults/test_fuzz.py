"""A few thousand mutated requests with fixed seeds; `make fuzz` runs a million with any."""

import asyncio
from pathlib import Path

import pytest
from tests.faults import fuzz
from tests.faults.fuzz import Fuzzer, FuzzFailure, verify_folder

from tailrace.base.event_loop import new_event_loop
from tailrace.machines.controller import topic as topic_decisions
from tailrace.server.dispatch import Dispatcher
from tailrace.server.handlers import topic as topic_handlers

CASES = 6000


def run(fuzzer: Fuzzer, cases: int) -> int:
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(fuzzer.run(cases))


@pytest.fixture(autouse=True)
def limits_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fuzzer lowers a limit for speed; other tests want it as it is."""
    for module in (topic_decisions, topic_handlers):
        monkeypatch.setattr(module, "PARTITIONS_PER_REQUEST_MAX", module.PARTITIONS_PER_REQUEST_MAX)


@pytest.mark.parametrize("seed", [1, 2])
def test_mutated_requests_never_meet_a_bug(tmp_path: Path, seed: int) -> None:
    fuzzer = Fuzzer(tmp_path, seed, socket_share=0.05)
    assert run(fuzzer, CASES) == CASES
    assert fuzzer.outcomes["answered"] > CASES // 5, "the corpus is not all garbage"
    assert fuzzer.outcomes["refused"] > CASES // 5, "and not all sound"
    assert fuzzer.outcomes["socket"] > CASES // 50
    assert fuzzer.outcomes["batches verified"] > CASES // fuzz.ROUND_CASES


def test_the_fuzzer_sees_a_bug_in_a_handler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fuzzer that cannot fail proves nothing: the broker hides its bugs from peers, not from this."""
    answer = Dispatcher._answer

    async def sometimes_wrong(self: Dispatcher, served: object, context: object, request: object) -> object:
        if "topics" in vars(type(request)).get("__annotations__", {}):
            raise IndexError
        return await answer(self, served, context, request)  # type: ignore[arg-type]

    monkeypatch.setattr(Dispatcher, "_answer", sometimes_wrong)
    with pytest.raises(FuzzFailure, match=r"(?s)seed 1 case \d+ .*IndexError"):
        run(Fuzzer(tmp_path, seed=1), 500)


def test_the_fuzzer_sees_a_torn_batch(tmp_path: Path) -> None:
    fuzzer = Fuzzer(tmp_path, seed=1)
    run(fuzzer, 500)
    log = next(path for path in tmp_path.glob("canary-0/*.log"))
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    with pytest.raises(FuzzFailure, match="not whole"):
        verify_folder(tmp_path)

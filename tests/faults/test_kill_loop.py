"""The loop that kills a broker would notice a lost record; `make kill` runs it for 200 rounds."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.faults.broker_process import BrokerProcess
from tests.faults.kill_load import Numbered, encode
from tests.faults.kill_loop import BROKER_OPTIONS, Check, Loop, LoopFailure, Progress

pytestmark = [pytest.mark.exact, pytest.mark.slow]

PLACE = ("topic", 0)


class LossyBroker(BrokerProcess):
    """Its kills take the end of a segment with them, which the page cache would never do."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, BROKER_OPTIONS)
        self._data = folder / "data"

    def kill(self) -> None:
        super().kill()
        segments = sorted(self._data.glob("default-0/*.log"))
        filled = [path for path in segments if path.stat().st_size > 0]
        if filled:
            with filled[-1].open("r+b") as file:
                file.truncate(max(0, filled[-1].stat().st_size - 3000))


def test_the_rounds_of_a_sound_broker_pass(tmp_path: Path) -> None:
    loop = Loop(tmp_path, seed=2)
    loop.run(2, Progress(2))
    assert loop.checked_count > 0
    assert loop.broker.log.count("was not stopped cleanly") >= 2


def test_a_broker_that_loses_acknowledged_records_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.faults.kill_loop.STEP_TIMEOUT_S", 10.0)
    loop = Loop(tmp_path, seed=2)
    loop.broker = LossyBroker(tmp_path)
    with pytest.raises(LoopFailure):
        loop.run(3, Progress(3))
    for load in loop.loads:
        load.abandon()


def test_records_that_are_missing_repeated_or_out_of_order_are_noticed() -> None:
    check = Check()
    check.take(PLACE, 0, encode(Numbered(1, 0)))
    check.take(PLACE, 1, encode(Numbered(2, 0)))
    for offset, number in ((3, 1), (2, 0), (2, 2)):
        with pytest.raises(LoopFailure):
            check.take(PLACE, offset, encode(Numbered(1, number)))
    with pytest.raises(ValueError, match="damaged"):
        check.take(PLACE, 2, encode(Numbered(1, 1))[:-1] + b"x")
    check.take(PLACE, 2, encode(Numbered(1, 1)))


def test_a_record_that_was_acknowledged_without_an_offset_is_looked_for_by_its_number() -> None:
    check = Check()
    assert not check.has(PLACE, Numbered(1, 0))
    check.take(PLACE, 0, encode(Numbered(1, 0)))
    assert check.has(PLACE, Numbered(1, 0))
    assert not check.has(PLACE, Numbered(1, 1))
    assert not check.has(PLACE, Numbered(2, 0))

"""Batches that are not repeated."""

from pathlib import Path
from typing import Any

import pytest
from tests.logged import logged

from tailrace.spark.pipeline.at_most_once import at_most_once


class Batch:
    """A batch that counts how often it is computed without being written."""

    def __init__(self) -> None:
        self.computed_count = 0
        self.write = self

    def format(self, name: str) -> "Batch":
        assert name == "noop"
        return self

    def mode(self, _mode: str) -> "Batch":
        return self

    def save(self) -> None:
        self.computed_count += 1


BATCH: Any = Batch()


def reachable() -> None:
    """Connect to a sink that is there."""


def gone() -> None:
    """Connect to a sink that is not there."""
    raise ConnectionError("the sink is gone")


def test_a_batch_whose_write_was_interrupted_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    written: list[int] = []
    is_broken = False

    def write(_batch: Any, batch_id: int) -> None:
        if is_broken:
            raise ConnectionError("the sink is gone")
        written.append(batch_id)

    at_most_once(write, reachable, "orders", tmp_path)(BATCH, 0)
    is_broken = True
    with pytest.raises(ConnectionError):
        at_most_once(write, reachable, "orders", tmp_path)(BATCH, 1)
    is_broken = False
    after_restart = at_most_once(write, reachable, "orders", tmp_path)
    after_restart(BATCH, 1)
    after_restart(BATCH, 2)
    assert written == [0, 2]
    assert BATCH.computed_count == 1, "the state of the flow needs it"
    assert "flow orders leaves out batch 1" in logged(caplog)


def test_a_sink_that_is_away_costs_no_batch(tmp_path: Path) -> None:
    written: list[int] = []

    def write(_batch: Any, batch_id: int) -> None:
        written.append(batch_id)

    with pytest.raises(ConnectionError):
        at_most_once(write, gone, "orders", tmp_path)(BATCH, 0)
    at_most_once(write, reachable, "orders", tmp_path)(BATCH, 0)
    assert written == [0]

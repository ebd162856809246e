"""A few kills of the Connect service and what belongs to it; `make connect-kill` has twenty."""

from pathlib import Path

import pytest
from tests.faults.connect_kill import await_equal, digest, run
from tests.spark.conftest import require_spark

pytestmark = pytest.mark.exact

require_spark()


@pytest.mark.slow
def test_every_line_arrives_once(tmp_path: Path) -> None:
    assert "equal by hash" in run(2, 3, tmp_path)


def test_a_line_that_came_twice_is_noticed(tmp_path: Path) -> None:
    source, sink = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("a\nb\n")
    sink.write_text("a\nb\nb\n")
    assert digest(source) != digest(sink)
    with pytest.raises(AssertionError, match="lines came of"):
        await_equal(source, sink)

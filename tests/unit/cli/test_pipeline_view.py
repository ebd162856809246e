"""How flows are shown, in a pipe and at a terminal."""

import io

import pytest
from rich.console import Console

from tailrace.cli.pipeline_view import View, flow_line, flow_table, restart_lines, total_line
from tailrace.client.topic_partition import TopicPartition
from tailrace.spark.pipeline.tally import FlowTally


def tally() -> FlowTally:
    found = FlowTally("counts", state="running", rows_in=12_345, rows_out=67, batch_count=1, batch_ms=1_234)
    found.state_rows = 8_000
    found.behind = {TopicPartition("a", 0): 1_500}
    return found


def rendered(width: int) -> str:
    stream = io.StringIO()
    flows = [tally(), FlowTally("other_flow_name")]
    Console(width=width, file=stream).print(flow_table("p.py", flows, now_s=0.0, width=width))
    return stream.getvalue()


def test_a_flow_is_a_line_in_a_pipe() -> None:
    assert flow_line(tally(), now_s=0.0) == (
        "counts: running, 0 rows/s in, 0 rows/s out, batch 1,234 ms, lag 1,500, 8,000 state rows; 12,345 in, 67 out"
    )
    assert flow_line(FlowTally("new"), now_s=0.0) == "new: starting"
    assert "batch -," in flow_line(FlowTally("idle", state="running"), now_s=0.0)


def test_a_flow_is_a_row_at_a_terminal() -> None:
    text = rendered(120)
    for cell in ("p.py", "counts", "1,234 ms", "1,500", "8,000", "12,345", "67", "other", "starting"):
        assert cell in text


def test_a_narrow_terminal_gets_no_totals_and_nothing_cut() -> None:
    text = rendered(80)
    for cell in ("counts", "out/s", "1,234 ms", "1,500", "8,000", "starting"):
        assert cell in text
    assert "12,345" not in text
    assert "…" not in text


def waiting() -> FlowTally:
    return FlowTally("counts", state="restarting", cause="no broker answers [yet]", restart_at_s=10.0)


def test_a_flow_that_waits_says_until_when_and_why() -> None:
    assert flow_line(waiting(), now_s=6.2) == "counts: restarting in 4 s: no broker answers [yet]"
    assert [str(line) for line in restart_lines([tally(), waiting()], now_s=11.0)] == [
        "counts: restarting in 0 s: no broker answers [yet]"
    ]


def test_the_totals_name_what_was_left_out() -> None:
    found = tally()
    assert total_line(found) == "flow counts running: 12,345 rows in, 67 rows out, 1 batch"
    found.batch_count, found.rows_late, found.rows_duplicate = 2, 3, 1_000
    assert total_line(found).endswith("2 batches, 3 late, 1,000 duplicate")
    found.rejected = {"not JSON": 1_200, "too long": 1}
    assert total_line(found).endswith("1,000 duplicate, 1,200 rejected (not JSON), 1 rejected (too long)")
    assert flow_line(found, now_s=0.0).endswith("67 out, 1,201 rejected")


def test_a_view_in_a_pipe_prints_lines_from_time_to_time(capsys: pytest.CaptureFixture[str]) -> None:
    class Running:
        def snapshot(self) -> list[FlowTally]:
            return [tally()]

    view = View("p.py")
    view.refresh()
    with view.live(Running()):
        view.refresh()  # the first lines are not due yet
        assert capsys.readouterr().out == ""
        view._line_due_s = 0.0
        view.refresh()
    view.summarise([tally()])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["counts", "tailrace"]

"""Histories are written, read again, and refused when they make no sense."""

import json
from pathlib import Path

import pytest
from tests.unit.sim.event import P, Story

from tailrace.sim.check import main
from tailrace.sim.history import INFO, OK, BadHistory, History, Recorder, read_history, write_history


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    story = Story().send("a", 0).poll((0, "a", 3))
    write_history(story.recorder.events, tmp_path / "history.jsonl")
    send, poll = read_history(tmp_path / "history.jsonl").operations
    assert (send.outcome, send.asked["value"], send.told["offset"]) == (OK, "a", 0)
    assert [tuple(record) for record in poll.records] == [(P, 0, "a", 3)]


def test_a_recorder_writes_each_line_as_it_happens(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    with path.open("w") as file:
        recorder = Recorder(lambda: 5.0, file)
        recorder.invoke("producer", "send", partition=P, value="a").ok(offset=4)
    assert [json.loads(line)["type"] for line in path.read_text().splitlines()] == ["invoke", "ok"]


def test_an_operation_without_an_end_is_indeterminate() -> None:
    story = Story()
    story.recorder.invoke("producer", "send", partition=P, value="a")
    (send,) = story.history().operations
    assert (send.outcome, send.ended) == (INFO, None)


def test_files_of_several_processes_make_one_history_by_time(tmp_path: Path) -> None:
    def write(name: str, time_ms: int) -> None:
        recorder = Recorder(lambda: time_ms)
        recorder.invoke(name, "poll").ok(records=[])
        write_history(recorder.events, tmp_path / name)

    write("late", 7)
    write("early", 3)
    history = read_history(tmp_path / "late", tmp_path / "early")
    assert [operation.process for operation in history.operations] == ["early", "late"]


HEAD = {"time_ms": 1, "process": "p", "operation": 1, "kind": "send"}


@pytest.mark.parametrize(
    "events",
    [
        [{"type": "invoke"}],
        [{**HEAD, "type": "ok"}],
        [{**HEAD, "type": "invoke"}, {**HEAD, "type": "invoke"}],
        [{**HEAD, "type": "invoke"}, {**HEAD, "type": "perhaps"}],
        [{**HEAD, "type": "invoke"}, {**HEAD, "type": "ok"}, {**HEAD, "type": "fail"}],
    ],
)
def test_what_is_no_history_is_refused(events: list[dict[str, object]]) -> None:
    with pytest.raises(BadHistory):
        History(events)


def test_the_command_prints_what_it_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "history.jsonl"
    write_history(Story().send("a", 0).poll((0, "a"), (1, "a")).recorder.events, path)
    assert main([str(path)]) == 1
    assert "duplicate in views-0: a is at offsets 0, 1 (lines 1, 3, 3)" in capsys.readouterr().out


def test_the_command_is_content_with_a_clean_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "history.jsonl"
    write_history(Story().send("a", 0).poll((0, "a")).drain().recorder.events, path)
    assert main([str(path)]) == 0
    assert capsys.readouterr().out == "0 anomalies in: 1 drain ok, 1 poll ok, 1 send ok\n"


def test_the_command_refuses_what_is_no_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text('{"type": "ok"}\n')
    assert main([str(path)]) == 2
    assert "line 1 has no time_ms" in capsys.readouterr().err

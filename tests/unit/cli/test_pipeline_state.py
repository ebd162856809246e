"""`tailrace pipeline list`, `status` and `reset`, over checkpoints as Spark writes them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tailrace.cli.main import main
from tailrace.client.error import BrokerUnavailable
from tailrace.client.produce.producer import Producer
from tailrace.spark.pipeline.plan import checkpoints_of
from tailrace.spark.pipeline.run_lock import find_runner, run_lock
from tailrace.testing import Broker

TEXT = """
name: copy
source: {connector: topic, name: TOPIC}
sink: {connector: topic, name: copies, format: raw}
errors: {to: dead}
---
name: archive
source: {connector: topic, name: TOPIC}
sink: {connector: files, path: out}
every: 5 seconds
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "pipe.yaml"
    path.write_text(TEXT.replace("TOPIC", "state-of-a-pipeline"))
    return path


def finish_batch(file: Path, flow: str, number: int, offsets: dict[str, int]) -> None:
    """Write what Spark writes when a batch is finished."""
    checkpoint = checkpoints_of(file) / flow
    for folder, text in (
        ("offsets", "v1\n{}\n" + json.dumps({"state-of-a-pipeline": offsets})),
        ("commits", 'v1\n{"nextBatchWatermarkMs":0}'),
    ):
        (checkpoint / folder).mkdir(parents=True, exist_ok=True)
        (checkpoint / folder / str(number)).write_text(text)
        (checkpoint / folder / f".{number}.crc").write_text("")


def test_the_flows_of_a_file_are_listed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "list", str(file)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "copy\ttopic state-of-a-pipeline\ttopic copies\tappend",
        "archive\ttopic state-of-a-pipeline\tparquet files out\tappend",
    ]
    assert main(["pipeline", "list", str(file), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(each["every"], each["errors"]) for each in found] == [(None, "to topic dead"), ("5 seconds", "stop")]


def test_the_status_tells_batches_and_lag(
    file: Path, tailrace_broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    with Producer(tailrace_broker.bootstrap_servers) as producer:
        for _ in range(10):
            producer.send("state-of-a-pipeline", b"x", partition=0)
    finish_batch(file, "copy", 0, {"0": 3})
    finish_batch(file, "copy", 1, {"0": 4})
    command = ["pipeline", "status", str(file), "--bootstrap-server", tailrace_broker.bootstrap_servers]
    assert main([*command, "--json"]) == 0
    copy, archive = json.loads(capsys.readouterr().out)
    assert copy.pop("finished_at").endswith("Z")
    position = {"state-of-a-pipeline-0": 4}
    assert copy == {"flow": "copy", "state": "stopped", "batches": 2, "lag": 6, "position": position}
    # A lag of 0 would say that there is nothing to read.
    expected = {"state": "never run", "batches": 0, "finished_at": None, "lag": None, "position": {}}
    assert archive == {"flow": "archive", **expected}
    with run_lock(checkpoints_of(file)):
        assert main(command) == 0
    assert "running in process" in capsys.readouterr().out


def test_the_status_without_a_broker_has_no_lag(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise BrokerUnavailable("no broker answers")

    monkeypatch.setattr("tailrace.client.admin.sync.Admin.__enter__", fail)
    finish_batch(file, "copy", 0, {"0": 3})
    assert main(["pipeline", "status", str(file)]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines()[0].split("\t")[-1] == "-"
    assert shown.err == "tailrace: the lag is not known: no broker answers\n"


def test_a_damaged_checkpoint_is_told_by_name(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    finish_batch(file, "copy", 0, {"0": 3})
    (checkpoints_of(file) / "copy" / "offsets" / "0").write_text("v1\n{}\n{oops")
    assert main(["pipeline", "status", str(file)]) == 1
    assert "offsets/0 cannot be read" in capsys.readouterr().err


def test_a_flow_is_reset_by_name(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for flow in ("copy", "archive"):
        finish_batch(file, flow, 0, {"0": 3})
    assert main(["pipeline", "reset", str(file), "--flow", "nothing", "--yes"]) == 1
    assert "has no flow nothing; its flows are copy, archive" in capsys.readouterr().err
    assert main(["pipeline", "reset", str(file), "--flow", "copy", "--yes"]) == 0
    assert capsys.readouterr().out == "tailrace: flow copy starts anew at the next run\n"
    assert [path.name for path in checkpoints_of(file).iterdir() if path.is_dir()] == ["archive"]
    assert main(["pipeline", "reset", str(file), "--flow", "copy", "--yes"]) == 0
    assert "nothing to reset" in capsys.readouterr().out
    for reset in (["archive"], []):
        assert main(["pipeline", "reset", str(file), "--yes", "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == {"reset": reset}


def test_a_pipeline_that_runs_is_neither_reset_nor_run_again(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    finish_batch(file, "copy", 0, {"0": 3})
    program = (
        "import sys; from pathlib import Path; from tailrace.spark.pipeline.run_lock import run_lock\n"
        "with run_lock(Path(sys.argv[1])): print('locked', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(checkpoints_of(file))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        for command in (["reset", str(file), "--yes"], ["run", str(file)]):
            assert main(["pipeline", *command]) == 1
            assert f"the pipeline is running in process {other.pid}" in capsys.readouterr().err
        other.kill()
    assert find_runner(checkpoints_of(file)) is None
    assert main(["pipeline", "reset", str(file), "--yes"]) == 0


def test_a_number_of_restarts_is_a_number_or_forever(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for given in ("often", "-1", ""):
        assert main(["pipeline", "run", str(file), "--restarts", given]) == 2
        assert f"'{given}' is neither a number nor forever" in capsys.readouterr().err

"""What `runnel pipeline run` does with its options, with a run in the place of Spark's that does nothing."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from runnel.spark.option import parse_sink_options, parse_source_options
from runnel.spark.pipeline.error import FlowError
from runnel.spark.pipeline.plan import FlowPlan
from runnel.spark.pipeline.tally import FlowTally
from runnel.testing import Broker

Run = Callable[..., tuple[int, str, str]]

FILE = """
from runnel.pipeline import flow, parquet, topic

@flow(source=topic("{0}"), sink=topic("{0}-out"))
def copied(records):
    return records

@flow(source=topic("{0}"), sink=parquet("kept"))
def kept(records):
    return records
"""


class IdleRun:
    """Flows that do nothing, for ever or for so many looks."""

    last: ClassVar["IdleRun"]
    look_count_max: ClassVar[int | None] = None
    when_looked_at: ClassVar[Callable[[], None]] = staticmethod(lambda: None)

    def __init__(self, _spark: Any, _pipeline: Any, plans: list[FlowPlan], **_: Any) -> None:
        self.plans = plans
        self.once: bool | None = None
        self.look_count = 0
        self.stop_count = 0
        IdleRun.last = self

    def start(self, *, once: bool) -> None:
        self.once = once

    def check(self, *, may_start: bool = True) -> bool:
        self.look_count += 1
        IdleRun.when_looked_at()
        return IdleRun.look_count_max is None or self.look_count < IdleRun.look_count_max

    def require_running(self) -> None:
        pass

    def stop(self) -> None:
        self.stop_count += 1

    def snapshot(self) -> list[FlowTally]:
        return [FlowTally(plan.name, "stopped") for plan in self.plans]


@pytest.fixture
def scopes(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """With what sessions would have been started."""
    found: list[dict[str, Any]] = []

    @contextmanager
    def scope(file: Path, **options: Any) -> Iterator[None]:
        found.append({"file": file, **options})
        yield None

    monkeypatch.setattr("runnel.spark.pipeline.spark_scope.spark_scope", scope)
    monkeypatch.setattr("runnel.spark.pipeline.run.PipelineRun", IdleRun)
    monkeypatch.setattr(IdleRun, "look_count_max", None)
    monkeypatch.setattr(IdleRun, "when_looked_at", staticmethod(lambda: None))
    return found


@pytest.fixture
def file(runnel_broker: Broker, topic: str, tmp_path: Path) -> Path:
    runnel_broker.create_topic(topic)
    path = tmp_path / "pipe.py"
    path.write_text(FILE.format(topic))
    return path


def test_a_time_that_is_up_stops_the_flows(run: Run, scopes: list[dict[str, Any]], file: Path, topic: str) -> None:
    status, out, err = run("pipeline", "run", str(file), "--for", "0.3s", "--master", "local[3]")
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        f"runnel: created topic {topic}-out",
        "runnel: starting Spark, which takes some seconds",
        "runnel: flow copied stopped: 0 rows in, 0 rows out, 0 batches",
        "runnel: flow kept stopped: 0 rows in, 0 rows out, 0 batches",
    ]
    assert (IdleRun.last.once, IdleRun.last.stop_count) == (False, 1)
    assert scopes == [{"file": file, "master": "local[3]", "log_level": "off"}]


def test_once_ends_with_the_flows(
    run: Run, scopes: list[dict[str, Any]], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(IdleRun, "look_count_max", 2)
    assert run("pipeline", "run", str(file), "--once", "--for", "1h")[0] == 0
    assert (IdleRun.last.once, IdleRun.last.look_count) == (True, 3)


def test_a_signal_stops_the_flows(
    run: Run, scopes: list[dict[str, Any]], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(IdleRun, "when_looked_at", staticmethod(lambda: os.kill(os.getpid(), signal.SIGTERM)))
    before = signal.getsignal(signal.SIGTERM)
    status, _, err = run("pipeline", "run", str(file))
    assert (status, set(err.splitlines())) == (0, {"runnel: stopping on SIGTERM"})
    assert IdleRun.last.stop_count == 1
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_flow_that_fails_is_one_line_and_status_1(
    run: Run, scopes: list[dict[str, Any]], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise FlowError("kept", "the disk is full")

    monkeypatch.setattr(IdleRun, "when_looked_at", staticmethod(fail))
    status, out, err = run("pipeline", "run", str(file))
    assert (status, err) == (1, "runnel: flow kept: the disk is full\n")
    assert "flow copied stopped" in out


def test_settings_of_a_file_reach_every_reader_and_writer(
    run: Run,
    scopes: list[dict[str, Any]],
    file: Path,
    tmp_path: Path,
    runnel_broker: Broker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("RUNNEL_BOOTSTRAP_SERVER")
    settings = tmp_path / "client.properties"
    settings.write_text(
        f"bootstrap.servers={runnel_broker.bootstrap_servers}\nclient.id=me\nrequest.timeout.ms=7000\n"
        "security.protocol=PLAINTEXT\nretry.backoff.ms=5\nmetadata.max.age.ms=60000\n"
    )
    folders = ["--checkpoint", str(tmp_path / "c"), "--output", str(tmp_path / "o")]
    status, _, err = run("pipeline", "run", str(file), "--command-config", str(settings), "--for", "0s", *folders)
    assert (status, err) == (0, "")
    copied, kept = IdleRun.last.plans
    expected = {"bootstrap.servers": runnel_broker.bootstrap_servers, "client.id": "me", "request.timeout.ms": "7000"}
    for client in (
        parse_source_options(copied.source_options[0]).client,
        parse_source_options(kept.source_options[0]).client,
        parse_sink_options(copied.sink_options).client,
    ):
        assert dict(client.texts).items() >= expected.items()
        assert client.producer["request.timeout.ms"] == "7000"
    assert kept.sink_options == {"path": str(tmp_path / "o" / "kept")}
    assert (copied.checkpoint, kept.checkpoint) == (tmp_path / "c" / "copied", tmp_path / "c" / "kept")


def test_the_server_of_the_command_line_goes_before_that_of_the_file(
    run: Run, scopes: list[dict[str, Any]], file: Path, tmp_path: Path, runnel_broker: Broker
) -> None:
    settings = tmp_path / "client.properties"
    settings.write_text("bootstrap.servers=127.0.0.1:1\n")
    given = ["--command-config", str(settings), "--bootstrap-server", runnel_broker.bootstrap_servers]
    assert run("pipeline", "run", str(file), "--for", "0s", *given)[0] == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("client.idd=me\n", ":1: client.idd: no client setting has this name (did you mean client.id?)"),
        ("client.id=me\nsasl.mechanism=PLAIN\n", ":2: sasl.mechanism: TLS and SASL are not supported yet"),
        ("request.timeout.ms=soon\n", ":1: request.timeout.ms: 'soon' is not a number of milliseconds"),
    ],
)
def test_settings_that_are_wrong_are_told_with_their_line(
    run: Run, scopes: list[dict[str, Any]], file: Path, tmp_path: Path, text: str, message: str
) -> None:
    settings = tmp_path / "client.properties"
    settings.write_text(text)
    status, _, err = run("pipeline", "run", str(file), "--command-config", str(settings))
    assert (status, err.count("\n"), scopes) == (1, 1, [])
    assert f"{settings}{message}" in err


# --- files that are wrong

HEAD = "from runnel.pipeline import flow, parquet, topic\n"
FLOW = HEAD + "@flow(source=topic({0}), sink=topic({1}){2})\ndef f(rows): return rows\n"

WRONG_FILES = [
    ("", "pipe.py: there are no flows in it; declare one with @flow(source=…, sink=…)"),
    ("def f(:\n", "pipe.py:1: SyntaxError: invalid syntax"),
    ("import no_such_module_anywhere\n", "pipe.py:1: ModuleNotFoundError: No module named 'no_such_module_anywhere'"),
    ("raise SystemExit(0)\n", "pipe.py: the file ends the program instead of declaring flows"),
    (HEAD + "@flow\ndef f(rows): return rows\n", "pipe.py:2: @flow needs its arguments by name"),
    (FLOW.format("'a'", "'b'", ", mode='upsert'"), "pipe.py:2: flow f: mode='upsert' is none of append, update"),
    (FLOW.format("'a', format='raw'", "'b'", ""), "pipe.py:2: flow f: topic a is a source, and format= is for a sink"),
    (
        FLOW.format("'a', options={'maxOffsetPerTrigger': 5}", "'b'", ""),
        "flow f: option maxOffsetPerTrigger: it is not known; a source takes assign",
    ),
    (
        FLOW.format("'a', options={'maxOffsetsPerTrigger': 'many'}", "'b'", ""),
        "flow f: option maxOffsetsPerTrigger: ",
    ),
    (
        FLOW.format("'a', options={'endingOffsets': 'latest'}", "'b'", ""),
        "flow f: option endingOffsets: a stream has no end",
    ),
    (
        FLOW.format("'a'", "'b', options={'kafka.transactional.id': 'x'}", ""),
        "flow f: option kafka.transactional.id: it is not allowed",
    ),
]


@pytest.mark.parametrize(("text", "message"), WRONG_FILES)
def test_a_wrong_file_is_one_line_before_spark_starts(
    run: Run, scopes: list[dict[str, Any]], tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "pipe.py"
    path.write_text(text)
    status, out, err = run("pipeline", "run", str(path))
    assert (status, out, err.count("\n"), scopes) == (1, "", 1, [])
    assert err.startswith(f"runnel: {message}")


def test_a_file_that_is_not_there_or_no_python(run: Run, scopes: list[dict[str, Any]], tmp_path: Path) -> None:
    status, _, err = run("pipeline", "run", str(tmp_path / "none.py"))
    assert (status, err) == (1, f"runnel: {tmp_path / 'none.py'}: there is no such file\n")
    (tmp_path / "pipe.yml").write_text("name: x\n")
    status, _, err = run("pipeline", "run", str(tmp_path / "pipe.yml"))
    assert (status, err.count("\n")) == (1, 1)
    assert "a pipeline is a Python file, and its name ends with .py" in err
    assert scopes == []

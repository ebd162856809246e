"""What `tailrace pipeline run` does with its options, with a run in the place of Spark's that does nothing."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

from tailrace.client.admin.sync import Admin
from tailrace.pipeline import Files, Topic
from tailrace.protocol.errors import ApiError
from tailrace.spark.option import parse_sink_options, parse_source_options
from tailrace.spark.pipeline.error import FlowError
from tailrace.spark.pipeline.plan import FlowPlan
from tailrace.spark.pipeline.tally import FlowTally
from tailrace.testing import Broker

Run = Callable[..., tuple[int, str, str]]

FILE = """
from tailrace.pipeline import files, flow, topic

@flow(source=topic("{0}"), sink=topic("{0}-out"))
def copied(records):
    return records

@flow(source=topic("{0}"), sink=files("kept"))
def kept(records):
    return records
"""


class IdleRun:
    """Flows that do nothing, for ever or for so many looks."""

    last: ClassVar["IdleRun"]
    wrong: ClassVar[Exception | None] = None
    look_count_max: ClassVar[int | None] = None
    when_looked_at: ClassVar[Callable[[], None]] = staticmethod(lambda: None)

    def __init__(self, spark: Any, _pipeline: Any, plans: list[FlowPlan], **_: Any) -> None:
        self.spark = spark
        self.plans = plans
        self.once: bool | None = None
        self.is_built = False
        self.look_count = 0
        self.stop_count = 0
        IdleRun.last = self

    def build(self) -> None:
        if IdleRun.wrong is not None:
            raise IdleRun.wrong
        self.is_built = True

    def start(self, *, once: bool) -> None:
        assert self.is_built
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


class Session:
    """A session of Spark that can be had again."""

    def newSession(self) -> "Session":
        return Session()


@pytest.fixture
def scopes(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """With what sessions would have been started."""
    found: list[dict[str, Any]] = []

    @contextmanager
    def scope(file: Path, **options: Any) -> Iterator[Session]:
        found.append({"file": file, **options})
        yield Session()

    monkeypatch.setattr("tailrace.spark.pipeline.spark_scope.spark_scope", scope)
    monkeypatch.setattr("tailrace.spark.pipeline.run.PipelineRun", IdleRun)
    monkeypatch.setattr(IdleRun, "wrong", None)
    monkeypatch.setattr(IdleRun, "look_count_max", None)
    monkeypatch.setattr(IdleRun, "when_looked_at", staticmethod(lambda: None))
    return found


@pytest.fixture
def file(tailrace_broker: Broker, topic: str, tmp_path: Path) -> Path:
    tailrace_broker.create_topic(topic)
    path = tmp_path / "pipe.py"
    path.write_text(FILE.format(topic))
    return path


def test_a_time_that_is_up_stops_the_flows(run: Run, scopes: list[dict[str, Any]], file: Path, topic: str) -> None:
    spark = ["--master", "local[3]", "--conf", "spark.executor.memory=4g"]
    status, out, err = run("pipeline", "run", str(file), "--for", "0.3s", *spark)
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        "tailrace: starting Spark, which takes some seconds",
        f"tailrace: created topic {topic}-out",
        "tailrace: flow copied stopped: 0 rows in, 0 rows out, 0 batches",
        "tailrace: flow kept stopped: 0 rows in, 0 rows out, 0 batches",
    ]
    assert (IdleRun.last.once, IdleRun.last.stop_count) == (False, 1)
    config = {"spark.executor.memory": "4g"}
    assert scopes == [{"file": file, "master": "local[3]", "log_level": "off", "config": config, "beside": ()}]


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
    assert (status, set(err.splitlines())) == (0, {"tailrace: stopping on SIGTERM"})
    assert IdleRun.last.stop_count == 1
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_flow_that_fails_is_one_line_and_status_1(
    run: Run, scopes: list[dict[str, Any]], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise FlowError("kept", "the disk is full")

    monkeypatch.setattr(IdleRun, "when_looked_at", staticmethod(fail))
    status, out, err = run("pipeline", "run", str(file))
    assert (status, err) == (1, "tailrace: flow kept: the disk is full\n")
    assert "flow copied stopped" in out


def test_a_flow_that_is_wrong_leaves_no_sink_behind(
    tailrace_broker: Broker,
    run: Run,
    scopes: list[dict[str, Any]],
    file: Path,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The topic was created before anything was known of the functions."""
    monkeypatch.setattr(IdleRun, "wrong", FlowError("copied", "no such column"))
    status, out, err = run("pipeline", "run", str(file))
    assert (status, err) == (1, "tailrace: flow copied: no such column\n")
    assert "created topic" not in out
    with Admin(tailrace_broker.bootstrap_servers) as admin:
        assert isinstance(admin.describe_topics([f"{topic}-out"])[f"{topic}-out"], ApiError)


def test_settings_of_a_file_reach_every_reader_and_writer(
    run: Run,
    scopes: list[dict[str, Any]],
    file: Path,
    tmp_path: Path,
    tailrace_broker: Broker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TAILRACE_BOOTSTRAP_SERVER")
    settings = tmp_path / "client.properties"
    settings.write_text(
        f"bootstrap.servers={tailrace_broker.bootstrap_servers}\nclient.id=me\nrequest.timeout.ms=7000\n"
        "security.protocol=PLAINTEXT\nretry.backoff.ms=5\nmetadata.max.age.ms=60000\n"
    )
    folders = ["--checkpoint", str(tmp_path / "c"), "--output", str(tmp_path / "o")]
    status, _, err = run("pipeline", "run", str(file), "--command-config", str(settings), "--for", "0s", *folders)
    assert (status, err) == (0, "")
    copied, kept = IdleRun.last.plans
    sources = [cast("Topic", plan.flow.sources[0]).source_options(plan.place) for plan in (copied, kept)]
    sink = cast("Topic", copied.flow.sink)
    expected = {"bootstrap.servers": tailrace_broker.bootstrap_servers, "client.id": "me", "request.timeout.ms": "7000"}
    for client in (
        parse_source_options(sources[0]).client,
        parse_source_options(sources[1]).client,
        parse_sink_options(sink.sink_options(copied.place)).client,
    ):
        assert dict(client.texts).items() >= expected.items()
        assert client.producer["request.timeout.ms"] == "7000"
    assert cast("Files", kept.flow.sink).sink_options(kept.place) == {"path": str(tmp_path / "o" / "kept")}
    assert (copied.checkpoint, kept.checkpoint) == (tmp_path / "c" / "copied", tmp_path / "c" / "kept")


def test_the_server_of_the_command_line_goes_before_that_of_the_file(
    run: Run, scopes: list[dict[str, Any]], file: Path, tmp_path: Path, tailrace_broker: Broker
) -> None:
    settings = tmp_path / "client.properties"
    settings.write_text("bootstrap.servers=127.0.0.1:1\n")
    given = ["--command-config", str(settings), "--bootstrap-server", tailrace_broker.bootstrap_servers]
    assert run("pipeline", "run", str(file), "--for", "0s", *given)[0] == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("client.idd=me\n", ":1: client.idd: there is no client config of this name (did you mean client.id?)"),
        ("client.id=me\nsasl.mechanism=PLAIN\n", ":2: sasl.mechanism has no effect with security.protocol=PLAINTEXT"),
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


# --- several files


@pytest.fixture
def other(file: Path, topic: str, tmp_path: Path) -> Path:
    """A second file, with a flow of a name that the first one has."""
    path = tmp_path / "beside" / "other.yaml"
    path.parent.mkdir()
    path.write_text(
        f"name: copied\nsource: {{connector: topic, name: {topic}}}\nsink: {{connector: files, path: other}}\n"
    )
    return path


def test_several_files_run_in_one_application(
    run: Run,
    scopes: list[dict[str, Any]],
    file: Path,
    other: Path,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs: list[IdleRun] = []

    def build(self: IdleRun) -> None:
        runs.append(self)
        self.is_built = True

    monkeypatch.setattr(IdleRun, "build", build)
    status, out, err = run("pipeline", "run", str(file), str(other), "--for", "0s", "--checkpoint", str(tmp_path / "c"))
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        "tailrace: starting Spark, which takes some seconds",
        f"tailrace: created topic {topic}-out",
        "tailrace: flow pipe/copied stopped: 0 rows in, 0 rows out, 0 batches",
        "tailrace: flow pipe/kept stopped: 0 rows in, 0 rows out, 0 batches",
        "tailrace: flow other/copied stopped: 0 rows in, 0 rows out, 0 batches",
    ]
    assert [(scope["file"], scope["beside"]) for scope in scopes] == [(file, (other,))]
    first, second = runs
    assert first.spark is not second.spark
    assert [plan.checkpoint for plan in (*first.plans, *second.plans)] == [
        tmp_path / "c" / "pipe" / "copied",
        tmp_path / "c" / "pipe" / "kept",
        tmp_path / "c" / "other" / "copied",
    ]
    assert second.plans[0].place.output == other.parent


def test_a_file_that_fails_does_not_stop_the_others(
    run: Run, scopes: list[dict[str, Any]], file: Path, other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(self: IdleRun, *, may_start: bool = True) -> bool:
        self.look_count += 1
        if len(self.plans) > 1:
            raise FlowError("kept", "the disk is full")
        return self.look_count < 3

    monkeypatch.setattr(IdleRun, "check", check)
    status, out, err = run("pipeline", "run", str(file), str(other))
    assert (status, err) == (1, "tailrace: 1 of 2 files failed: pipe.py\n")
    assert "tailrace: pipe.py stopped: flow kept: the disk is full" in out.splitlines()
    assert (len(IdleRun.last.plans), IdleRun.last.look_count, IdleRun.last.stop_count) == (1, 4, 1)


def test_two_files_of_one_name_are_refused(run: Run, scopes: list[dict[str, Any]], file: Path, tmp_path: Path) -> None:
    twin = tmp_path / "beside" / "pipe.yaml"
    status, _, err = run("pipeline", "run", str(file), str(twin))
    assert (status, err) == (
        1,
        f"tailrace: {file} and {twin} have the same name; run them apart, or rename one\n",
    )
    assert scopes == []


# --- files that are wrong

HEAD = "from tailrace.pipeline import Files, Topic, files, flow, topic\n"
FLOW = HEAD + "@flow(source=topic({0}), sink=topic({1}){2})\ndef f(rows): return rows\n"

WRONG_FILES = [
    ("", "pipe.py: the file declares no flows; declare one with @flow(source=…, sink=…)"),
    ("def f(:\n", "pipe.py:1: SyntaxError: invalid syntax"),
    ("import no_such_module_anywhere\n", "pipe.py:1: ModuleNotFoundError: No module named 'no_such_module_anywhere'"),
    ("raise SystemExit(0)\n", "pipe.py: the file exits instead of declaring flows"),
    (HEAD + "@flow\ndef f(rows): return rows\n", "pipe.py:2: @flow needs its arguments by name"),
    (FLOW.format("'a'", "'b'", ", mode='upsert'"), "pipe.py:2: flow f: mode='upsert' is not one of append, update"),
    (FLOW.format("'a', format='raw'", "'b'", ""), "pipe.py:2: flow f: topic a is a source, and format= is for a sink"),
    (
        FLOW.format("'a', options={'maxOffsetPerTrigger': 5}", "'b'", ""),
        "flow f: option maxOffsetPerTrigger: it is unknown; a source takes assign",
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
    assert err.startswith(f"tailrace: {message}")


def test_a_file_that_is_not_there_or_no_python(run: Run, scopes: list[dict[str, Any]], tmp_path: Path) -> None:
    status, _, err = run("pipeline", "run", str(tmp_path / "none.py"))
    assert (status, err) == (1, f"tailrace: {tmp_path / 'none.py'}: there is no such file\n")
    (tmp_path / "pipe.toml").write_text("name = 'x'\n")
    status, _, err = run("pipeline", "run", str(tmp_path / "pipe.toml"))
    assert (status, err.count("\n")) == (1, 1)
    assert "a pipeline is a Python or YAML file, and its name ends with .py or .yaml" in err
    assert scopes == []

"""Transactions that a killed flow has left open, when its checkpoint is removed or its file names another sink.

They have no timeout, so readers of committed records stopped at them for ever.
"""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

import tailrace
from tailrace.cli.main import main
from tailrace.client.error import BrokerUnavailable
from tailrace.spark.client_setting import parse_client_settings
from tailrace.spark.decision import Decision
from tailrace.spark.error import RetriableBrokerError
from tailrace.spark.option import Delivery, SinkOptions
from tailrace.spark.pipeline.broker_note import note_brokers, read_brokers
from tailrace.spark.pipeline.left_open import end_before_start, end_removed, end_removed_flows
from tailrace.spark.pipeline.load import load_pipeline
from tailrace.spark.pipeline.plan import FlowPlan, checkpoints_of, plan_of
from tailrace.spark.task_place import TaskPlace
from tailrace.spark.task_writer import write_prepared
from tailrace.spark.transaction_desk import TransactionDesk
from tailrace.spark.transaction_name import sink_name
from tailrace.testing import Broker

FLOW = """\
name: copy
source: {connector: topic, name: SOURCE}
sink: {connector: topic, name: SINK, format: raw}
delivery: DELIVERY
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


class Killed:
    """A flow whose driver was killed: one transaction of its last batch was decided, and another one was not."""

    def __init__(self, broker: Broker, folder: Path, name: str) -> None:
        self.file = folder / "pipe.yaml"
        self.query_id = f"query-of-{name}"
        self._broker = broker
        self._name = name
        self.declare(name)
        checkpoint = checkpoints_of(self.file) / "copy"
        checkpoint.mkdir(parents=True)
        (checkpoint / "metadata").write_text(json.dumps({"id": self.query_id}))
        for topic in (name, f"{name}-other"):
            broker.create_topic(topic)
        settings = parse_client_settings({"kafka.bootstrap.servers": broker.bootstrap_servers})
        options = SinkOptions(settings, name, Delivery.EXACTLY_ONCE)
        place = TaskPlace(self.query_id, "run", 0, 0)
        values = (b"decided", b"undecided")
        rows = [pa.record_batch({"value": [value]}) for value in values]
        decided, _ = (write_prepared(options, place, iter([each]))[1] for each in rows)
        assert decided is not None
        desk = TransactionDesk(settings, sink_name(self.query_id, name))
        desk.take("run")
        desk.decide(Decision(0, "run", (decided,)))
        desk.close()
        with tailrace.Producer(broker.bootstrap_servers) as producer:
            producer.send(name, b"later")

    @property
    def checkpoint(self) -> Path:
        return checkpoints_of(self.file) / "copy"

    def declare_another(self, name: str = "copy") -> None:
        """Declare a flow that reads and writes no topics."""
        source, sink = "{connector: lines, path: in.txt}", "{connector: lines, path: out.txt}"
        self.file.write_text(f"name: {name}\nsource: {source}\nsink: {sink}\n")

    def declare(self, sink: str, delivery: str = "exactly-once") -> None:
        text = FLOW.replace("SOURCE", f"{self._name}-source").replace("SINK", sink)
        self.file.write_text(text.replace("DELIVERY", delivery))

    def plan(self) -> FlowPlan:
        (flow,) = load_pipeline(self.file).flows
        client = {"bootstrap.servers": self._broker.bootstrap_servers}
        return plan_of(flow, client, checkpoints_of(self.file), self.file.parent)

    def seen(self) -> list[bytes]:
        """What a reader of committed records gets."""
        servers = self._broker.bootstrap_servers
        table = tailrace.read_table(servers, self._name, columns=["value"], isolation_level="read_committed")
        return sorted(table.column("value").to_pylist())


def test_a_reset_ends_the_transactions_of_the_flow(broker: Broker, tmp_path: Path) -> None:
    flow = Killed(broker, tmp_path, "reset")
    assert flow.seen() == []
    command = ["pipeline", "reset", str(flow.file), "--yes", "--bootstrap-server", broker.bootstrap_servers]
    assert main(command) == 0
    assert flow.seen() == [b"decided", b"later"]
    assert not (checkpoints_of(flow.file) / "copy").exists()


def test_a_reset_without_the_brokers_removes_nothing(
    broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise BrokerUnavailable("no broker answers")

    flow = Killed(broker, tmp_path, "unreachable")
    monkeypatch.setattr("tailrace.client.admin.sync.Admin.__enter__", fail)
    assert main(["pipeline", "reset", str(flow.file), "--yes"]) == 1
    assert f"the transactions of query {flow.query_id} could not be listed: no broker" in capsys.readouterr().err
    assert (checkpoints_of(flow.file) / "copy" / "metadata").exists()


@pytest.mark.parametrize(("sink", "delivery"), [("-other", "exactly-once"), ("", "at-least-once")])
def test_a_start_ends_the_transactions_of_a_sink_that_the_file_does_not_name_any_more(
    broker: Broker, tmp_path: Path, sink: str, delivery: str
) -> None:
    flow = Killed(broker, tmp_path, f"changed-{delivery}")
    flow.declare(f"changed-{delivery}{sink}", delivery)
    assert end_before_start(flow.plan()) == 2
    assert flow.seen() == [b"decided", b"later"]
    assert end_before_start(flow.plan()) == 0


def test_a_start_without_the_brokers_is_tried_again_later(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise BrokerUnavailable("no broker answers")

    flow = Killed(broker, tmp_path, "away")
    monkeypatch.setattr("tailrace.client.admin.sync.Admin.__enter__", fail)
    with pytest.raises(RetriableBrokerError, match=f"the transactions of query {flow.query_id} could not be listed"):
        end_before_start(flow.plan())


def test_a_start_leaves_the_transactions_of_its_sink_to_the_next_batch(broker: Broker, tmp_path: Path) -> None:
    flow = Killed(broker, tmp_path, "unchanged")
    assert end_before_start(flow.plan()) == 0
    assert flow.seen() == []


def fail(*_: object, **__: object) -> None:
    raise BrokerUnavailable("no broker answers")


def test_a_start_notes_where_the_flow_writes_transactions(broker: Broker, tmp_path: Path) -> None:
    flow = Killed(broker, tmp_path, "noted")
    end_before_start(flow.plan())
    assert read_brokers(flow.checkpoint) == {broker.bootstrap_servers}
    flow.declare("noted", "at-least-once")
    end_before_start(flow.plan())
    assert read_brokers(flow.checkpoint) == set()


def test_a_start_ends_the_transactions_of_a_flow_without_topics_now(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = Killed(broker, tmp_path, "topicless")
    note_brokers(flow.checkpoint, [broker.bootstrap_servers])
    flow.declare_another()
    said: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr("tailrace.client.admin.sync.Admin.__enter__", fail)
        assert end_before_start(flow.plan(), said.append) == 0
    (line,) = said
    assert line.startswith(f"flow copy may have left transactions open on {broker.bootstrap_servers}: ")
    assert end_before_start(flow.plan(), said.append) == 2
    assert (flow.seen(), len(said)) == ([b"decided", b"later"], 1)
    assert read_brokers(flow.checkpoint) == set()


def test_a_reset_ends_the_transactions_of_a_flow_without_topics_now(broker: Broker, tmp_path: Path) -> None:
    flow = Killed(broker, tmp_path, "reset-topicless")
    note_brokers(flow.checkpoint, [broker.bootstrap_servers])
    flow.declare_another()
    assert main(["pipeline", "reset", str(flow.file), "--yes"]) == 0
    assert flow.seen() == [b"decided", b"later"]


@pytest.mark.parametrize("is_noted", [True, False])
def test_the_transactions_of_a_flow_that_the_file_has_no_more_are_ended(
    broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str], *, is_noted: bool
) -> None:
    flow = Killed(broker, tmp_path, f"removed-{is_noted}")
    if is_noted:
        note_brokers(flow.checkpoint, [broker.bootstrap_servers])
    flow.declare_another("other")
    servers = ["--bootstrap-server", broker.bootstrap_servers]
    assert main(["pipeline", "status", str(flow.file), *servers]) == 0
    assert "copy\tnot in the file\t0" in capsys.readouterr().out
    assert main(["pipeline", "reset", str(flow.file), "--flow", "copy", "--yes", *servers]) == 0
    assert capsys.readouterr().out == "tailrace: flow copy is removed with its checkpoint\n"
    assert flow.seen() == [b"decided", b"later"]
    assert not flow.checkpoint.exists()


def test_a_run_ends_the_transactions_of_a_flow_that_the_file_has_no_more(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = Killed(broker, tmp_path, "gone")
    flow.declare_another("other")
    said: list[str] = []
    run = partial(
        end_removed_flows,
        load_pipeline(flow.file),
        flow.checkpoint.parent,
        {"bootstrap.servers": broker.bootstrap_servers},
        said.append,
    )
    with monkeypatch.context() as patch:
        patch.setattr("tailrace.client.admin.sync.Admin.__enter__", fail)
        run()
    assert said.pop().startswith(
        "flow copy, which is not in pipe.yaml any more, may have left transactions open; "
        "tailrace pipeline reset pipe.yaml --flow copy ends them: "
    )
    run()
    assert said == ["ended 2 open transactions of flow copy, which is not in pipe.yaml any more"]
    assert flow.seen() == [b"decided", b"later"]
    monkeypatch.setattr("tailrace.client.admin.sync.Admin.__enter__", fail)
    run()  # asks no broker again
    assert len(said) == 1


def test_a_flow_that_comes_back_to_the_file_knows_its_last_batch(broker: Broker, tmp_path: Path) -> None:
    flow = Killed(broker, tmp_path, "back")
    assert end_removed(flow.checkpoint, {"bootstrap.servers": broker.bootstrap_servers}) == 2
    settings = parse_client_settings({"kafka.bootstrap.servers": broker.bootstrap_servers})
    desk = TransactionDesk(settings, sink_name(flow.query_id, "back"))
    last = desk.take("second run").decision
    desk.close()
    assert last is not None
    assert last.batch_id == 0

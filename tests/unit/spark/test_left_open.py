"""Transactions that a killed flow has left open, when its checkpoint is removed or its file names another sink.

They have no timeout, so readers of committed records stopped at them for ever.
"""

import json
from collections.abc import Iterator
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
from tailrace.spark.pipeline.left_open import end_before_start
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

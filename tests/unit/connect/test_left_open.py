"""Transactions that the killed application of a connector has left open, when its checkpoints are removed.

They have no timeout, so readers of committed records stopped at them for ever.
"""

import json
from collections.abc import Awaitable, Callable

import httpx
import pyarrow as pa
import pytest
from tests.unit.connect.conftest import await_state, serving, starts

import tailrace
from tailrace.connect.folder import ConnectorFolder
from tailrace.connect.service import ServiceOptions
from tailrace.spark.client_setting import parse_client_settings
from tailrace.spark.option import Delivery, SinkOptions
from tailrace.spark.task_place import TaskPlace
from tailrace.spark.task_writer import write_prepared
from tailrace.testing import Broker


def leave_open(broker: Broker, options: ServiceOptions, name: str, topic: str) -> None:
    """Do what a source does that is killed within its second batch."""
    checkpoint = ConnectorFolder(options.data, name).checkpoints / name
    for folder in ("offsets", "commits"):
        (checkpoint / folder).mkdir(parents=True)
        (checkpoint / folder / "0").write_text('v1\n{}\n{"position": 19}')
    (checkpoint / "metadata").write_text(json.dumps({"id": f"query-{topic}"}))
    settings = parse_client_settings({"kafka.bootstrap.servers": broker.bootstrap_servers})
    sink = SinkOptions(settings, topic, Delivery.EXACTLY_ONCE)
    rows = pa.record_batch({"value": [b"undecided"]})
    write_prepared(sink, TaskPlace(f"query-{topic}", "run", 1, 0), iter([rows]))
    with tailrace.Producer(broker.bootstrap_servers) as producer:
        producer.send(topic, b"later")


def seen(broker: Broker, topic: str) -> list[bytes]:
    """What a reader of committed records gets."""
    table = tailrace.read_table(broker.bootstrap_servers, topic, columns=["value"], isolation_level="read_committed")
    found: list[bytes] = table.column("value").to_pylist()
    return found


async def delete(client: httpx.AsyncClient) -> httpx.Response:
    return await client.delete("/connectors/lines")


async def reset_offsets(client: httpx.AsyncClient) -> httpx.Response:
    await client.put("/connectors/lines/stop")
    return await client.delete("/connectors/lines/offsets")


async def name_another_file(client: httpx.AsyncClient) -> httpx.Response:
    return await client.patch("/connectors/lines/config", json={"file": "/data/b.txt"})


@pytest.mark.parametrize("change", [delete, reset_offsets, name_another_file])
async def test_readers_of_the_topic_do_not_wait_for_them(
    broker: Broker, options: ServiceOptions, change: Callable[[httpx.AsyncClient], Awaitable[httpx.Response]]
) -> None:
    topic = f"left-open-{change.__name__}"
    broker.create_topic(topic)
    async with serving(options) as client:
        config = {"connector.class": "FileStreamSource", "file": "/data/a.txt", "topic": topic}
        await client.put("/connectors/lines/config", json=config)
        await await_state(client, "lines", "RUNNING")
        leave_open(broker, options, "lines", topic)
        assert seen(broker, topic) == []
        assert (await change(client)).is_success
        if change is name_another_file:  # the checkpoint is removed when the application is started again
            await await_state(client, "lines", "RUNNING")
            assert len(starts(options, "lines")) == 2
    assert seen(broker, topic) == [b"later"]

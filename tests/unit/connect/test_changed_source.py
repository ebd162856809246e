"""A new config that lets a connector read something else, with applications that need no Spark."""

import asyncio
import json
from typing import Any

import httpx
import pytest
from tests.unit.connect.conftest import await_state, eventually, serving, starts

import tailrace
from tailrace.connect.folder import ConnectorFolder
from tailrace.connect.service import ServiceOptions
from tailrace.testing import Broker


def write_checkpoint(options: ServiceOptions, name: str, flow: str, offset: dict[str, Any]) -> None:
    """Write what Spark leaves when a flow has finished its first batch."""
    checkpoint = ConnectorFolder(options.data, name).checkpoints / flow
    for folder, content in (("offsets", f"v1\n{{}}\n{json.dumps(offset)}"), ("commits", "v1\n{}")):
        (checkpoint / folder).mkdir(parents=True)
        (checkpoint / folder / "0").write_text(content)


async def start_count(options: ServiceOptions, name: str, count: int) -> dict[str, Any]:
    """Wait for a number of starts, and return the source of the last one."""
    found = await eventually(lambda: asyncio.sleep(0, starts(options, name)), lambda noted: len(noted) == count)
    source: dict[str, Any] = found[-1]["source"]
    return source


async def create(client: httpx.AsyncClient, name: str, plugin: str, **config: str) -> None:
    answer = await client.put(f"/connectors/{name}/config", json={"connector.class": plugin, **config})
    assert answer.status_code == 201, answer.text
    await await_state(client, name, "RUNNING")


async def test_another_file_is_read_from_its_own_position(options: ServiceOptions) -> None:
    """The position in the first file was taken for one in the second, whose first lines were lost."""
    async with serving(options) as client:
        await create(client, "lines", "FileStreamSource", file="/data/a.txt", topic="lines")
        write_checkpoint(options, "lines", "lines", {"position": 19})
        await client.patch("/connectors/lines/config", json={"file": "/data/b.txt"})
        assert await start_count(options, "lines", 2) == {"connector": "lines", "path": "/data/b.txt", "start": 0}
        await client.patch("/connectors/lines/config", json={"file": "/data/a.txt"})
        assert await start_count(options, "lines", 3) == {"connector": "lines", "path": "/data/a.txt", "start": 19}


async def test_the_offset_of_a_stopped_source_names_the_file_that_was_read(options: ServiceOptions) -> None:
    async with serving(options) as client:
        await create(client, "lines", "FileStreamSource", file="/data/a.txt", topic="lines")
        write_checkpoint(options, "lines", "lines", {"position": 19})
        await client.put("/connectors/lines/stop")
        await client.patch("/connectors/lines/config", json={"file": "/data/b.txt"})
        found = (await client.get("/connectors/lines/offsets")).json()["offsets"]
        assert found == [{"partition": {"filename": "/data/a.txt"}, "offset": {"position": 19}}]


async def test_other_topics_are_read_from_the_committed_offsets(broker: Broker, options: ServiceOptions) -> None:
    """Spark refused the checkpoint, which held offsets of a topic that was no longer read, and said it was deleted."""
    async with serving(options) as client:
        for topic in ("first", "second"):
            broker.create_topic(topic, 1)
        await create(client, "out", "FileStreamSink", file="/data/out.txt", topics="first")
        write_checkpoint(options, "out", "out", {"first": {"0": 7}})
        await client.patch("/connectors/out/config", json={"topics": "second"})
        assert "start" not in await start_count(options, "out", 2)
        await client.patch("/connectors/out/config", json={"topics": "first,second"})
        assert json.loads((await start_count(options, "out", 3))["start"]) == {"first": {"0": 7}, "second": {"0": -2}}


async def test_records_that_a_sink_may_get_twice_are_in_the_log(
    broker: Broker, options: ServiceOptions, caplog: pytest.LogCaptureFixture
) -> None:
    """The application was killed within a batch that the sink may have written."""
    async with serving(options) as client:
        for topic in ("twice", "more"):
            broker.create_topic(topic, 1)
        await create(client, "out", "FileStreamSink", file="/data/out.txt", topics="twice")
        write_checkpoint(options, "out", "out", {"twice": {"0": 7}})
        offsets = ConnectorFolder(options.data, "out").checkpoints / "out" / "offsets"
        (offsets / "1").write_text('v1\n{}\n{"twice": {"0": 9}}')
        await client.patch("/connectors/out/config", json={"topics": "twice,more"})
        assert json.loads((await start_count(options, "out", 2))["start"]) == {"more": {"0": -2}, "twice": {"0": 7}}
    messages = [record.getMessage() for record in caplog.records]
    (warning,) = [each for each in messages if "have changed before batch" in each]
    assert warning.startswith("connector out: its topics have changed before batch 1 of flow out was finished; ")
    assert warning.endswith(": twice-0 offsets 7 to 8")


async def test_a_topic_that_was_deleted_does_not_keep_a_connector_from_others(
    broker: Broker, options: ServiceOptions
) -> None:
    """The brokers refused the offsets of the deleted topic, and the connector tried to write them for ever."""
    async with serving(options) as client:
        for topic in ("deleted", "kept"):
            broker.create_topic(topic, 1)
        await create(client, "out", "FileStreamSink", file="/data/out.txt", topics="deleted")
        write_checkpoint(options, "out", "out", {"deleted": {"0": 7}})
        with tailrace.Admin(broker.bootstrap_servers) as admin:
            admin.delete_topics(["deleted"])
        await client.patch("/connectors/out/config", json={"topics": "kept"})
        assert "start" not in await start_count(options, "out", 2)


async def test_a_flow_for_each_topic_begins_where_the_flow_for_one_ended(
    broker: Broker, options: ServiceOptions
) -> None:
    """With a second topic the flow of the first has another name; it had no checkpoint, and read all records again."""
    async with serving(options) as client:
        for topic in ("orders", "refunds"):
            broker.create_topic(topic, 1)
        config = {"connection.url": "jdbc:postgresql://db.example/shop", "tailrace.schema": "id long"}
        await create(client, "rows", "JdbcSink", topics="orders", **config)
        write_checkpoint(options, "rows", "rows", {"orders": {"0": 5}})
        changed = await client.patch("/connectors/rows/config", json={"topics": "orders,refunds"})
        assert changed.status_code == 200, changed.text
        await start_count(options, "rows", 2)
        flows = ConnectorFolder(options.data, "rows").read_pipeline()
        assert {name: flow["source"].get("start") for name, flow in flows.items()} == {
            "rows.orders": '{"orders": {"0": 5}}',
            "rows.refunds": None,
        }


async def test_the_same_source_goes_on_from_its_checkpoint(broker: Broker, options: ServiceOptions) -> None:
    async with serving(options) as client:
        broker.create_topic("same", 1)
        await create(client, "out", "FileStreamSink", file="/data/out.txt", topics="same")
        write_checkpoint(options, "out", "out", {"same": {"0": 7}})
        await client.patch("/connectors/out/config", json={"file": "/data/other.txt"})
        assert "start" not in await start_count(options, "out", 2)
        assert ConnectorFolder(options.data, "out").has_progress("out")


async def test_texts_reach_the_application_as_they_are(options: ServiceOptions) -> None:
    """YAML reads the two escapes that JSON has for a character beyond U+FFFF as two characters."""
    path = "/data/a b\u2028\u0085\x7f😀: '\"#.txt"
    async with serving(options) as client:
        await create(client, "lines", "FileStreamSource", file=path, topic="lines")
        assert (await start_count(options, "lines", 1))["path"] == path


async def test_the_last_batch_of_a_source_is_noted_when_its_application_has_ended(
    broker: Broker, options: ServiceOptions
) -> None:
    """A batch that ended after the last report was missing, so a Kafka Connect that took over read it again."""
    async with serving(options) as client:
        await create(client, "lines", "FileStreamSource", file="/data/a.txt", topic="lines")
        write_checkpoint(options, "lines", "lines", {"position": 19})
    found = [(record.key, record.value) for record in broker.consume(options.topics.offsets)]
    assert found == [(b'["lines",{"filename":"/data/a.txt"}]', b'{"position":19}')]

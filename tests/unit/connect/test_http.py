"""The REST API of the Connect service, with applications that need no Spark."""

import asyncio
import os
import re
import signal
from typing import Any

import httpx
import pytest
from tests.unit.connect.conftest import await_state, eventually, serving, starts

from tailrace.connect.process import ConnectServer, Listening
from tailrace.connect.service import ServiceOptions
from tailrace.connect.store import Replaced
from tailrace.testing import Broker

SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
CONFIG = {"connector.class": SOURCE, "file": "/data/lines.txt", "topic": "lines", "tasks.max": "1"}


async def create(client: httpx.AsyncClient, name: str = "lines", **settings: Any) -> httpx.Response:
    return await client.post("/connectors", json={"name": name, "config": {**CONFIG, **settings}})


async def test_a_connector_from_its_creation_to_its_end(options: ServiceOptions) -> None:
    async with serving(options) as client:
        assert (await client.get("/connectors")).json() == []
        created = await create(client)
        info = {
            "name": "lines",
            "config": {**CONFIG, "name": "lines"},
            "tasks": [{"connector": "lines", "task": 0}],
            "type": "source",
        }
        assert (created.status_code, created.headers["location"]) == (201, "/connectors/lines")
        assert created.json() == {**info, "tasks": []}
        status = await await_state(client, "lines", "RUNNING")
        assert (status["connector"]["state"], status["connector"]["worker_id"]) == ("RUNNING", "127.0.0.1:8083")
        assert (await client.get("/connectors")).json() == ["lines"]
        expanded = (await client.get("/connectors?expand=status&expand=info")).json()
        assert expanded == {"lines": {"status": status, "info": info}}
        assert (await client.get("/connectors/lines/config")).json() == info["config"]
        tasks = (await client.get("/connectors/lines/tasks")).json()
        assert [task["id"] for task in tasks] == [{"connector": "lines", "task": 0}]
        assert (await client.get("/connectors/lines/tasks/0/status")).json()["state"] == "RUNNING"
        topics = await eventually(
            lambda: client.get("/connectors/lines/topics"), lambda answer: answer.json()["lines"]["topics"] != []
        )
        assert topics.json() == {"lines": {"topics": ["lines"]}}
        assert (await client.put("/connectors/lines/topics/reset")).status_code == 202
        assert (await client.get("/connectors/lines/topics")).json() == {"lines": {"topics": []}}
        assert (await client.delete("/connectors/lines")).status_code == 204
        assert (await client.get("/connectors/lines")).json() == {
            "error_code": 404,
            "message": "Connector lines not found",
        }
        assert not (options.data / "lines").exists()


async def test_pause_resume_and_stop(options: ServiceOptions) -> None:
    async with serving(options) as client:
        await create(client)
        await await_state(client, "lines", "RUNNING")
        assert (await client.put("/connectors/lines/pause")).status_code == 202
        await await_state(client, "lines", "PAUSED")
        with pytest.raises(ProcessLookupError):
            os.kill(starts(options, "lines")[0]["pid"], 0)
        assert (await client.put("/connectors/lines/resume")).status_code == 202
        await await_state(client, "lines", "RUNNING")
        assert (await client.put("/connectors/lines/stop")).status_code == 204
        status = (await client.get("/connectors/lines/status")).json()
        assert (status["connector"]["state"], status["tasks"]) == ("STOPPED", [])
        assert (await client.get("/connectors/lines/tasks")).json() == []
        assert (await client.put("/connectors/lines/resume")).status_code == 202
        await await_state(client, "lines", "RUNNING")
        assert len(starts(options, "lines")) == 3


async def test_a_new_config_starts_the_connector_anew(options: ServiceOptions) -> None:
    async with serving(options) as client:
        created = await client.put("/connectors/lines/config", json=CONFIG)
        assert created.status_code == 201
        await await_state(client, "lines", "RUNNING")
        changed = await client.put("/connectors/lines/config", json={**CONFIG, "file": "/data/other.txt"})
        assert (changed.status_code, changed.json()["config"]["file"]) == (200, "/data/other.txt")
        await eventually(lambda: asyncio.sleep(0, starts(options, "lines")), lambda found: len(found) == 2)
        patched = await client.patch("/connectors/lines/config", json={"file": "/data/third.txt", "tasks.max": None})
        assert patched.json()["config"] == {
            "connector.class": SOURCE,
            "file": "/data/third.txt",
            "topic": "lines",
            "name": "lines",
        }
        paths = await eventually(lambda: asyncio.sleep(0, starts(options, "lines")), lambda found: len(found) == 3)
        assert [each["source"]["path"] for each in paths] == ["/data/lines.txt", "/data/other.txt", "/data/third.txt"]


async def test_an_application_that_fails_is_failed_until_it_is_restarted(options: ServiceOptions) -> None:
    async with serving(options) as client:
        await create(client, topic="fail")
        status = await await_state(client, "lines", "FAILED")
        assert status["tasks"][0]["trace"] == "flow a: no such column"
        assert status["connector"]["state"] == "RUNNING"
        assert (await client.post("/connectors/lines/restart?includeTasks=true&onlyFailed=true")).status_code == 202
        await eventually(lambda: asyncio.sleep(0, starts(options, "lines")), lambda found: len(found) == 2)
        await await_state(client, "lines", "FAILED")
        assert (await client.post("/connectors/lines/tasks/0/restart")).status_code == 204
        await eventually(lambda: asyncio.sleep(0, starts(options, "lines")), lambda found: len(found) == 3)
        assert (await client.post("/connectors/lines/tasks/1/restart")).status_code == 404


@pytest.mark.parametrize("script", ["lose-then-run", "die-then-run", "babble-then-run"])
async def test_an_application_that_dies_comes_back(options: ServiceOptions, script: str) -> None:
    async with serving(options) as client:
        await create(client, topic=script)
        await await_state(client, "lines", "RUNNING")
        assert len(starts(options, "lines")) == 2
        os.kill(starts(options, "lines")[1]["pid"], signal.SIGKILL)
        await eventually(lambda: asyncio.sleep(0, starts(options, "lines")), lambda found: len(found) == 3)
        await await_state(client, "lines", "RUNNING")


async def test_connectors_outlive_the_service(options: ServiceOptions) -> None:
    async with serving(options) as client:
        await create(client, "runs")
        await create(client, "paused")
        await client.put("/connectors/paused/pause")
        await await_state(client, "runs", "RUNNING")
    async with serving(options) as client:
        assert sorted((await client.get("/connectors")).json()) == ["paused", "runs"]
        await await_state(client, "runs", "RUNNING")
        assert (await client.get("/connectors/paused/status")).json()["connector"]["state"] == "PAUSED"


async def test_a_newer_service_takes_over(options: ServiceOptions) -> None:
    """The older one stops its applications."""
    older = ConnectServer(options, Listening())
    ready = asyncio.Event()
    running = asyncio.create_task(older.run(ready.set))
    await ready.wait()
    async with httpx.AsyncClient(base_url=older.url, timeout=60) as client:
        await create(client)
        await await_state(client, "lines", "RUNNING")
    async with serving(options) as client:
        with pytest.raises(BaseExceptionGroup) as raised:
            await running
        assert raised.value.subgroup(Replaced) is not None
        await await_state(client, "lines", "RUNNING")


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"name": "a", "config": {}}, 400, "contains no connector type"),
        ({"name": "", "config": CONFIG}, 400, "String may not be empty"),
        ({"name": "a\nb", "config": CONFIG}, 400, "control sequences"),
        ({"name": "a", "config": {**CONFIG, "name": "b"}}, 400, r"configuration \(b\) doesn't match connector name"),
        ({"name": "a", "config": {**CONFIG, "connector.class": "No"}}, 400, "Failed to find any class"),
        ({"name": "a", "config": {"connector.class": SOURCE, "file": "x"}}, 400, "following 1 error"),
        ({"name": "a", "config": {**CONFIG, "transforms": "x"}}, 400, "not supported"),
        ({"name": "a", "config": CONFIG, "initial_state": "LATER"}, 400, "initial_state is"),
        ({"name": "a", "config": []}, 400, "config:"),
        ({"name": "a"}, 400, "config:"),
        ([], 400, "body"),
    ],
)
async def test_bad_requests_are_refused(options: ServiceOptions, body: Any, status: int, message: str) -> None:
    async with serving(options) as client:
        answer = await client.post("/connectors", json=body)
        assert answer.status_code == answer.json()["error_code"] == status
        assert re.search(message, answer.json()["message"]), answer.json()
        assert (await client.get("/connectors")).json() == []


async def test_other_refusals(options: ServiceOptions) -> None:
    async with serving(options) as client:
        await create(client)
        assert (await create(client)).json() == {"error_code": 409, "message": "Connector lines already exists"}
        malformed = await client.post("/connectors", content=b"{", headers={"content-type": "application/json"})
        assert (malformed.status_code, malformed.json()["error_code"]) == (400, 400)
        for method, path in (
            ("GET", "/connectors/no/status"),
            ("PUT", "/connectors/no/pause"),
            ("POST", "/connectors/no/restart"),
            ("GET", "/connectors/no/offsets"),
            ("DELETE", "/connectors/no"),
            ("GET", "/nowhere"),
        ):
            answer = await client.request(method, path)
            assert (answer.status_code, answer.json()["error_code"]) == (404, 404), (method, path)


async def test_initial_state(options: ServiceOptions) -> None:
    async with serving(options) as client:
        body = {"name": "lines", "config": CONFIG, "initial_state": "STOPPED"}
        assert (await client.post("/connectors", json=body)).json()["tasks"] == []
        assert (await client.get("/connectors/lines/status")).json()["connector"]["state"] == "STOPPED"
        assert starts(options, "lines") == []


async def test_offsets_of_a_sink(broker: Broker, options: ServiceOptions) -> None:
    async with serving(options) as client:
        broker.create_topic("orders", 2)
        config = {"connector.class": SINK, "file": "/data/orders.txt", "topics": "orders"}
        await client.post("/connectors", json={"name": "out", "config": config})
        await await_state(client, "out", "RUNNING")
        wanted = {"partition": {"kafka_topic": "orders", "kafka_partition": 1}, "offset": {"kafka_offset": 7}}
        refused = await client.patch("/connectors/out/offsets", json={"offsets": [wanted]})
        assert (refused.status_code, "must be in the STOPPED state" in refused.json()["message"]) == (400, True)
        await client.put("/connectors/out/stop")
        assert (await client.patch("/connectors/out/offsets", json={"offsets": []})).status_code == 400
        away = {**wanted, "partition": {"kafka_topic": "orders", "kafka_partition": 9}}
        assert (await client.patch("/connectors/out/offsets", json={"offsets": [away]})).status_code == 400
        wrong = {"partition": {"filename": "x"}, "offset": {"position": 1}}
        assert (await client.patch("/connectors/out/offsets", json={"offsets": [wrong]})).status_code == 400
        altered = await client.patch("/connectors/out/offsets", json={"offsets": [wanted]})
        assert altered.json() == {"message": "The offsets for this connector have been altered successfully"}
        assert (await client.get("/connectors/out/offsets")).json() == {"offsets": [wanted]}
        await client.put("/connectors/out/resume")
        noted = await eventually(lambda: asyncio.sleep(0, starts(options, "out")), lambda found: len(found) == 2)
        assert noted[1]["source"]["start"] == '{"orders": {"0": -2, "1": 7}}'
        await client.put("/connectors/out/stop")
        reset = await client.delete("/connectors/out/offsets")
        assert reset.json() == {"message": "The offsets for this connector have been reset successfully"}
        assert (await client.get("/connectors/out/offsets")).json() == {"offsets": []}


async def test_plugins(options: ServiceOptions) -> None:
    async with serving(options) as client:
        plugins = (await client.get("/connector-plugins")).json()
        assert {"class": SOURCE, "type": "source"}.items() <= next(p for p in plugins if p["class"] == SOURCE).items()
        every = (await client.get("/connector-plugins?connectorsOnly=false")).json()
        assert {plugin["type"] for plugin in every} == {"source", "sink", "converter"}
        definitions = (await client.get("/connector-plugins/FileStreamSource/config")).json()
        assert [definition["name"] for definition in definitions][:4] == ["file", "topic", "batch.size", "name"]
        wrong = {"connector.class": "FileStreamSource", "file": "x"}
        result = (await client.put("/connector-plugins/FileStreamSource/config/validate", json=wrong)).json()
        assert result["error_count"] > 0
        assert (await client.get("/connector-plugins/No/config")).status_code == 404
        mixed = await client.put("/connector-plugins/FileStreamSink/config/validate", json=wrong)
        assert (mixed.status_code, "does not match request type" in mixed.json()["message"]) == (400, True)


async def test_the_service_tells_about_itself(options: ServiceOptions) -> None:
    async with serving(options) as client:
        root = (await client.get("/")).json()
        assert set(root) == {"version", "commit", "kafka_cluster_id"}
        assert root["kafka_cluster_id"]
        assert (await client.get("/health")).json()["status"] == "healthy"
        await create(client)
        await await_state(client, "lines", "RUNNING")
        assert 'tailrace_connect_tasks{state="RUNNING"} 1' in (await client.get("/metrics")).text


async def test_levels_of_loggers(options: ServiceOptions) -> None:
    async with serving(options) as client:
        name = "tailrace.connect.test"
        assert (await client.get(f"/admin/loggers/{name}")).status_code == 404
        changed = await client.put(f"/admin/loggers/{name}", json={"level": "debug"})
        assert changed.json() == [name]
        level = (await client.get(f"/admin/loggers/{name}")).json()
        assert level["level"] == "DEBUG"
        assert level["last_modified"] > 0
        assert (await client.put(f"/admin/loggers/{name}?scope=cluster", json={"level": "WARN"})).status_code == 204
        assert (await client.get("/admin/loggers")).json()[name]["level"] == "WARN"
        assert (await client.put(f"/admin/loggers/{name}", json={"level": "LOUD"})).status_code == 404
        assert (await client.put(f"/admin/loggers/{name}", json={})).status_code == 400

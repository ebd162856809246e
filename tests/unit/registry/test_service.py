"""Work on schemas, which a registry does in threads on the state of one moment."""

import asyncio
import threading

import pytest
from tests.unit.registry.answers.call import Call, avro, get, look_up, post, record, register
from tests.unit.registry.answers.record import ask
from tests.unit.registry.core.registered import Registered

from tailrace.registry.core import parser as parsing
from tailrace.registry.core.parser import SchemaParser
from tailrace.registry.core.state import State
from tailrace.registry.election import Member
from tailrace.registry.service import Registry
from tailrace.schema.language import Imports, Schema, SchemaType
from tailrace.testing import Broker, SchemaRegistry

ASSOCIATED = {
    "resourceName": "t",
    "resourceNamespace": "cluster",
    "resourceId": "id-1",
    "associations": [{"schema": avro("bytes")}],
}

CALLS: list[Call] = [
    register("a", record("R", a="int")),
    look_up("a", record("R", b="int")),
    post("/compatibility/subjects/a/versions", record("R", c="int")),
    post("/compatibility/subjects/a/versions/1", record("R", d="int")),
    get("/subjects/a/versions/1?format=resolved"),
    get("/subjects/a/versions/1/schema?format=resolved"),
    get("/schemas/ids/1?format=resolved"),
    get("/schemas/ids/1/schema?format=resolved"),
    post("/associations?dryRun=true", ASSOCIATED),
    post("/associations", ASSOCIATED),
]


async def test_a_thread_reads_the_state_of_the_moment_at_which_it_was_asked() -> None:
    registry = Registry("localhost:9092", Member("localhost", 8081))
    has_begun, may_end = threading.Event(), threading.Event()

    def look(state: State, _parser: SchemaParser) -> tuple[bool, list[str]]:
        has_begun.set()
        return may_end.wait(60), state.subjects()

    looking = asyncio.create_task(registry.examine(look))
    while not has_begun.is_set():
        await asyncio.sleep(0)
    written = Registered()
    written.state = registry.state
    written.register("a", '"int"')
    may_end.set()
    assert await looking == (True, [])
    assert registry.state.subjects() == ["a"]


def test_no_schema_is_parsed_on_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte of JSON Schema took six seconds there, in which no heartbeat was sent and no other request served."""
    names: list[str] = []
    parse = parsing._parse

    def noted(kind: SchemaType, text: str, imports: Imports, *, is_new: bool) -> Schema:
        names.append(threading.current_thread().name)
        return parse(kind, text, imports, is_new=is_new)

    monkeypatch.setattr(parsing, "_parse", noted)
    monkeypatch.setattr(parsing, "REGISTRY_PARSED_COUNT_MAX", 0)
    with (
        Broker({"group.initial.rebalance.delay.ms": 0}) as broker,
        SchemaRegistry(broker.bootstrap_servers) as registry,
    ):
        for call in CALLS:
            names.clear()
            answer = ask(call, registry.url)
            assert answer["status"] in (200, 404), (call, answer)
            assert names, f"{call} parses a schema"
            assert all(name.startswith(("registry-reader", "registry-writer")) for name in names), call

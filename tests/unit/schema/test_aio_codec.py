"""Codecs for asyncio: the event loop never waits for the registry."""

import asyncio
import json
import threading
from typing import Any

import pyarrow as pa
import pytest
from google.api import client_pb2  # type: ignore[import-untyped]

from tailrace.schema import CodecError, RegistryUnavailable, aio
from tailrace.schema.http import Request

RECORD = json.dumps({"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]})
JSON = json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}})
PROTOBUF = 'syntax = "proto3"; message R { int64 n = 1; }'


class Gate:
    """The HTTP client of a registry that answers in a thread, when the event loop lets it."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.may_answer = threading.Event()
        self.error: Exception | None = None
        self._loop_thread = threading.get_ident()

    def send(self, request: Request) -> Any:
        assert threading.get_ident() != self._loop_thread, "the event loop waits for the registry"
        self.asked.append(f"{request.method} {request.path}")
        assert self.may_answer.wait(60)
        if self.error is not None:
            raise self.error
        return {"id": 7, "schema": (request.body or {}).get("schema", RECORD), "subject": "t-value", "version": 1}


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def registry(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> aio.Registry:
    made = aio.Registry("http://127.0.0.1:1")
    monkeypatch.setattr(made.sync._http, "send", gate.send)
    return made


@pytest.mark.parametrize(
    ("kind", "schema"), [(aio.AvroCodec, RECORD), (aio.JsonCodec, JSON), (aio.ProtobufCodec, PROTOBUF)]
)
async def test_values_and_columns_there_and_back(
    registry_url: str, topic: str, kind: type[aio.Codec], schema: str
) -> None:
    async with aio.Registry(registry_url) as registry:
        codec = kind(registry, topic, schema=schema)
        data = await codec.encode({"n": 7})
        assert data is not None
        found = await codec.decode(data)
        assert (found["n"] if isinstance(found, dict) else found.n) == 7
        assert (await codec.encode(None), await codec.decode(None)) == (None, None)
        table = pa.table({"n": [7, 8]})
        column = await codec.encode_column(table)
        assert (await codec.encode_table(table))["value"].equals(column)
        assert column[0].as_py() == data
        assert [int(row["n"]) for row in (await codec.decode_column(column)).to_pylist()] == [7, 8]
        with pytest.raises(CodecError):
            await codec.decode(b"no frame")


async def test_the_first_use_of_a_schema_does_not_block_the_loop(registry: aio.Registry, gate: Gate) -> None:
    """A codec made its requests in the event loop, which stood still until the registry had answered."""
    codec = aio.AvroCodec(registry, "t", schema=RECORD)
    waiting = [asyncio.create_task(codec.encode({"n": n})) for n in range(5)]
    await asyncio.sleep(0)  # each has begun, and none could end
    gate.may_answer.set()
    values = await asyncio.gather(*waiting)
    assert [value and value[-1] for value in values] == [0, 2, 4, 6, 8]
    assert gate.asked == ["POST /subjects/t-value/versions"], "calls that lack the same schema ask once"


async def test_a_known_schema_needs_no_thread(
    registry: aio.Registry, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate.may_answer.set()
    codec = aio.AvroCodec(registry, "t")
    data = b"\0\0\0\0\x07\x0e"
    assert await codec.decode(data) == {"n": 7}
    monkeypatch.setattr(asyncio, "to_thread", None)
    assert await codec.decode(data) == {"n": 7}
    assert gate.asked == ["GET /schemas/ids/7"]


async def test_a_failure_reaches_every_waiting_call_and_is_not_kept(registry: aio.Registry, gate: Gate) -> None:
    codec = aio.AvroCodec(registry, "t", schema_id=7)
    gate.error = RegistryUnavailable("down")
    gate.may_answer.set()
    outcomes = await asyncio.gather(*(codec.encode({"n": 1}) for _ in range(3)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [RegistryUnavailable] * 3
    gate.error = None
    assert await codec.encode({"n": 1}) == b"\0\0\0\0\x07\x02"


async def test_a_caller_that_is_cancelled_does_not_take_the_request_from_others(
    registry: aio.Registry, gate: Gate
) -> None:
    codec = aio.AvroCodec(registry, "t", schema_id=7)
    first, second = (asyncio.create_task(codec.encode({"n": 1})) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    gate.may_answer.set()
    assert await second == b"\0\0\0\0\x07\x02"
    assert len(gate.asked) == 1


async def test_a_latest_schema_that_is_always_too_old(registry: aio.Registry, gate: Gate) -> None:
    gate.may_answer.set()
    codec = aio.AvroCodec(registry, "t", use_latest=True, latest_age_s=0)
    assert [await codec.encode({"n": 1}) for _ in range(2)] == [b"\0\0\0\0\x07\x02"] * 2


async def test_a_generated_class_asks_nothing_before_it_is_used(registry: aio.Registry, gate: Gate) -> None:
    """The codec registered the imports of the class's file when it was made, in the event loop."""
    codec = aio.ProtobufCodec(registry, "t", message=client_pb2.Publishing)
    assert gate.asked == []
    gate.may_answer.set()
    with pytest.raises(CodecError):  # the registry of this test does not return what is imported
        await codec.encode(client_pb2.Publishing())
    assert gate.asked[0] == "POST /subjects/google%2Fapi%2Flaunch_stage.proto/versions"

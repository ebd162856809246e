"""Which schemas a flow reads and writes, and when it remembers and registers them."""

import json
import re
from pathlib import Path
from typing import Any, cast

import pytest
from tests.unit.spark.registry_model import URL, RegistryModel

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tailrace.base.variable import REGISTRY_USER_VARIABLE, REGISTRY_VARIABLE
from tailrace.pipeline import PipelineError, Topic, files, flow, topic
from tailrace.schema.language import SchemaType
from tailrace.spark.connector.topic.avro_schema import avro_schema
from tailrace.spark.connector.topic.flow_schema import REMEMBERED, FlowSchemas
from tailrace.spark.connector.topic.json_schema import json_schema
from tailrace.spark.error import RegistryRefusal
from tailrace.spark.pipeline.plan import plan_flow


class Rows:
    """A DataFrame that only keeps the function and the schema of `mapInArrow`."""

    schema = StructType([StructField("offset", LongType())])
    columns = schema.names

    def mapInArrow(self, function: Any, schema: Any) -> Any:
        self.found = function.__self__, schema
        return self

    def drop(self, *_columns: str) -> tuple[Any, Any]:
        return self.found


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> RegistryModel:
    model = RegistryModel()
    monkeypatch.setattr("tailrace.spark.connector.topic.flow_schema.Registry", model)
    return model


def record(*fields: str) -> str:
    return json.dumps(
        {"type": "record", "name": "R", "fields": [{"name": name, "type": "int", "default": 0} for name in fields]}
    )


def read(checkpoint: Path, source: Topic, *, starts: bool = True) -> tuple[int, list[str]]:
    """Return the id of the schema that a start reads with, and its columns."""
    assert source.registered is not None
    schemas = FlowSchemas(checkpoint)
    rows: Any = Rows()
    decoder, decoded = schemas.decode(rows, source, source.registered, None)  # type: ignore[misc]
    if starts:
        schemas.settle()
    return decoder.schema_id, decoded.names  # type: ignore[has-type]


def test_a_flow_keeps_its_first_schema_unless_it_follows(registry: RegistryModel, tmp_path: Path) -> None:
    source = topic("t", value="avro", registry=URL, include=("offset",))
    registry.add("t-value", record("a"))
    assert read(tmp_path / "flow", source, starts=False) == (1, ["a", "offset"])
    assert not (tmp_path / "flow").exists(), "a check leaves nothing behind"
    registry.add("t-value", record("a", "b"))
    assert read(tmp_path / "flow", source) == (2, ["a", "b", "offset"])
    registry.add("t-value", record("a", "b", "c"))
    assert read(tmp_path / "flow", source) == (2, ["a", "b", "offset"])
    assert json.loads((tmp_path / "flow" / REMEMBERED).read_text()) == {"t": 2}
    assert read(tmp_path / "flow", topic("t", value="avro", registry=URL, follow=True)) == (3, ["a", "b", "c"])
    assert read(tmp_path / "flow", topic("t", value="avro", registry=URL, schema_version=1)) == (1, ["a"])


@pytest.mark.parametrize("text", ["", "[]", '{"t": "x"}'])
def test_a_damaged_note_of_schemas_is_named(registry: RegistryModel, tmp_path: Path, text: str) -> None:
    registry.add("t-value", record("a"))
    (tmp_path / REMEMBERED).write_text(text)
    with pytest.raises(PipelineError, match=r"the checkpoint file .*reader_schemas\.json cannot be read"):
        read(tmp_path, topic("t", value="avro", registry=URL))


def test_a_kill_leaves_the_note_before_or_after(
    registry: RegistryModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file was written in place, and a kill in between left one that no later start could read."""
    registry.add("t-value", record("a"))
    read(tmp_path, topic("t", value="avro", registry=URL))
    registry.add("t-value", record("a", "b"))

    def kill(*_: object) -> None:
        raise InterruptedError

    monkeypatch.setattr("os.replace", kill)
    monkeypatch.setattr(Path, "replace", kill)
    with pytest.raises(InterruptedError):
        read(tmp_path, topic("t", value="avro", registry=URL, follow=True))
    assert json.loads((tmp_path / REMEMBERED).read_text()) == {"t": 1}


def test_a_missing_schema_or_one_of_another_type_is_named(registry: RegistryModel, tmp_path: Path) -> None:
    source = topic("t", value="avro", registry=URL)
    with pytest.raises(PipelineError, match=f"topic t: the registry at {URL} has no schema for it"):
        read(tmp_path, source)
    registry.add("t-value", '{"type": "object"}', SchemaType.JSON)
    with pytest.raises(PipelineError, match='the schema of t-value is JSON; value="avro" is not'):
        read(tmp_path, source)
    registry.add("u-value", record("offset"))
    with pytest.raises(PipelineError, match="column offset is both in the schema and in include"):
        read(tmp_path, topic("u", value="avro", registry=URL, include="offset"))


def test_the_schema_of_a_value_that_is_not_a_record_has_one_column(registry: RegistryModel, tmp_path: Path) -> None:
    registry.add("t-value", '"string"')
    assert read(tmp_path, topic("t", value="avro", registry=URL)) == (1, ["value"])


def columns(**types: DataType) -> StructType:
    return StructType([StructField(name, type_) for name, type_ in types.items()])


def test_the_avro_schema_of_rows() -> None:
    schema = columns(
        a=StringType(),
        b=ArrayType(IntegerType()),
        c=MapType(StringType(), columns(d=TimestampType())),
        e=DecimalType(9, 2),
        f=BinaryType(),
        g=DateType(),
    ).add("h", LongType(), nullable=False)
    found = json.loads(avro_schema(schema, "1st.topic"))
    assert (found["name"], [field["name"] for field in found["fields"]]) == ("_1st_topic", list("abcefgh"))
    types = {field["name"]: field["type"] for field in found["fields"]}
    assert types["a"] == ["null", "string"]
    assert types["b"] == ["null", {"type": "array", "items": ["null", "int"]}]
    assert types["c"][1]["values"][1]["fields"][0]["type"][1] == {"type": "long", "logicalType": "timestamp-micros"}
    assert types["e"][1] == {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    assert types["h"] == "long"
    assert [field.get("default", "none") for field in found["fields"]] == [None] * 6 + ["none"]


@pytest.mark.parametrize(
    ("name", "type_", "message"),
    [
        ("a b", IntegerType(), "t: column 'a b' is not a name in Avro"),
        ("m", MapType(IntegerType(), IntegerType()), "t: column m is a map with keys of type int"),
        ("i", DayTimeIntervalType(), "t: column i is interval day to second, which Avro does not have"),
    ],
)
def test_columns_without_an_avro_type_are_named(name: str, type_: DataType, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        avro_schema(columns(**{name: type_}), "t")


def test_the_json_schema_of_rows() -> None:
    rows = StructType([StructField("a", LongType(), nullable=False)])
    rows.add("b", ArrayType(StringType())).add("c", MapType(StringType(), DateType()))
    found = json.loads(json_schema(rows, "t"))
    assert (found["title"], found["required"], found["additionalProperties"]) == ("t", ["a"], False)
    assert found["properties"] == {
        "a": {"type": "integer"},
        "b": {"type": "array", "items": {"oneOf": [{"type": "null"}, {"type": "string"}]}},
        "c": {
            "type": "object",
            "additionalProperties": {"oneOf": [{"type": "null"}, {"type": "string", "format": "date"}]},
        },
    }
    with pytest.raises(PipelineError, match="t: column x is binary, which JSON does not have"):
        json_schema(columns(x=BinaryType()), "t")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"value": "avro"}, f'value="avro" needs a registry: set registry= or {REGISTRY_VARIABLE}'),
        ({"value": "avro", "registry": "localhost"}, "'localhost' is not the URL of a registry"),
        ({"value": "avro", "registry": URL, "schema": "a int"}, "leave out schema="),
        ({"value": "avro", "registry": URL, "schema_version": 0}, "schema_version=0 is not a positive number"),
        ({"value": "avro", "registry": URL, "schema_version": 1, "follow": True}, "leave one out"),
        ({"value": "xml", "registry": URL}, "value='xml' is not one of avro, json, protobuf"),
        ({"registry": URL}, "need value="),
        ({"value": "avro", "registry": 7}, "registry= is a URL or a dictionary of configs, not int"),
        ({"value": "avro", "registry": {"url": URL, "ssl.ca": "x"}}, "Unknown config ssl.ca"),
        ({"value": "avro", "registry": {"ssl.ca.location": "x"}}, "needs a registry: set registry="),
    ],
)
def test_wrong_declarations(arguments: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(REGISTRY_VARIABLE, raising=False)
    with pytest.raises(PipelineError) as caught:
        topic("t", **arguments)
    assert message in str(caught.value)


def test_a_user_is_known_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Declarations appear in errors and logs, so their text must not have passwords."""
    config = {"url": URL, "basic.auth.user.info": "ann:secret", "ssl.key.password": "hidden"}
    declared = topic("t", value="avro", registry=config)
    assert declared.registered is not None
    assert declared.registered.registry.credentials == ("ann", "secret")
    assert not {"secret", "hidden"} & set(re.findall(r"\w+", f"{declared!r} {declared}"))
    monkeypatch.setenv(REGISTRY_USER_VARIABLE, "bob:other")
    named = topic("t", value="avro", registry=URL).registered
    assert named is not None
    assert named.registry.credentials == ("bob", "other")
    with pytest.raises(PipelineError) as caught:
        topic("t", value="avro", registry="http://ann:secret@registry.example")
    assert ("secret" in str(caught.value), "contains a user" in str(caught.value)) == (False, True)


def test_a_certificate_that_cannot_be_read_ends_a_flow(tmp_path: Path) -> None:
    config = {"url": URL, "ssl.ca.location": str(tmp_path / "ca.pem")}
    with pytest.raises(RegistryRefusal, match=r"cannot be set up with .*ca\.pem"):
        read(tmp_path, topic("t", value="avro", registry=config))


def test_wrong_sources_and_sinks() -> None:
    with pytest.raises(PipelineError, match="declare a source for each"):
        topic("t", "u", value="avro", registry=URL)
    with pytest.raises(PipelineError, match='value="json" needs schema= or registry='):
        flow(source=topic("t", value="json"), sink=files("x"))(lambda rows: rows)
    given: list[dict[str, Any]] = [{"schema_version": 1}, {"follow": True}]
    for more in given:
        sink = topic("t", value="avro", registry=URL, **more)
        with pytest.raises(PipelineError, match="are for a source"):
            flow(source=topic("s"), sink=sink)(lambda rows: rows)


def test_a_source_with_a_registry_reads_where_its_records_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REGISTRY_VARIABLE, URL)
    declared = flow(source=topic("t", value="avro", include="key"), sink=files("x"))(lambda rows: rows)
    plan = plan_flow(declared, {"bootstrap.servers": "h:1"}, Path("/c"), Path("/o"))
    assert (
        cast("Topic", declared.sources[0]).source_options(plan.place)["columns"] == "value,topic,partition,offset,key"
    )

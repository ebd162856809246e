"""`tailrace produce` and `consume` with schemas."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tailrace
from tailrace.testing import Broker, SchemaRegistry

Run = Callable[..., tuple[int, str, str]]

AVRO = json.dumps(
    {
        "type": "record",
        "name": "View",
        "fields": [
            {"name": "user", "type": "long"},
            {"name": "page", "type": ["null", "string"], "default": None},
            {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "default": None},
            {"name": "raw", "type": "bytes", "default": ""},
            {
                "name": "price",
                "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
                "default": "",
            },
        ],
    }
)
PROTO = 'syntax = "proto3"; package p; message Other {} message View { int32 user = 1; repeated string tags = 2; }'
JSON = '{"type": "object", "properties": {"user": {"type": "integer"}}, "required": ["user"]}'


@pytest.fixture(scope="module")
def registry_url(tailrace_session_broker: Broker) -> Iterator[str]:
    with SchemaRegistry(tailrace_session_broker.bootstrap_servers, topic="_schemas_of_records") as registry:
        yield registry.url


@pytest.fixture
def command(run: Run, registry_url: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("TAILRACE_REGISTRY_URL", registry_url)
    return run


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], str]:
    def make(name: str, text: str) -> str:
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return make


Write = Callable[[str, str], str]


def consumed(command: Run, topic: str, *options: str) -> str:
    status, output, complaint = command("consume", topic, "--from", "beginning", "--until-end", *options)
    assert status == 0, complaint
    return output


def test_avro(command: Run, topic: str, write: Write) -> None:
    full = {"user": 7, "page": "/", "at": "2026-03-01T12:00:00+00:00", "raw": "é\u0001", "price": "1.25"}
    lines = write("lines", json.dumps(full) + '\n{"user": 8, "page": {"string": "/docs"}, "price": 3}\nnull\n')
    written = command("produce", topic, lines, "--value", "avro", "--schema", write("view.avsc", AVRO))
    assert written == (0, "", f"3 records written to {topic}\n")
    first, second, third = consumed(command, topic, "--value", "avro").splitlines()
    assert json.loads(first) == full
    assert json.loads(second) == {"user": 8, "page": "/docs", "at": None, "raw": "", "price": "3.00"}
    assert third == "null"


def test_the_latest_schema_and_a_schema_by_id(command: Run, topic: str, write: Write) -> None:
    value = write("view.json", JSON)
    said = command("schema", "register", f"{topic}-value", value, "--json")
    number = str(json.loads(said[1])["id"])
    lines = write("lines", '{"user": 7}\n')
    assert command("produce", topic, lines, "--value", "json")[0] == 0
    assert command("produce", topic, lines, "--value", "json", "--schema-id", number)[0] == 0
    assert consumed(command, topic, "--value", "json", "--schema-id", number) == '{"user": 7}\n' * 2
    assert consumed(command, topic).startswith("\0\0")


def test_protobuf_values_and_avro_keys(command: Run, topic: str, write: Write) -> None:
    lines = write("lines", '"k"|{"user": 7, "tags": ["a"]}\n')
    value = ("--value", "protobuf", "--schema", write("v.proto", PROTO), "--message", "p.View")
    key = ("--key", "avro", "--key-schema", write("k.avsc", '"string"'))
    assert command("produce", topic, lines, "--key-separator", "|", *value, *key)[0] == 0
    both = ("--value", "protobuf", "--key", "avro")
    assert consumed(command, topic, *both, "--key-separator", "|") == '"k"|{"user": 7, "tags": ["a"]}\n'
    found = json.loads(consumed(command, topic, *both, "--json"))
    assert (found["key"], found["value"]) == ("k", {"user": 7, "tags": ["a"]})
    group = consumed(command, topic, "--value", "protobuf", "--group", f"{topic}-group")
    assert group == '{"user": 7, "tags": ["a"]}\n'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: the value is not valid JSON"),
        ('{"user": "x"}', "line 2: /user: 'x' is not of type long"),
        ('{"user": 1, "colour": 2}', "line 2: /colour: record 'View' has no such field"),
        ('{"page": "/"}', "line 2: value of topic"),
        ('{"user": 1, "at": "noon"}', "line 2: /at: 'noon' is none of null, long"),
    ],
)
def test_a_wrong_line_is_named(command: Run, topic: str, write: Write, line: str, message: str) -> None:
    lines = write("lines", f'{{"user": 1}}\n{line}\n')
    status, _, complaint = command("produce", topic, lines, "--value", "avro", "--schema", write("v.avsc", AVRO))
    assert (status, message in complaint) == (1, True), complaint


def test_a_record_without_a_schema_is_named(command: Run, topic: str, tailrace_broker: Broker) -> None:
    with tailrace.Producer(tailrace_broker.bootstrap_servers) as producer:
        producer.send(topic, value=b"plain").result(60)
    status, _, complaint = command("consume", topic, "--from", "beginning", "--until-end", "--value", "avro")
    assert status == 1
    assert f"{topic}-" in complaint
    assert "offset 0: the bytes do not begin with 0 and the id of a schema" in complaint


def test_a_topic_without_a_schema(command: Run, topic: str, write: Write) -> None:
    status, _, complaint = command("produce", topic, write("lines", "{}\n"), "--value", "avro")
    assert (status, f"{topic}-value" in complaint) == (1, True)


@pytest.mark.parametrize(
    "options",
    [
        ("--schema-id", "1"),
        ("--value", "avro", "--message", "M"),
        ("--key-schema-id", "1"),
        ("--value", "xml"),
        ("--key", "avro"),
    ],
)
def test_options_that_do_not_go_together(command: Run, topic: str, options: tuple[str, ...]) -> None:
    assert command("produce", topic, *options)[0] == 2


def test_a_file_and_an_id_exclude_each_other(command: Run, topic: str, write: Write) -> None:
    both = ("--schema", write("v.avsc", AVRO), "--schema-id", "1")
    status, _, complaint = command("consume", topic, "--value", "avro", *both)
    assert (status, "cannot be combined" in complaint) == (2, True)

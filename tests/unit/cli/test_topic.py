"""`tailrace topic`, in a pipe."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]


def test_the_life_of_a_topic(run: Run, topic: str) -> None:
    assert run("topic", "create", topic, "--partitions", "2", "--config", "retention.ms=1000") == (
        0,
        f"created topic {topic} with 2 partitions\n",
        "",
    )
    assert topic in run("topic", "list")[1].splitlines()
    lines = run("topic", "describe", topic)[1].splitlines()
    assert re.fullmatch(rf"topic {topic} · id [\w-]{{22}} · 2 partitions · replication factor 1", lines[0])
    assert lines[1:] == [
        "partition 0 leader 1 replicas 1 isr 1",
        "partition 1 leader 1 replicas 1 isr 1",
        "config min.insync.replicas=1",  # a dynamic default of the cluster, which Kafka's tool lists, too (KIP-966)
        "config retention.ms=1000",
    ]
    altered = run("topic", "alter", topic, "--partitions", "3", "--config", "a.b=c", "--delete-config", "retention.ms")
    assert altered[0] == 1
    assert altered[2].startswith("tailrace: INVALID_CONFIG: ")
    arguments = ("--partitions", "3", "--config", "max.message.bytes=5000", "--delete-config", "retention.ms")
    assert run("topic", "alter", topic, *arguments) == (0, f"altered topic {topic}\n", "")
    assert run("topic", "describe", topic)[1].splitlines()[3:] == [
        "partition 2 leader 1 replicas 1 isr 1",
        "config max.message.bytes=5000",
        "config min.insync.replicas=1",
    ]
    assert run("topic", "delete", topic) == (0, f"deleted topic {topic}\n", "")
    assert topic not in run("topic", "list")[1].splitlines()


def test_json_is_for_programs(run: Run, topic: str) -> None:
    created = json.loads(run("topic", "create", topic, "--json")[1])
    assert (created["name"], created["partitions"], created["replication_factor"]) == (topic, 1, 1)
    listed = {found["name"]: found for found in json.loads(run("topic", "list", "--json")[1])}
    assert listed[topic] == created | {"internal": False}
    described = json.loads(run("topic", "describe", topic, "--json")[1])
    assert described["partitions"] == [{"partition": 0, "leader": 1, "leader_epoch": 0, "replicas": [1], "isr": [1]}]
    assert described["configs"]["cleanup.policy"] == {"value": "delete", "default": True}
    altered = run("topic", "alter", topic, "--partitions", "2", "--json")
    assert json.loads(altered[1]) == {"name": topic, "altered": True}
    assert json.loads(run("topic", "delete", topic, "--json")[1]) == {"name": topic, "deleted": True}


def test_errors_are_one_line_and_status_1(run: Run, topic: str) -> None:
    run("topic", "create", topic)
    again = run("topic", "create", topic)
    assert again[:2] == (1, "")
    assert re.fullmatch(rf"tailrace: TOPIC_ALREADY_EXISTS: .*{topic}.*\n", again[2])
    assert run("topic", "create", topic, "--if-not-exists") == (0, "", "")
    for command in ("describe", "delete"):
        status, output, error = run("topic", command, f"{topic}-not-there")
        assert (status, output) == (1, "")
        assert re.fullmatch(r"tailrace: UNKNOWN_TOPIC_OR_PARTITION: .*\n", error)
        assert f"{topic}-not-there" in error
    assert run("topic", "delete", f"{topic}-not-there", "--if-exists") == (0, "", "")
    assert run("topic", "create", "no/good")[2].startswith("tailrace: INVALID_TOPIC_EXCEPTION: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["create"],
        ["create", "t", "--partitions", "0"],
        ["create", "t", "--config", "no-equals"],
        ["alter", "t"],
        ["no-such-verb"],
        ["list", "--bootstrap-server", "host:port:more"],
    ],
)
def test_a_wrong_call_exits_with_2(run: Run, arguments: list[str]) -> None:
    status, output, error = run("topic", *arguments)
    assert (status, output) == (2, "")
    assert "Error: " in error


def test_nobody_there_is_one_line(run: Run) -> None:
    assert run("topic", "list", "--bootstrap-server", "127.0.0.1:1") == (
        1,
        "",
        "tailrace: cannot connect to 127.0.0.1:1: Connection refused\n",
    )


def test_a_command_config_may_say_what_we_know(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("client.id=mine\nrequest.timeout.ms=5000\nsecurity.protocol=PLAINTEXT\n")
    assert run("topic", "list", "--command-config", str(file))[0] == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("security.protocol=SASL_SSL", "client.properties: sasl.mechanism is missing"),
        ("\nsasl.mechanism=PLAIN", ":2: sasl.mechanism has no effect with security.protocol=PLAINTEXT"),
        ("security.protocol=SSL\nssl.truststore.location=x.pem", "ssl.truststore.location: x.pem: the file does not"),
        ("security.protocol=TLS", ":1: Invalid value 'TLS' for security.protocol: must be one of PLAINTEXT, SSL"),
        ("sasl.mechanism=GSSAPI", ":1: Invalid value 'GSSAPI' for sasl.mechanism: GSSAPI (Kerberos) is not supported"),
        ("request.timeout=5", ":1: request.timeout: there is no client config of this name"),
        ("request.timeout.ms=5s", "'5s' is not a number of milliseconds"),
        ("a=\\u12", "line 1"),
    ],
)
def test_a_command_config_is_refused_by_name(run: Run, tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "client.properties"
    file.write_text(text)
    status, output, error = run("topic", "list", "--command-config", str(file))
    assert (status, output) == (1, "")
    assert error.startswith("tailrace: ")
    assert words in error
    assert error.count("\n") == 1


def test_a_command_config_that_is_not_there_is_one_line(run: Run, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    assert run("topic", "list", "--command-config", str(missing)) == (
        1,
        "",
        f"tailrace: {missing}: No such file or directory\n",
    )

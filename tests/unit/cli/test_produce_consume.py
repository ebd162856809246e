"""`tailrace produce` and `tailrace consume`, in a pipe and as processes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tailrace.testing import Broker

Run = Callable[..., tuple[int, str, str]]
TAILRACE = [sys.executable, "-m", "tailrace.cli.main"]
TIMEOUT_S = 60


def lines_file(tmp_path: Path, data: bytes, name: str = "lines") -> str:
    path = tmp_path / name
    path.write_bytes(data)
    return str(path)


def consume_all(run: Run, topic: str, *arguments: str) -> str:
    status, output, error = run("consume", topic, "--from", "beginning", "--until-end", *arguments)
    assert (status, error) == (0, "")
    return output


def test_lines_of_files_become_records(run: Run, topic: str, tmp_path: Path) -> None:
    first = lines_file(tmp_path, b"one\n\nthree\r\nno newline at the end", "first")
    second = lines_file(tmp_path, b"second file\n", "second")
    assert run("produce", topic, first, second) == (0, "", f"5 records written to {topic}\n")
    assert consume_all(run, topic) == "one\n\nthree\nno newline at the end\nsecond file\n"


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_keys_headers_and_compression(run: Run, topic: str, tmp_path: Path, compression: str) -> None:
    file = lines_file(tmp_path, b"a::1\nb::2::x\n")
    arguments = ("--key-separator", "::", "--header", "h=1", "--header", "ключ=v=w", "--compression", compression)
    assert run("produce", topic, file, *arguments, "--acks", "1") == (0, "", f"2 records written to {topic}\n")
    records = [json.loads(line) for line in consume_all(run, topic, "--json").splitlines()]
    assert [(record["offset"], record["key"], record["value"]) for record in records] == [
        (0, "a", "1"),
        (1, "b", "2::x"),
    ]
    assert records[0]["headers"] == [{"key": "h", "value": "1"}, {"key": "ключ", "value": "v=w"}]
    assert records[0]["topic"] == topic
    assert abs(records[0]["timestamp"] / 1000 - time.time()) < 3600
    assert consume_all(run, topic, "--key-separator", "=") == "a=1\nb=2::x\n"


def test_records_without_acks_arrive_too(run: Run, topic: str, tmp_path: Path) -> None:
    status, _, error = run("produce", topic, lines_file(tmp_path, b"1\n2\n"), "--acks", "0")
    assert (status, error) == (0, f"2 records sent without acknowledgement to {topic}\n")
    assert run("consume", topic, "--from", "beginning", "--count", "2")[1] == "1\n2\n"


def test_a_line_without_a_key_is_an_error_that_tells_what_was_written(run: Run, topic: str, tmp_path: Path) -> None:
    status, output, error = run("produce", topic, lines_file(tmp_path, b"a:1\nb\n"), "--key-separator", ":")
    assert (status, output) == (1, "")
    assert error == "tailrace: line 2 has no key separator ':' (1 records were written)\n"


def test_partitions_are_chosen(run: Run, tailrace_broker: Broker, topic: str, tmp_path: Path) -> None:
    tailrace_broker.create_topic(topic, partitions=3)
    for partition in "12":
        assert run("produce", topic, lines_file(tmp_path, partition.encode()), "--partition", partition)[0] == 0
    assert consume_all(run, topic, "--partition", "1") == "1\n"
    assert sorted(consume_all(run, topic, "--partition", "1", "--partition", "2").split()) == ["1", "2"]
    status, _, error = run("produce", topic, lines_file(tmp_path, b"x"), "--partition", "3")
    assert status == 1
    assert f"topic {topic} has 3 partitions" in error
    status, _, error = run("consume", topic, "--partition", "3")
    assert status == 1
    assert f"topic {topic} has 3 partitions" in error


def test_reading_begins_where_it_is_told(run: Run, topic: str, tmp_path: Path) -> None:
    run("produce", topic, lines_file(tmp_path, b"0\n1\n2\n3\n"))
    assert run("consume", topic, "--from", "2", "--until-end")[1] == "2\n3\n"
    assert run("consume", topic, "--from", "1", "--count", "2")[1] == "1\n2\n"
    assert run("consume", topic, "--from", "end", "--until-end") == (0, "", "")
    assert run("consume", topic, "--from", "-1h", "--until-end")[1] == "0\n1\n2\n3\n"
    assert run("consume", topic, "--from", "2999-01-01", "--until-end") == (0, "", "")
    assert run("consume", topic, "--from", "9") == (
        1,
        "",
        f"tailrace: {topic}: offset 9 is out of range: the topic has offsets 0 to 4 in partition 0\n",
    )


def test_bytes_that_are_no_text_survive(run: Run, tailrace_broker: Broker, topic: str) -> None:
    tailrace_broker.produce(topic, [(b"\xff\x00", b"\xfe"), (None, None), (b"", b"")])
    records = [json.loads(line) for line in consume_all(run, topic, "--json").splitlines()]
    fields = [{name: record[name] for name in record if name.startswith(("key", "value"))} for record in records]
    assert fields == [
        {"key_base64": "/wA=", "value_base64": "/g=="},
        {"key": None, "value": None},
        {"key": "", "value": ""},
    ]


def test_committed_records_can_be_asked_for(run: Run, topic: str, tmp_path: Path) -> None:
    run("produce", topic, lines_file(tmp_path, b"plain\n"))
    assert consume_all(run, topic, "--isolation", "read_committed") == "plain\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["consume", "t", "--group", "g", "--partition", "0"], "a group assigns partitions"),
        (["consume", "t", "--group", "g", "--from", "7"], "use tailrace group reset"),
        (["consume", "t", "--from", "yesterday"], "is not beginning, end, an offset"),
        (["consume", "t", "--count", "0"], "--count"),
        (["consume"], "TOPIC"),
        (["produce", "t", "/no/such/file"], "/no/such/file"),
        (["produce", "t", "--acks", "2"], "--acks"),
        (["produce", "t", "--compression", "zip"], "--compression"),
        (["produce", "t", "--header", "x"], "NAME=VALUE"),
        (["produce", "t", "--key-separator", ""], "--key-separator"),
    ],
)
def test_a_wrong_call_exits_with_2(run: Run, arguments: list[str], words: str) -> None:
    status, output, error = run(*arguments)
    assert (status, output) == (2, "")
    assert words in error


def test_a_topic_that_is_not_there_is_one_line(run: Run, topic: str) -> None:
    assert run("consume", topic) == (1, "", f"tailrace: UNKNOWN_TOPIC_OR_PARTITION: topic {topic}\n")


def test_a_refusal_of_the_broker_is_one_line(run: Run, tailrace_broker: Broker, topic: str, tmp_path: Path) -> None:
    tailrace_broker.create_topic(topic, config={"max.message.bytes": "100"})
    status, output, error = run("produce", topic, lines_file(tmp_path, b"short\n" + b"x" * 200))
    assert (status, output) == (1, "")
    assert error.startswith("tailrace: MESSAGE_TOO_LARGE: ")
    assert error.endswith("(1 records were written)\n")


def child_environment(broker: Broker) -> dict[str, str]:
    return os.environ | {"TAILRACE_BOOTSTRAP_SERVER": broker.bootstrap_servers}


def test_what_is_typed_is_sent_at_once(tailrace_broker: Broker, topic: str) -> None:
    """A line must not wait for the next one, nor for the end of the input."""
    tailrace_broker.create_topic(topic)
    environment = child_environment(tailrace_broker)
    writer = subprocess.Popen([*TAILRACE, "produce", topic], stdin=subprocess.PIPE, env=environment)
    read = [*TAILRACE, "consume", topic, "--from", "beginning", "--count", "1"]
    assert writer.stdin is not None
    writer.stdin.write(b"typed\n")
    writer.stdin.flush()
    assert (
        subprocess.run(read, capture_output=True, timeout=TIMEOUT_S, check=True, env=environment).stdout == b"typed\n"
    )
    writer.stdin.close()
    assert writer.wait(TIMEOUT_S) == 0


def test_ctrl_c_ends_reading_and_writing_cleanly(tailrace_broker: Broker, topic: str) -> None:
    tailrace_broker.create_topic(topic)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    environment = child_environment(tailrace_broker)
    writer = subprocess.Popen([*TAILRACE, "produce", topic], env=environment, **pipes)  # type: ignore[call-overload]
    reader = subprocess.Popen([*TAILRACE, "consume", topic, "--from", "beginning"], env=environment, **pipes)  # type: ignore[call-overload]
    writer.stdin.write(b"line\n")
    writer.stdin.flush()
    assert reader.stdout.readline() == b"line\n"
    for process, told in ((writer, f"1 record written to {topic}\n".encode()), (reader, b"")):
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=TIMEOUT_S)[1] == told
        assert process.returncode == 0


def test_a_reader_that_has_had_enough_is_no_error(tailrace_broker: Broker, topic: str) -> None:
    tailrace_broker.produce(topic, [b"x" * 1000 for _ in range(2000)])
    command = [*TAILRACE, "consume", topic, "--from", "beginning"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=child_environment(tailrace_broker)
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"x" * 1000 + b"\n"
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(TIMEOUT_S) == 0

"""`tailrace start` as a process: its ready line, its signals, and what it says when it cannot start."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

TAILRACE = [sys.executable, "-m", "tailrace.cli.main"]
TIMEOUT_S = 60


def environment() -> dict[str, str]:
    """This process's variables without those that would configure a broker."""
    return {name: value for name, value in os.environ.items() if not name.startswith("TAILRACE_")}


@contextmanager
def started(*arguments: str, **variables: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A broker and the line it printed when it was ready."""
    process = subprocess.Popen(
        [*TAILRACE, "start", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment() | variables,
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline()
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def failed(*arguments: str, **variables: str) -> tuple[int, str]:
    """The exit status and the words of a start that cannot succeed."""
    done = subprocess.run(
        [*TAILRACE, "start", *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env=environment() | variables,
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_broker_says_when_it_is_ready_and_stops_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    with started("--data", str(tmp_path), "--listen", "127.0.0.1:0") as (process, line):
        ready = re.fullmatch(r"tailrace: broker 1 ready on 127\.0\.0\.1:(\d+)\n", line)
        assert ready is not None, line
        socket.create_connection(("127.0.0.1", int(ready[1]))).close()
        process.send_signal(number)
        output, log = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, output) == (0, "")
    lines = log.splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+ ", text) for text in lines), log
    assert f"stopping on {number.name}" in lines[-2]
    assert lines[-1].endswith("broker 1 has stopped")


def test_options_come_from_the_call_the_environment_and_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        f"node.id=7\nlog.dirs={tmp_path / 'data'}\nlisteners=PLAINTEXT://127.0.0.1:0\nnum.network.threads=3\n"
    )
    arguments = ("--config", str(file), "--set", "num.partitions=4")
    with started(*arguments, TAILRACE_LOG_RETENTION_HOURS="1") as (process, line):
        assert line.startswith("tailrace: broker 7 ready on 127.0.0.1:")
        create = [*TAILRACE, "topic", "create", "t", "--bootstrap-server", line.split()[-1]]
        assert subprocess.run(create, capture_output=True, check=True).stdout == b"created topic t with 4 partitions\n"
        process.terminate()
        log = process.communicate(timeout=TIMEOUT_S)[1]
    assert (tmp_path / "data" / "t-3").is_dir()
    assert "num.network.threads is accepted but has no effect" in log


def test_a_port_in_use_is_one_clear_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        status, text = failed("--data", str(tmp_path), "--listen", address)
    assert status == 1
    assert text.splitlines()[-1] == (
        f"tailrace: cannot listen on PLAINTEXT://{address}: Address already in use; "
        "choose another port with --listen or --set listeners"
    )


def test_a_host_that_nobody_knows_is_one_clear_line(tmp_path: Path) -> None:
    status, text = failed("--data", str(tmp_path), "--listen", "no-such-host.invalid:0")
    assert status == 1
    assert text.splitlines()[-1].startswith("tailrace: cannot listen on PLAINTEXT://no-such-host.invalid:0: ")
    assert "Traceback" not in text


def test_a_folder_that_another_broker_has_is_refused(tmp_path: Path) -> None:
    with started("--data", str(tmp_path), "--listen", "127.0.0.1:0"):
        status, text = failed("--data", str(tmp_path), "--listen", "127.0.0.1:0")
    assert status == 1
    reason = "another broker uses this log folder; stop it, or set another log.dirs"
    assert text.splitlines()[-1] == f"tailrace: {tmp_path}: {reason}"
    assert "Traceback" not in text


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    status, text = failed("--data", str(tmp_path / "file" / "data"), "--listen", "127.0.0.1:0")
    assert status == 1
    assert text.splitlines()[-1].startswith(f"tailrace: {tmp_path}")
    assert "Traceback" not in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "no.such.option=1"], "no.such.option"),
        (["--set", "num.partitions=many"], "num.partitions"),
        (["--set", "zookeeper.connect=a:1:2"], "zookeeper.connect"),
        (["--config", "/no/such/file"], "/no/such/file"),
        (["--listen", "nonsense"], "nonsense"),
    ],
)
def test_a_bad_configuration_is_one_clear_line(arguments: list[str], words: str) -> None:
    status, text = failed(*arguments)
    assert status == 1
    assert re.fullmatch(rf"tailrace: .*{re.escape(words)}.*\n", text), text


@pytest.mark.parametrize(
    "arguments",
    [
        ["--no-such-option"],
        ["surplus"],
        ["--data", "a", "--set", "log.dirs=b"],
        ["--listen", "a:1", "--set", "listeners=PLAINTEXT://b:1"],
    ],
)
def test_a_wrong_call_exits_with_2(arguments: list[str]) -> None:
    status, text = failed(*arguments)
    assert status == 2
    assert text.startswith("Usage: ")


def test_starting_a_broker_imports_nothing_it_does_not_need() -> None:
    """A broker must be ready in a fraction of a second, and every import costs a part of that."""
    code = "import sys, tailrace.cli.start, tailrace.config.load, tailrace.server.server; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    # Of the client a broker needs the connection, for other brokers.
    unwanted = {
        "rich",
        "tailrace.client.cluster",
        "tailrace.testing",
        "tailrace.cli.topic",
        "lz4",
        "cramjam",
        "zstandard",
        "pytest",
    }
    assert not loaded & unwanted


def test_a_folder_of_another_cluster_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=theirs\nnode.id=1\n")
    status, words = failed("--data", str(tmp_path), "--listen", "127.0.0.1:0")
    assert status == 1
    line = words.splitlines()[-1]
    assert line.startswith(f"tailrace: {tmp_path} belongs to cluster theirs, ")
    assert "Traceback" not in words

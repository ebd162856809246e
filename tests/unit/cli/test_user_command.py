"""`tailrace user`, against a broker and against the metadata store of a broker that does not run."""

import io
import json
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.faults.broker_process import BrokerProcess
from tests.unit.cli.command import called, succeeded
from tests.unit.coordination.zookeeper_process import ZooKeeperProcess

from tailrace.cli.main import main
from tailrace.cli.password import read_password
from tailrace.testing import Broker

Run = Callable[..., tuple[int, str, str]]
BOTH = "SCRAM-SHA-256 and SCRAM-SHA-512"


@pytest.fixture
def user() -> str:
    return f"user-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def password_file(tmp_path: Path) -> str:
    file = tmp_path / "password"
    file.write_text("secret\n")
    return str(file)


def test_a_user_is_added_listed_and_deleted(run: Run, user: str, password_file: str) -> None:
    added = run("user", "add", user, "--password-file", password_file)
    assert added == (0, f"user {user} can log in with {BOTH}\n", "")
    listed = run("user", "list")[1].splitlines()
    assert [line for line in listed if user in line] == [f"{user}\tSCRAM-SHA-256\t4096", f"{user}\tSCRAM-SHA-512\t4096"]
    some = run("user", "delete", user, "--mechanism", "scram-sha-256", "--json")
    assert json.loads(some[1]) == {"name": user, "deleted": ["SCRAM-SHA-256"]}
    (found,) = [one for one in json.loads(run("user", "list", "--json")[1]) if one["name"] == user]
    assert found["credentials"] == [{"mechanism": "SCRAM-SHA-512", "iterations": 4096}]
    assert run("user", "delete", user) == (0, f"user {user} cannot log in with SCRAM-SHA-512 any more\n", "")
    assert user not in run("user", "list")[1]
    missing = f"tailrace: user {user} has no credential for SCRAM-SHA-256 or SCRAM-SHA-512\n"
    assert run("user", "delete", user) == (1, "", missing)


def test_the_password_comes_from_stdin(run: Run, user: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("secret\n"))
    arguments = ("--mechanism", "SCRAM-SHA-512", "--iterations", "8192", "--json")
    status, output, error = run("user", "add", user, *arguments)
    assert (status, error) == (0, "")
    assert json.loads(output) == {"name": user, "mechanisms": ["SCRAM-SHA-512"], "iterations": 8192}


@pytest.mark.parametrize(("text", "words"), [("", "is empty"), ("\n", "is empty"), ("a\nb\n", "has several lines")])
def test_a_password_is_one_line(
    run: Run, user: str, text: str, words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    status, output, error = run("user", "add", user)
    assert (status, output) == (1, "")
    assert error.startswith(f"tailrace: the password from stdin {words}")
    (tmp_path / "password").write_text(text)
    assert (
        f"the password from {tmp_path / 'password'} {words}"
        in run("user", "add", user, "--password-file", str(tmp_path / "password"))[2]
    )
    assert user not in run("user", "list")[1]


def test_what_a_password_holds_is_kept(tmp_path: Path) -> None:
    (tmp_path / "password").write_bytes(" pä ss\t\r\n".encode())
    assert read_password(tmp_path / "password") == " pä ss\t"


def test_no_option_takes_a_password(run: Run) -> None:
    text = run("user", "add", "--help")[1]
    assert "--password-file" in text
    assert "--password " not in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("user", "add", ""), "NAME must have 1 to 1024 characters"),
        (("user", "add", "a" * 1025), "NAME must have 1 to 1024 characters"),
        (("user", "add", "a", "--iterations", "1"), "1 is not in the range 4096<=x<=16384"),
        (("user", "add", "a", "--mechanism", "PLAIN"), "'PLAIN' is not one of"),
        (("user", "list", "--data", "d", "--zookeeper", "z:1"), "--data and --zookeeper cannot be combined"),
        (("user", "list", "--data", "d", "--bootstrap-server", "b:1"), "--data and --bootstrap-server cannot be"),
    ],
)
def test_what_makes_no_sense_is_refused(run: Run, arguments: tuple[str, ...], words: str) -> None:
    status, output, error = run(*arguments)
    assert (status, output) == (2, "")
    assert words in error


def test_the_first_user_is_added_before_the_broker_starts(run: Run, tmp_path: Path, password_file: str) -> None:
    data = tmp_path / "data"
    status, _, error = run("user", "list", "--data", str(data))
    assert (status, data.exists()) == (1, False)
    assert "is not the folder of a single broker" in error
    stored = ("--data", str(data))
    added = run("user", "add", "alice", "--password-file", password_file, *stored)
    assert added == (0, f"user alice can log in with {BOTH}\n", "")
    run("user", "add", "bob", "--password-file", password_file, "--mechanism", "SCRAM-SHA-256", *stored)
    listed = ["alice\tSCRAM-SHA-256\t4096", "alice\tSCRAM-SHA-512\t4096", "bob\tSCRAM-SHA-256\t4096"]
    assert run("user", "list", *stored)[1].splitlines() == listed
    assert run("user", "delete", "bob", *stored)[1] == "user bob cannot log in with SCRAM-SHA-256 any more\n"
    assert run("user", "delete", "bob", *stored)[0] == 1
    with Broker(data=data) as broker:
        at_broker = run("user", "list", "--bootstrap-server", broker.bootstrap_servers)
        assert at_broker == (0, "\n".join(listed[:2]) + "\n", "")
        refused = f"tailrace: a broker is running on {data}; reach it with --bootstrap-server instead\n"
        assert run("user", "list", *stored) == (1, "", refused)
        assert run("user", "add", "carl", "--password-file", password_file, *stored) == (1, "", refused)
    assert run("user", "list", *stored)[1].splitlines() == listed[:2]


def test_the_first_user_of_a_cluster_is_added_in_its_zookeeper(
    tmp_path: Path, password_file: str, zookeeper: ZooKeeperProcess
) -> None:
    connect = f"{zookeeper.address}/{uuid.uuid4().hex}"
    succeeded("user", "add", "alice", "--zookeeper", connect, words="secret\n")
    config = tmp_path / "server.properties"
    config.write_text(f"zookeeper.connect={connect}\n")
    assert succeeded("user", "list", "--config", str(config)).splitlines()[0] == "alice\tSCRAM-SHA-256\t4096"
    broker = BrokerProcess(tmp_path, {"zookeeper.connect": connect})
    broker.start()
    try:
        server = ("--bootstrap-server", broker.address)
        assert succeeded("user", "list", *server).count("alice") == 2
        # A broker that runs learns of it, because brokers and commands share this store.
        succeeded("user", "add", "bob", "--zookeeper", connect, "--password-file", password_file)
        assert succeeded("user", "delete", "bob", *server) == f"user bob cannot log in with {BOTH} any more\n"
        assert "bob" not in succeeded("user", "list", "--zookeeper", connect)
    finally:
        broker.kill()


def test_a_zookeeper_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAILRACE_ZOOKEEPER_CONNECTION_TIMEOUT_MS", "200")
    status, output, error = called("user", "list", "--zookeeper", "127.0.0.1:1")
    assert (status, output) == (1, "")
    assert "ZooKeeper did not answer within 200 ms" in error


def test_a_prompt_asks_twice_at_a_terminal(
    user: str, tailrace_broker: Broker, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    asked: list[dict[str, object]] = []

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    def prompt(text: str, **details: object) -> str:
        asked.append({"text": text, **details})
        return "secret"

    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("click.prompt", prompt)
    assert main(["user", "add", user, "--bootstrap-server", tailrace_broker.bootstrap_servers]) == 0
    assert asked == [{"text": "Password", "hide_input": True, "confirmation_prompt": True, "err": True}]
    assert "secret" not in capfd.readouterr().out

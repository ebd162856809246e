"""`tailrace zookeeper`: servers from the jars of PySpark, alone and as an ensemble."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path

import psutil
import pytest
from tests.port import free_port
from tests.unit.coordination.zookeeper_process import QUICK, ZooKeeperProcess, require_zookeeper

from tailrace.cli.zookeeper import ask
from tailrace.coordination.store import Create, OutcomeUnknown, Put, SessionState
from tailrace.coordination.zookeeper import server as zookeeper_server

pytestmark = pytest.mark.slow

MEMBERS = (1, 2, 3)


@contextmanager
def ensemble(folder: Path) -> Iterator[dict[int, ZooKeeperProcess]]:
    """Three servers, all of which serve."""
    require_zookeeper()
    servers = ",".join(f"{number}=127.0.0.1:{free_port()}:{free_port()}" for number in MEMBERS)
    running = {
        number: ZooKeeperProcess(folder / str(number), QUICK, ("--servers", servers, "--id", str(number)))
        for number in MEMBERS
    }
    for server in running.values():
        server.launch()
    try:
        for server in running.values():
            server.wait_until_ready()
        yield running
    finally:
        for server in running.values():
            server.stop()


def called(*arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "tailrace.cli.main", "zookeeper", "start", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.stdout == ""
    return ended.returncode, ended.stderr


async def test_an_ensemble_goes_on_without_its_leader(tmp_path: Path) -> None:
    pytest.importorskip("kazoo", reason="kazoo is not installed")
    from tailrace.coordination.zookeeper.link import ZooKeeperServers
    from tailrace.coordination.zookeeper.zookeeper import ZooKeeperStore

    with ensemble(tmp_path) as running:
        addresses = [server.address for server in running.values()]
        store = ZooKeeperStore(ZooKeeperServers(",".join(addresses), 20_000), root="/tailrace/test")
        await store.open(60_000)
        states: list[SessionState] = []
        store.on_session(states.append)
        await store.commit([Create("/a", b"0"), Create("/e", b"", is_ephemeral=True)])
        (leader,) = [
            server
            for server in running.values()
            if "Mode: leader" in ask("127.0.0.1", int(server.address.split(":")[1]))
        ]
        leader.kill()
        await written(store, 1)
        assert await store.get("/e") is not None, "the session outlived its server"
        assert SessionState.EXPIRED not in states
        await store.close()


async def written(store: object, number: int) -> None:
    """Write until it is written, as whoever does not know the outcome has to."""
    from tailrace.coordination.zookeeper.zookeeper import ZooKeeperStore

    assert isinstance(store, ZooKeeperStore)
    async with asyncio.timeout(120):
        while (node := await store.get("/a")) is None or node.value != b"%d" % number:
            try:
                await store.commit([Put("/a", b"%d" % number, node.version if node else 0)])
            except OutcomeUnknown:
                await store.wait_connected()


def test_a_server_does_not_outlive_its_command(tmp_path: Path) -> None:
    require_zookeeper()
    server = ZooKeeperProcess(tmp_path)
    server.start()
    java = psutil.Process(server.java_pid)
    server.kill_parent()
    psutil.wait_procs([java], timeout=120)
    assert not java.is_running()


def test_an_address_that_is_taken_is_one_clear_line(tmp_path: Path) -> None:
    require_zookeeper()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = "{}:{}".format(*taken.getsockname())
        status, text = called("--listen", address, "--data", str(tmp_path))
    advice = "choose another port with --listen"
    assert (status, text) == (1, f"tailrace: cannot listen on {address}: Address already in use; {advice}\n")


def test_a_server_that_ends_by_itself_is_an_error(tmp_path: Path) -> None:
    require_zookeeper()
    status, text = called("--listen", "127.0.0.1:0", "--data", str(tmp_path), "--set", "tickTime=soon")
    assert status == 1
    assert text.splitlines()[-1].startswith("tailrace: the ZooKeeper server ended by itself with status 2")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--listen", "nonsense"], "--listen nonsense is not of the form HOST:PORT"),
        (["--listen", "127.0.0.1:70000"], "is not of the form HOST:PORT"),
        (["--servers", "1=a:1:2"], "an ensemble needs --servers and the --id"),
        (["--id", "1"], "an ensemble needs --servers and the --id"),
        (["--servers", "1=a:1:2", "--id", "2"], "an ensemble needs --servers and the --id"),
        (["--servers", "1=a:1", "--id", "1"], "is not of the form 1=HOST:PORT:PORT"),
        (["--servers", "1=a:1:2,1=b:1:2", "--id", "1"], "is not of the form 1=HOST:PORT:PORT"),
        (["--set", "tickTime"], "is not of the form NAME=VALUE"),
    ],
)
def test_a_wrong_call_exits_with_2(arguments: list[str], words: str, tmp_path: Path) -> None:
    status, text = called("--data", str(tmp_path / "data"), *arguments)
    assert (status, words in text) == (2, True), text
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "does not exist"), ("Client {\n  Module required user_a=secret;\n};\n", "has no section Server { … };")],
)
def test_a_jaas_file_that_has_no_users_is_refused(content: str | None, words: str, tmp_path: Path) -> None:
    """ZooKeeper itself would run without logins, and let every client in."""
    file = tmp_path / "jaas.conf"
    if content is not None:
        file.write_text(content)
    status, text = called("--data", str(tmp_path / "data"), "--jaas", str(file))
    assert (status, words in text, "secret" in text) == (2, True, False), text
    assert not (tmp_path / "data").exists()


def test_without_pyspark_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(zookeeper_server, "find_spec", lambda _: None)
    with pytest.raises(zookeeper_server.ZooKeeperMissingError, match=r"install the extra tailrace\[spark\]"):
        zookeeper_server.find_jars()
    spec = ModuleSpec("pyspark", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(zookeeper_server, "find_spec", lambda _: spec)
    with pytest.raises(zookeeper_server.ZooKeeperMissingError, match="no ZooKeeper jar"):
        zookeeper_server.find_jars()

"""Logins with SASL at a real ZooKeeper, nodes that belong to a user, and servers that let nobody in without a login."""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psutil
import pytest
from tests.certificate import make_certificate
from tests.logged import logged
from tests.port import free_port
from tests.unit.cli.command import called, succeeded
from tests.unit.coordination.zookeeper_process import QUICK, ZooKeeperProcess, require_zookeeper

from tailrace.config.broker import BrokerConfig
from tailrace.coordination.store import Create, Put, SessionState, StoreUnreachableError
from tailrace.machines.controller.topic import NewTopic
from tailrace.runtime.opener import start_broker
from tailrace.security.tls.context import make_client_context
from tailrace.security.tls.store import Stores

pytest.importorskip("kazoo", reason="kazoo is not installed")

from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.protocol.serialization import GetACL

from tailrace.coordination.zookeeper.link import ZooKeeperServers
from tailrace.coordination.zookeeper.login import SaslLogin
from tailrace.coordination.zookeeper.zookeeper import ZooKeeperStore

pytestmark = pytest.mark.slow

SECRET = "zk-93ac-secret"  # noqa: S105
GUESS = "zk-93ac-guess"
USERS = {"tailrace": SECRET, "other": "zk-93ac-other", "latin": "schlüssel'", "wide": "鍵 é"}
OURS = SaslLogin("tailrace", SECRET)
MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"
WAIT_S = 60
SESSION_TIMEOUT_MS = 60_000  # longer than a restart of the server on a busy machine


def write_jaas(file: Path, users: dict[str, str]) -> None:
    options = " ".join(f'user_{name}="{password}"' for name, password in users.items())
    file.write_text(f"Server {{\n  {MODULE} required {options};\n}};\n")


class Guarded(ZooKeeperProcess):
    """A server with users, on a plain and on a secure port."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.jaas = folder / "jaas.conf"
        write_jaas(self.jaas, USERS)
        super().__init__(folder, {**QUICK, **settings}, ("--jaas", str(self.jaas)))


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    make_certificate(folder, "server", "DNS:localhost")
    make_certificate(folder, "broker", "DNS:broker")
    return folder


@pytest.fixture(scope="module")
def secure_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def open_server(keys: Path, secure_port: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A server where clients may log in, with a secure port."""
    require_zookeeper()
    settings = {
        "sessionRequireClientSASLAuth": "false",
        "secureClientPort": str(secure_port),
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.keyStore.location": str(keys / "server.pem"),
        "ssl.trustStore.location": str(keys / "broker-ca.pem"),
        "ssl.clientHostnameVerification": "false",
        "ssl.hostnameVerification": "false",
    }
    server = Guarded(tmp_path_factory.mktemp("zookeeper"), **settings)
    server.start()
    yield server
    assert server.stop() == 0


@pytest.fixture(scope="module")
def closed_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A server where clients have to log in, and which tests may restart. It does not have the scheme digest."""
    require_zookeeper()
    server = Guarded(tmp_path_factory.mktemp("zookeeper"), **{"DigestAuthenticationProvider.enabled": "false"})
    server.start()
    yield server
    assert server.stop() == 0


@pytest.fixture
def root() -> str:
    return f"/{uuid4().hex}"


async def opened(
    address: str, root: str, login: SaslLogin | None, *, sets_acl: bool = False, digest: str | None = None
) -> ZooKeeperStore:
    servers = ZooKeeperServers(address, SESSION_TIMEOUT_MS, sasl=login, digest=digest)
    store = ZooKeeperStore(servers, root=root, sets_acl=sets_acl)
    await store.open(WAIT_S * 1000)
    return store


async def until_logged(caplog: pytest.LogCaptureFixture, words: str) -> None:
    async with asyncio.timeout(WAIT_S):
        while words not in logged(caplog):
            await asyncio.sleep(0.02)


async def until_connected(store: ZooKeeperStore) -> None:
    async with asyncio.timeout(WAIT_S):
        await store.wait_connected()


async def test_nodes_belong_to_the_user_who_logged_in(open_server: Guarded, root: str) -> None:
    owner = await opened(open_server.address, root, OURS, sets_acl=True)
    await owner.commit([Create("/a/b", b"1")])
    for path in ("", "/a", "/a/b"):
        ((entry,), _) = await owner._ask(GetACL(root + path))
        assert (entry.id.scheme, entry.id.id, entry.perms) == ("sasl", "tailrace", 31)
    another = await opened(open_server.address, root, OURS, sets_acl=True)
    assert [(path, node.value) for path, node in (await another.tree("/")).items()] == [("/a/b", b"1")]
    await owner.close()
    await another.close()


async def test_other_clients_are_refused(open_server: Guarded, root: str) -> None:
    owner = await opened(open_server.address, root, OURS, sets_acl=True)
    await owner.commit([Create("/a", b"1")])
    for login, digest in (
        (None, None),
        (None, f"tailrace:{SECRET}"),
        (SaslLogin("other", USERS["other"]), None),
    ):
        with pytest.raises(StoreUnreachableError, match="ZooKeeper denies access: its nodes belong to another user"):
            await opened(open_server.address, root, login, digest=digest)
    stranger = KazooClient(open_server.address)
    await asyncio.to_thread(stranger.start)
    for attempt in (stranger.get, stranger.delete, stranger.get_children):
        with pytest.raises(NoAuthError):
            await asyncio.to_thread(attempt, root if attempt == stranger.get_children else f"{root}/a")
    await asyncio.to_thread(stranger.stop)
    await asyncio.to_thread(stranger.close)
    await owner.close()


async def test_a_login_with_sasl_and_one_with_a_digest_own_nodes_together(open_server: Guarded, root: str) -> None:
    """So that brokers can change from one to the other, one after another."""
    both = await opened(open_server.address, root, OURS, sets_acl=True, digest="old:password")
    await both.commit([Create("/a", b"1")])
    for login, digest in ((OURS, None), (None, "old:password")):
        store = await opened(open_server.address, root, login, digest=digest)
        assert await store.get("/a") is not None
        await store.close()
    await both.close()


async def test_tls_and_sasl_together(open_server: Guarded, secure_port: int, keys: Path, root: str) -> None:
    stores = Stores(truststore_location=str(keys / "server-ca.pem"), keystore_location=str(keys / "broker.pem"))
    address, tls = f"localhost:{secure_port}", make_client_context(stores, checks_hostname=True)
    store = ZooKeeperStore(ZooKeeperServers(address, SESSION_TIMEOUT_MS, tls, sasl=OURS), root=root, sets_acl=True)
    await store.open(WAIT_S * 1000)
    await store.commit([Create("/a", b"1")])
    plain = await opened(open_server.address, root, OURS)
    assert await plain.get("/a") is not None, "the user is the same on both ports"
    wrong = ZooKeeperServers(address, SESSION_TIMEOUT_MS, tls, sasl=SaslLogin("tailrace", GUESS))
    with pytest.raises(StoreUnreachableError, match="wrong user or password"):
        await ZooKeeperStore(wrong, root=root).open(WAIT_S * 1000)
    await store.close()
    await plain.close()


@pytest.mark.parametrize("user", ["latin", "wide"])
async def test_passwords_of_any_characters(open_server: Guarded, root: str, user: str) -> None:
    await (await opened(open_server.address, root, SaslLogin(user, USERS[user]), sets_acl=True)).close()


@pytest.mark.parametrize("user", ["tailrace", "nobody", 'with "quotes"', "größe"])
@pytest.mark.parametrize("kind", ["open", "closed"])
async def test_a_wrong_login_is_refused_at_once(
    request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture, root: str, kind: str, user: str
) -> None:
    caplog.set_level(logging.DEBUG)
    address = request.getfixturevalue(f"{kind}_server").address
    with pytest.raises(StoreUnreachableError) as refused:
        await opened(address, root, SaslLogin(user, GUESS))
    expected = f"ZooKeeper at {address} refuses the SASL login of user {user}: wrong user or password; check "
    assert str(refused.value) == expected + "tailrace.zookeeper.sasl.jaas.config"
    assert GUESS not in logged(caplog)
    assert "refuses" not in logged(caplog), "whoever opens the store prints the reason"


async def test_a_server_without_users_is_named(zookeeper: ZooKeeperProcess, root: str) -> None:
    with pytest.raises(StoreUnreachableError, match=f"{zookeeper.address} refuses .* does not support SASL"):
        await opened(zookeeper.address, root, OURS)


async def test_a_server_that_requires_a_login_says_so(closed_server: Guarded, root: str) -> None:
    with pytest.raises(StoreUnreachableError, match="requires clients to log in; set tailrace"):
        await opened(closed_server.address, root, None)


async def test_a_server_without_the_scheme_digest_says_so(closed_server: Guarded, root: str) -> None:
    with pytest.raises(StoreUnreachableError, match=f"{closed_server.address} has no scheme digest"):
        await opened(closed_server.address, root, None, digest=f"tailrace:{SECRET}")


async def test_one_server_that_accepts_the_login_is_enough(
    zookeeper: ZooKeeperProcess, closed_server: Guarded, root: str
) -> None:
    """Servers get another password one after another, and brokers that start meanwhile must find one that has theirs.

    The order in which servers are tried is chosen by chance.
    """
    for _ in range(4):
        await (await opened(f"{zookeeper.address},{closed_server.address}", root, OURS)).close()


async def test_a_session_logs_in_again_after_a_restart(closed_server: Guarded, root: str) -> None:
    store = await opened(closed_server.address, root, OURS, sets_acl=True)
    states: list[SessionState] = []
    store.on_session(states.append)
    await store.commit([Create("/a", b"1"), Create("/e", b"", is_ephemeral=True)])
    await asyncio.to_thread(closed_server.stop)
    await asyncio.to_thread(closed_server.start)
    await until_connected(store)
    await store.commit([Put("/a", b"2", 0)])
    assert await store.get("/e") is not None
    assert states == [SessionState.SUSPENDED, SessionState.CONNECTED]
    await store.close()


async def test_a_login_that_fails_later_is_logged_once_and_tried_until_it_works(
    closed_server: Guarded, caplog: pytest.LogCaptureFixture, root: str
) -> None:
    caplog.set_level(logging.DEBUG)
    store = await opened(closed_server.address, root, OURS, sets_acl=True)
    await store.commit([Create("/a", b"1"), Create("/e", b"", is_ephemeral=True)])
    await asyncio.to_thread(closed_server.stop)
    write_jaas(closed_server.jaas, {**USERS, "tailrace": "zk-93ac-new"})
    await asyncio.to_thread(closed_server.start)
    await until_logged(caplog, "refuses the SASL login of user tailrace: wrong user or password")
    async with asyncio.timeout(WAIT_S):
        while closed_server.log.count("failed to SASL authenticate") < 3:
            await asyncio.sleep(0.02)
    await asyncio.to_thread(closed_server.stop)
    write_jaas(closed_server.jaas, USERS)
    await asyncio.to_thread(closed_server.start)
    await until_connected(store)
    await store.commit([Put("/a", b"2", 0)])
    assert await store.get("/e") is not None, "a connection renews the lease even if its login is refused"
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(errors) == 1, errors
    assert SECRET not in logged(caplog)
    await store.close()


async def test_a_broker_outlives_a_restart(
    closed_server: Guarded, caplog: pytest.LogCaptureFixture, root: str, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    config = BrokerConfig(
        {
            "node.id": "1",
            "log.dirs": str(tmp_path),
            "zookeeper.connect": closed_server.address + root,
            "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
            "zookeeper.set.acl": "true",
            "tailrace.zookeeper.sasl.jaas.config": f'{MODULE} required username="tailrace" password="{SECRET}";',
        }
    )
    broker = await start_broker(config)
    try:
        await broker.controller.create_topic(NewTopic("before", 1, 1), broker.topic_defaults)
        await asyncio.to_thread(closed_server.stop)
        await asyncio.to_thread(closed_server.start)
        async with asyncio.timeout(WAIT_S):
            await broker.metadata.store.wait_connected()
        await broker.controller.create_topic(NewTopic("after", 1, 1), broker.topic_defaults)
        assert set(broker.image.topics) == {"before", "after"}
    finally:
        await broker.stop()
    assert SECRET not in logged(caplog)


@pytest.mark.parametrize(
    ("login", "words"),
    [
        (
            f'{MODULE} required username="tailrace" password="{GUESS}";',
            "refuses the SASL login of user tailrace: wrong",
        ),
        (None, "requires clients to log in; set tailrace.zookeeper.sasl.jaas.config"),
    ],
    ids=["wrong password", "no login"],
)
def test_a_broker_that_is_not_let_in_exits_with_one_line(
    closed_server: Guarded, tmp_path: Path, login: str | None, words: str
) -> None:
    options = {"log.dirs": str(tmp_path / "data"), "listeners": "PLAINTEXT://127.0.0.1:0"}
    options |= {"zookeeper.connect": closed_server.address} | (
        {} if login is None else {"tailrace.zookeeper.sasl.jaas.config": login}
    )
    file = tmp_path / "server.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in options.items()))
    status, output, complaints = called("start", "--config", str(file))
    assert (status, output) == (1, ""), complaints
    (line,) = complaints.splitlines()
    assert line.startswith("tailrace: ZooKeeper ")
    assert words in line


def test_the_first_user_is_added_with_the_configs_of_a_broker(
    closed_server: Guarded, root: str, tmp_path: Path
) -> None:
    login = f'{MODULE} required username="tailrace" password="{SECRET}";'
    file = tmp_path / "server.properties"
    file.write_text(
        f"zookeeper.connect={closed_server.address}{root}\nzookeeper.set.acl=true\n"
        f"tailrace.zookeeper.sasl.jaas.config={login}\n"
    )
    succeeded("user", "add", "alice", "--config", str(file), words="a-password\n")
    assert "alice" in succeeded("user", "list", "--config", str(file))


def test_passwords_are_not_in_the_process_list_nor_in_a_representation(open_server: Guarded) -> None:
    command = psutil.Process(open_server.java_pid).cmdline()
    assert f"-Djava.security.auth.login.config={open_server.jaas}" in command
    servers = ZooKeeperServers("zk", digest=f"tailrace:{SECRET}", sasl=OURS)
    for text in (*command, repr(servers)):
        assert SECRET not in text
    assert SECRET not in open_server.log

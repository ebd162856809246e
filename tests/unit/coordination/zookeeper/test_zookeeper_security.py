"""TLS to a real ZooKeeper, and nodes that only their owner may touch."""

import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest
from tests.certificate import make_certificate
from tests.port import free_port
from tests.unit.coordination.zookeeper_process import QUICK, ZooKeeperProcess, require_zookeeper

from tailrace.coordination.store import Create, Node, Put, StoreUnreachableError
from tailrace.security.tls.context import make_client_context
from tailrace.security.tls.store import Stores

pytest.importorskip("kazoo", reason="kazoo is not installed")

from tailrace.coordination.zookeeper.link import ZooKeeperServers
from tailrace.coordination.zookeeper.socket import SocketHandler
from tailrace.coordination.zookeeper.zookeeper import ZooKeeperStore

pytestmark = pytest.mark.slow

NODE_COUNT = 1000


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    make_certificate(folder, "server", "DNS:localhost")
    make_certificate(folder, "broker", "DNS:broker")
    return folder


@pytest.fixture(scope="module")
def secure_port(keys: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    require_zookeeper()
    port = free_port()
    settings = {
        **QUICK,
        "secureClientPort": str(port),
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.keyStore.location": str(keys / "server.pem"),
        "ssl.trustStore.location": str(keys / "broker-ca.pem"),
        "ssl.clientHostnameVerification": "false",
        "ssl.hostnameVerification": "false",
    }
    server = ZooKeeperProcess(tmp_path_factory.mktemp("zookeeper"), settings)
    server.start()
    yield port
    assert server.stop() == 0


def tls(
    keys: Path, trusted: str = "server-ca.pem", shown: str | None = "broker.pem", *, checks_hostname: bool = True
) -> ssl.SSLContext:
    keystore = None if shown is None else str(keys / shown)
    stores = Stores(truststore_location=str(keys / trusted), keystore_location=keystore)
    return make_client_context(stores, checks_hostname=checks_hostname)


async def opened(
    servers: ZooKeeperServers, root: str = "", timeout_ms: int = 60_000, *, sets_acl: bool = False
) -> ZooKeeperStore:
    store = ZooKeeperStore(servers, root=root, sets_acl=sets_acl)
    await store.open(timeout_ms)
    return store


async def test_everything_works_over_tls(keys: Path, secure_port: int) -> None:
    servers = ZooKeeperServers(f"localhost:{secure_port}", 60_000, tls(keys))
    writer, reader = await opened(servers, "/tls"), await opened(servers, "/tls")
    heard: list[str] = []
    reader.watch(lambda changes: heard.extend(change.path for change in changes))
    await writer.commit([Create(f"/{number}", b"x" * 100) for number in range(NODE_COUNT)])
    await reader.commit([])
    assert len(heard) == NODE_COUNT
    third = await opened(servers, "/tls")
    assert await third.tree("/") == await writer.tree("/") == await reader.tree("/")
    for store in (writer, reader, third):
        await store.close()


def test_what_tls_has_decrypted_in_advance_is_not_left_lying(keys: Path) -> None:
    """kazoo asks the socket whether there is something to read, which knows nothing of the rest of a TLS record."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keys / "server.pem")

    def serve(listening: socket.socket) -> None:
        accepted, _ = listening.accept()
        with context.wrap_socket(accepted, server_side=True) as connection:
            connection.sendall(b"two answers")
            connection.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as thread:
        serving = thread.submit(serve, listening)
        handler = SocketHandler(tls(keys, shown=None), 1)
        client = handler.create_connection(address=listening.getsockname(), hostname="localhost", timeout=10)
        assert client.recv(4) == b"two "
        assert handler.select([client], [], [], 0)[0] == [client]
        assert client.recv(100) == b"answers"
        assert handler.select([client], [], [], 0)[0] == []
        client.close()
        serving.result(10)


@pytest.mark.parametrize(
    ("host", "trusted", "shown", "words"),
    [
        ("localhost", "broker-ca.pem", "broker.pem", "CERTIFICATE_VERIFY_FAILED"),
        ("127.0.0.1", "server-ca.pem", "broker.pem", "IP address mismatch"),
        ("localhost", "server-ca.pem", None, "did not answer"),
    ],
    ids=["unknown issuer", "other host", "nobody"],
)
async def test_who_is_not_who_he_should_be_is_not_talked_to(
    keys: Path, secure_port: int, host: str, trusted: str, shown: str | None, words: str
) -> None:
    servers = ZooKeeperServers(f"{host}:{secure_port}", 5000, tls(keys, trusted, shown))
    for timeout_ms in (1000, 4000, 16_000, 60_000):  # a cold server on a busy machine may take longer to refuse
        with pytest.raises(StoreUnreachableError) as caught:
            await opened(servers, timeout_ms=timeout_ms)
        if words in str(caught.value):
            break
    assert words in str(caught.value)


async def test_the_name_need_not_be_checked(keys: Path, secure_port: int) -> None:
    servers = ZooKeeperServers(f"127.0.0.1:{secure_port}", 60_000, tls(keys, checks_hostname=False))
    await (await opened(servers, "/tls")).close()


async def test_without_tls_a_secure_port_does_not_answer(secure_port: int) -> None:
    with pytest.raises(StoreUnreachableError, match="did not answer"):
        await opened(ZooKeeperServers(f"localhost:{secure_port}", 5000), timeout_ms=1000)


async def test_only_who_knows_the_password_reads_and_writes(zookeeper: ZooKeeperProcess) -> None:
    root = f"/{uuid4().hex}"
    ours = ZooKeeperServers(zookeeper.address, 60_000, digest="tailrace:secret")
    owner = await opened(ours, root, sets_acl=True)
    await owner.commit([Create("/a/b", b"1")])
    another = await opened(ours, root, sets_acl=True)
    assert [(path, node.value) for path, node in (await another.tree("/")).items()] == [("/a/b", b"1")]
    for digest in (None, "tailrace:guess"):
        with pytest.raises(StoreUnreachableError, match="ZooKeeper denies access"):
            await opened(ZooKeeperServers(zookeeper.address, 60_000, digest=digest), root)
    await owner.close()
    await another.close()


async def test_a_commit_where_another_rules_is_refused_by_name(zookeeper: ZooKeeperProcess) -> None:
    root = f"/{uuid4().hex}"
    stranger = await opened(ZooKeeperServers(zookeeper.address, 60_000), root)
    owner = await opened(ZooKeeperServers(zookeeper.address, 60_000, digest="tailrace:secret"), root, sets_acl=True)
    await owner.commit([Create("/a", b"1")])
    await stranger.commit([])
    with pytest.raises(StoreUnreachableError, match="denies access to /a"):
        await stranger.commit([Put("/a", b"2", 0)])
    assert await stranger.get("/a") is None
    assert isinstance(await owner.get("/a"), Node)
    await owner.close()
    await stranger.close()

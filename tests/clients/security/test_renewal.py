"""Certificates, users and keys that change while the broker runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from tests.clients.raw import Answer, Wire
from tests.clients.security import use_confluent
from tests.clients.security.ground import PLAIN_USER, Ground, open_ground
from tests.clients.security.outcome import Refused
from tests.clients.security.raw_login import TlsWire, authenticate, handshake, log_in
from tests.clients.security.token import TokenIssuer

WAIT_S = 60.0


@pytest.fixture
def changing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """A broker of the test's own, whose files it may change."""
    with open_ground(tmp_path_factory.mktemp("changing")) as opened:
        yield opened


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def subject(ground: Ground, listener: str = "SSL") -> str:
    with TlsWire(ground, listener) as wire:
        return wire.subject


# --- certificates


def test_renewed_certificate_in_the_same_file(changing: Ground) -> None:
    with TlsWire(changing, "SSL") as before:
        assert before.subject == "broker"
        changing.issuer.sign("renewed", file="broker")
        wait_until(lambda: subject(changing) == "renewed", "new connections see the new certificate")
        assert not isinstance(before.ask("Metadata", 1, topics=[]), str)


def test_file_that_is_no_certificate(changing: Ground) -> None:
    """The broker goes on with the certificate it has, says so, and takes the next good one."""
    (changing.folder / "broker-both.pem").write_text("nothing of the kind")
    changing.broker.log.wait_for("listener SSL goes on as before")
    assert subject(changing) == "broker"
    changing.issuer.sign("mended", file="broker")
    wait_until(lambda: subject(changing) == "mended", "the good file is taken")


def test_certificate_by_alter_configs(changing: Ground) -> None:
    """AlterConfigs gives one listener another certificate; the others keep theirs."""
    made = changing.issuer.sign("altered")
    with TlsWire(changing, "SSL") as before:
        alter(changing, "listener.name.ssl.ssl.keystore.location", str(made.both))
        wait_until(lambda: subject(changing) == "altered", "new connections see the new certificate")
        assert subject(changing, "UNSECURED") == "broker"
        assert not isinstance(before.ask("Metadata", 1, topics=[]), str)


def test_clients_of_a_new_authority(changing: Ground) -> None:
    """Certificates of clients are checked by the truststore of the moment."""
    stranger = changing.certified("MUTUAL", changing.stranger.sign("newcomer"))
    with pytest.raises(Refused):
        use_confluent.use(stranger, "t", 1, 0)
    both = changing.folder / "both-authorities.pem"
    both.write_text(changing.issuer.trust.read_text() + changing.stranger.trust.read_text())
    alter(changing, "ssl.truststore.location", str(both))

    def is_let_in() -> bool:
        try:
            return bool(use_confluent.use(stranger, "t", 1, 0).values)
        except Refused:
            return False

    wait_until(is_let_in, "the client of the new authority is let in")
    assert changing.broker.principals[stranger.client_id] == {"User:newcomer"}


def alter(ground: Ground, name: str, value: str) -> None:
    admin = AdminClient({"bootstrap.servers": ground.broker.address("PLAINTEXT")})
    broker_id = str(next(iter(admin.list_topics(timeout=30).brokers)))
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, broker_id, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(60)


# --- users


def login_code(ground: Ground, name: str, word: str) -> int:
    with Wire(ground.broker.address("SASL_PLAINTEXT")) as wire:
        handshake(wire)
        answer: Answer = authenticate(wire, f"\0{name}\0{word}".encode())
        assert not isinstance(answer, str)
        return int(answer["error_code"])


def test_changed_users_of_plain(changing: Ground) -> None:
    with Wire(changing.broker.address("SASL_PLAINTEXT")) as before:
        log_in(before)
        (changing.folder / "users.properties").write_text("grace=grace-knows-4471\n")
        wait_until(lambda: login_code(changing, "grace", "grace-knows-4471") == 0, "the new user can log in")
        assert login_code(changing, *PLAIN_USER) == 58
        assert not isinstance(before.ask("Metadata", 1, topics=[]), str)


def test_revoked_user_of_scram(changing: Ground, topic: str) -> None:
    since = len(changing.broker.log.lines)
    word = "heidi-knows-9912"
    changing.broker.set_scram_password("heidi", word)
    access = changing.login("SASL_SSL", "SCRAM-SHA-512", user="heidi", password=word)
    assert use_confluent.use(access, topic, 1, 0).values == ["0"]
    changing.broker.set_scram_password("heidi", None)
    with pytest.raises(Refused, match="invalid credentials with SASL mechanism SCRAM-SHA-512"):
        use_confluent.use(access, topic, 1, 0)
    changing.broker.log.wait_for("user heidi has no credential for SCRAM-SHA-512", since=since)
    assert not [line for line in changing.broker.log.lines if word in line]


# --- keys of tokens


def test_rotated_keys_in_a_file(changing: Ground, topic: str) -> None:
    """The broker reads the file again as soon as a token has a key that it does not know."""
    old = changing.login("SASL_SSL", "OAUTHBEARER")
    assert use_confluent.use(old, topic, 1, 0).values == ["0"]
    changing.tokens.rotate()
    changing.tokens.write(changing.folder / "keys.json")
    new = changing.login("SASL_SSL", "OAUTHBEARER")
    assert use_confluent.use(new, f"{topic}-2", 1, 0).values == ["0"]
    with pytest.raises(Refused):
        use_confluent.use(old, topic, 1, 0)


class KeyServer:
    """An issuer's server, with a count of the requests for its keys."""

    def __init__(self, issuer: TokenIssuer) -> None:
        self.request_count = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.request_count += 1
                body = issuer.document.encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/keys"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def key_server() -> Iterator[tuple[KeyServer, TokenIssuer]]:
    issuer = TokenIssuer()
    server = KeyServer(issuer)
    yield server, issuer
    server.close()


def test_rotated_keys_of_a_server(
    key_server: tuple[KeyServer, TokenIssuer], tmp_path_factory: pytest.TempPathFactory, topic: str
) -> None:
    """An unknown key has the keys read long before their time, but a flood of such tokens does not do so each time."""
    server, issuer = key_server
    more = {"listener.name.sasl_ssl.sasl.oauthbearer.jwks.endpoint.url": server.url}
    with open_ground(tmp_path_factory.mktemp("server"), more) as ground:
        ground.broker.log.wait_for("read 1 keys for tokens from", server.url)
        access = ground.login("SASL_SSL", "OAUTHBEARER", token=issuer.token("ivan"), user="ivan")
        assert use_confluent.use(access, topic, 1, 0).values == ["0"]
        issuer.rotate()
        renewed = ground.login("SASL_SSL", "OAUTHBEARER", token=issuer.token("ivan"), user="ivan")
        assert use_confluent.use(renewed, f"{topic}-2", 1, 0).values == ["0"]
        count = server.request_count
        stranger = TokenIssuer()
        for _ in range(3):
            with pytest.raises(Refused):
                use_confluent.use(ground.login("SASL_SSL", "OAUTHBEARER", token=stranger.token("x")), topic, 1, 0)
        assert server.request_count <= count + 1
        ground.broker.log.wait_for("by OAUTHBEARER")

"""The guard of a listener: made from options and files, and made anew when they change."""

import base64
import hashlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
from tests.certificate import make_certificate
from tests.logged import logged
from tests.unit.sample import BrokerInMemory, ManualClock

from tailrace.config.error import ConfigError
from tailrace.machines.controller.record import ConfigKind
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.runtime.broker import Broker
from tailrace.security.exchange import AuthenticationFailed
from tailrace.security.scram.credential import Decoys
from tailrace.security.scram.mechanism import SCRAM_SHA_256
from tailrace.server.security.guard import ListenerGuard
from tailrace.server.security.guards import Guards
from tailrace.server.security.session import SaslSession

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SASL = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl_enabled_mechanisms": "PLAIN"}


@asynccontextmanager
async def guarded(**settings: str) -> AsyncIterator[tuple[Broker, Guards]]:
    async with BrokerInMemory().running(**settings) as broker:
        guards = Guards(broker)
        try:
            for listener in broker.config.broker_listeners:
                guards.open(listener)
            yield broker, guards
        finally:
            await guards.close()


async def log_in(guards: Guards, user: str, password: str, session: SaslSession | None = None) -> bool:
    session = session or new_session(guards)
    session.handshake("PLAIN", 1)
    try:
        await session.respond(f"\0{user}\0{password}".encode())
    except AuthenticationFailed:
        return False
    return True


def new_session(guards: Guards) -> SaslSession:
    session = guards.session("SASL_PLAINTEXT", lambda _: None, lambda *_: None)
    assert isinstance(session, SaslSession)
    return session


async def test_a_plain_listener_asks_for_nothing() -> None:
    async with guarded(listeners="PLAINTEXT://127.0.0.1:0") as (_, guards):
        guard = guards["PLAINTEXT"]
        assert (guard.tls, guard.has_login) == (None, False)
        assert guards.session("PLAINTEXT", lambda _: None, lambda *_: None) is None


@pytest.mark.parametrize(
    ("listener", "is_told"),
    [("PLAINTEXT://:0", True), ("PLAINTEXT://10.0.0.1:0", True), ("PLAINTEXT://127.0.0.2:0", False),
     ("PLAINTEXT://[::1]:0", False), ("PLAINTEXT://localhost:0", False), ("PLAINTEXT://LocalHost:0", False),
     ("PLAINTEXT://localhost.example:0", True), ("PLAINTEXT://127.example:0", True), ("PLAINTEXT://[::1:2]:0", True)],
)  # fmt: skip
async def test_a_plain_listener_for_other_machines_gets_a_warning(
    listener: str, is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Names that begin like a loopback address, such as `localhost.example`, used to pass for one."""
    async with guarded(listeners=listener):
        text = f"listener {listener} accepts clients without authentication, and other machines can reach it"
        assert (text in logged(caplog)) is is_told


@pytest.mark.parametrize(("client_auth", "is_told"), [("none", True), ("requested", True), ("required", False)])
async def test_a_listener_with_tls_that_requires_no_certificate_gets_the_warning_too(
    tmp_path: Path, client_auth: str, is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    make_certificate(tmp_path, "server", "DNS:localhost")
    options = {
        "listeners": "SSL://10.0.0.1:0",
        "ssl_keystore_location": str(tmp_path / "server.pem"),
        "ssl_truststore_location": str(tmp_path / "server-ca.pem"),
        "ssl_client_auth": client_auth,
    }
    async with guarded(**options):
        assert ("accepts clients without authentication" in logged(caplog)) is is_told


@pytest.mark.parametrize(
    ("host", "mechanisms", "is_told"),
    [("10.0.0.1", "PLAIN,SCRAM-SHA-256", True), ("10.0.0.1", "SCRAM-SHA-256", False), ("127.0.0.1", "PLAIN", False)],
)
async def test_passwords_without_encryption_get_a_warning(
    host: str, mechanisms: str, is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"listeners": f"SASL_PLAINTEXT://{host}:0", "sasl_enabled_mechanisms": mechanisms}
    async with guarded(**options, sasl_jaas_config=f'{PLAIN} required user_alice="secret";'):
        assert ("takes passwords by PLAIN without TLS, and other machines can reach it" in logged(caplog)) is is_told
        assert "without authentication" not in logged(caplog)


# --- users of SCRAM


async def test_the_salt_of_an_unknown_user_cannot_be_computed_by_a_client() -> None:
    """The secret of decoys was a hash of the cluster id, which clients know, so they could tell which users exist."""
    scram = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl_enabled_mechanisms": "SCRAM-SHA-256"}
    async with guarded(**scram) as (broker, guards):
        salts = []
        for _ in range(2):
            session = new_session(guards)
            session.handshake("SCRAM-SHA-256", 1)
            answer = await session.respond(b"n,,n=unknown,r=nonce")
            salts.append(base64.b64decode(answer.token.decode().split(",s=")[1].split(",i=")[0]))
        assert salts[0] == salts[1]
        known = hashlib.sha256(f"decoys of {broker.cluster_id} ".encode()).digest()
        assert salts[0] != Decoys(known).credential(SCRAM_SHA_256, "unknown").salt


# --- users of PLAIN


async def test_users_in_an_option() -> None:
    jaas = f'{PLAIN} required username="broker" password="b" user_alice="a";'
    async with guarded(**SASL, sasl_jaas_config=jaas) as (_, guards):
        assert await log_in(guards, "alice", "a")
        assert not await log_in(guards, "broker", "b")


async def test_users_in_a_file_that_changes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "users"
    file.write_text("alice=a\n")
    async with guarded(**SASL, tailrace_sasl_plain_users_file=str(file)) as (_, guards):
        before = guards["SASL_PLAINTEXT"]
        assert await log_in(guards, "alice", "a")
        await guards.refresh()
        assert guards["SASL_PLAINTEXT"] is before
        file.write_text("alice=another\nbob=b\n")
        await guards.refresh()
        after = guards["SASL_PLAINTEXT"]
        assert [await log_in(guards, *login) for login in (("alice", "a"), ("alice", "another"), ("bob", "b"))] == [
            False,
            True,
            True,
        ]
        file.write_text("alice\n=\n")
        await guards.refresh()
        assert guards["SASL_PLAINTEXT"] is after
        assert "listener SASL_PLAINTEXT goes on as before: tailrace.sasl.plain.users.file: " in logged(caplog)
        file.unlink()
        await guards.refresh()
        assert guards["SASL_PLAINTEXT"] is after
        file.write_text("bob=b\n")
        await guards.refresh()
        assert not await log_in(guards, "alice", "another")


@pytest.mark.parametrize(
    ("password", "is_let_in"), [("old", False), ("new", True)], ids=["the old password", "the new password"]
)
async def test_a_login_that_is_repeated_needs_the_present_password(
    tmp_path: Path, password: str, is_let_in: bool
) -> None:
    """A repeated login was checked with the users of the time when the connection was opened.

    A user who had been deleted since, or whose password had leaked and was changed, could go on for ever.
    """
    file = tmp_path / "users"
    file.write_text("alice=old\n")
    options = {"tailrace_sasl_plain_users_file": str(file), "connections_max_reauth_ms": "5000"}
    async with guarded(**SASL, **options) as (broker, guards):
        session = new_session(guards)
        assert await log_in(guards, "alice", "old", session)
        file.write_text("alice=new\n")
        await guards.refresh()
        cast("ManualClock", broker.clock).time_ms += 2000
        assert await log_in(guards, "alice", password, session) is is_let_in


async def test_a_login_is_not_repeated_by_a_mechanism_that_was_taken_out() -> None:
    jaas = f'{PLAIN} required user_alice="a";'
    options = {"sasl_enabled_mechanisms": "PLAIN,SCRAM-SHA-256", "connections_max_reauth_ms": "5000"}
    async with guarded(**{**SASL, **options}, sasl_jaas_config=jaas) as (broker, guards):
        session = new_session(guards)
        assert await log_in(guards, "alice", "a", session)
        await set_broker_configs(broker, {"sasl.enabled.mechanisms": "SCRAM-SHA-256"})
        await guards.refresh()
        cast("ManualClock", broker.clock).time_ms += 2000
        with pytest.raises(ApiError) as caught:
            session.handshake("PLAIN", 1)
        assert caught.value.code is ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert session.mechanism_names == ["SCRAM-SHA-256"]


async def set_broker_configs(broker: Broker, texts: dict[str, str]) -> None:
    """Give a broker dynamic configs, and no others."""
    change = broker.controller.write_config(
        ConfigKind.BROKER, str(broker.config.node_id), lambda _: texts, validate_only=False
    )
    await change


@pytest.mark.parametrize(
    ("settings", "option", "message"),
    [
        ({}, "sasl.jaas.config", "has the mechanism PLAIN and no users; set tailrace.sasl.plain.users.file"),
        ({"sasl_jaas_config": "nonsense"}, "sasl.jaas.config", "not a known login module"),
        ({"tailrace_sasl_plain_users_file": "/nowhere"}, "tailrace.sasl.plain.users.file", "cannot be read"),
        ({"sasl_enabled_mechanisms": "OAUTHBEARER"}, "sasl.oauthbearer.jwks.endpoint.url", "no keys for its tokens"),
        ({"ssl_principal_mapping_rules": "RULE:("}, "ssl.principal.mapping.rules", "rule"),
    ],
)
async def test_options_that_cannot_be_used_are_named(settings: dict[str, str], option: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        async with guarded(**{**SASL, **settings}):
            pass
    assert caught.value.name == option


# --- TLS


async def test_a_renewed_certificate_is_taken_over(tmp_path: Path) -> None:
    make_certificate(tmp_path, "old", "DNS:localhost")
    make_certificate(tmp_path, "new", "DNS:localhost")
    keystore = tmp_path / "keystore.pem"
    keystore.write_bytes((tmp_path / "old.pem").read_bytes())
    async with guarded(listeners="SSL://127.0.0.1:0", ssl_keystore_location=str(keystore)) as (_, guards):
        old = guards["SSL"]
        assert shows(old, tmp_path / "old-ca.pem")
        keystore.write_bytes((tmp_path / "new.pem").read_bytes())
        await guards.refresh()
        assert shows(guards["SSL"], tmp_path / "new-ca.pem")
        keystore.write_bytes(b"rubbish")
        await guards.refresh()
        assert shows(guards["SSL"], tmp_path / "new-ca.pem")
        assert shows(old, tmp_path / "old-ca.pem")


async def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the file does not exist") as caught:
        async with guarded(listeners="SSL://127.0.0.1:0", ssl_keystore_location=str(tmp_path / "nowhere.pem")):
            pass
    assert caught.value.name == "ssl.keystore.location"


@pytest.mark.parametrize(
    ("settings", "versions"),
    [
        ({}, {"TLSv1.2": True, "TLSv1.3": True}),
        ({"ssl_protocol": "TLSv1.2"}, {"TLSv1.2": True, "TLSv1.3": False}),
        ({"ssl_enabled_protocols": "TLSv1.3"}, {"TLSv1.2": False, "TLSv1.3": True}),
    ],
)
async def test_versions_of_tls(tmp_path: Path, settings: dict[str, str], versions: dict[str, bool]) -> None:
    make_certificate(tmp_path, "server", "DNS:localhost")
    options = {"listeners": "SSL://127.0.0.1:0", "ssl_keystore_location": str(tmp_path / "server.pem")}
    async with guarded(**options, **settings) as (_, guards):
        context = guards["SSL"].tls
        assert context is not None
        for name, is_allowed in versions.items():
            version = getattr(ssl.TLSVersion, name.replace(".", "_"))
            assert can_connect(context, tmp_path / "server-ca.pem", version) is is_allowed


def shows(guard: ListenerGuard, authority: Path) -> bool:
    assert guard.tls is not None
    return can_connect(guard.tls, authority)


def can_connect(server: ssl.SSLContext, authority: Path, version: ssl.TLSVersion | None = None) -> bool:
    """Make a handshake in memory."""
    client = ssl.create_default_context(cafile=str(authority))
    if version is not None:
        client.minimum_version = client.maximum_version = version
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    waiting = list(sides)
    for _ in range(10):
        for side in list(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError:
                return False
    return not waiting

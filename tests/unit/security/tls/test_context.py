"""Handshakes between the contexts of servers and clients, and the name of the client."""

import asyncio
import ssl
from pathlib import Path
from typing import cast

import pytest
import uvloop
from tests.unit.security.tls.tls_files import Authority, Issued, shake_hands

from tailrace.security.principal_rule import NoMatchingRule, PrincipalRules
from tailrace.security.tls.accepted import AcceptedContext
from tailrace.security.tls.context import make_client_context, make_server_context
from tailrace.security.tls.error import TlsConfigError
from tailrace.security.tls.peer import peer_name
from tailrace.security.tls.secret_file import secret_file
from tailrace.security.tls.store import Stores


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


def stores(issued: Issued | None, trusted: Authority | None) -> Stores:
    return Stores(
        keystore_key=None if issued is None else issued.key_pem(),
        keystore_certificate_chain=None if issued is None else issued.certificate_pem,
        truststore_certificates=None if trusted is None else trusted.pem,
    )


def test_a_client_trusts_the_authority_of_its_trust_store_alone(authority: Authority) -> None:
    server = make_server_context(stores(authority.issue("broker"), None))
    shake_hands(server, make_client_context(stores(None, authority)))
    for other in (stores(None, Authority("other")), Stores()):
        with pytest.raises(ssl.SSLCertVerificationError):
            shake_hands(server, make_client_context(other))


def test_a_client_checks_the_name_of_the_host_unless_told_not_to(authority: Authority) -> None:
    server = make_server_context(stores(authority.issue("broker"), None))
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(server, make_client_context(stores(None, authority)), "elsewhere")
    shake_hands(server, make_client_context(stores(None, authority), checks_hostname=False), "elsewhere")


def test_an_expired_certificate_is_refused(authority: Authority) -> None:
    server = make_server_context(stores(authority.issue("broker", expired=True), None))
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        shake_hands(server, make_client_context(stores(None, authority)))


def test_a_certificate_can_be_trusted_without_its_authority(authority: Authority) -> None:
    """Java trusts what is in the trust store; OpenSSL wants a root unless it is told otherwise."""
    broker = authority.issue("broker")
    server = make_server_context(stores(broker, None))
    shake_hands(server, make_client_context(Stores(truststore_certificates=broker.certificate_pem)))


def test_certificates_of_clients(authority: Authority) -> None:
    broker, alice, stranger = authority.issue("broker"), authority.issue("alice"), Authority("other").issue("mallory")
    rules = PrincipalRules()
    for client_auth, issued, name in (
        ("none", alice, None),
        ("none", None, None),
        ("requested", alice, "CN=alice"),
        ("requested", None, None),
        ("required", alice, "CN=alice"),
    ):
        server = make_server_context(stores(broker, authority), client_auth)  # type: ignore[arg-type]
        end, _ = shake_hands(server, make_client_context(stores(issued, authority)))
        assert peer_name(end, rules) == name
    for client_auth, issued in (("requested", stranger), ("required", stranger), ("required", None)):
        server = make_server_context(stores(broker, authority), client_auth)  # type: ignore[arg-type]
        with pytest.raises(ssl.SSLError):
            shake_hands(server, make_client_context(stores(issued, authority)))


def test_the_name_of_a_client_is_mapped_by_rules(authority: Authority) -> None:
    server = make_server_context(stores(authority.issue("broker"), authority), "required")
    alice = make_client_context(stores(authority.issue("Alice", organization="Us, Ltd"), authority))
    end, _ = shake_hands(server, alice)
    assert peer_name(end, PrincipalRules()) == "CN=Alice,O=Us\\, Ltd"
    assert peer_name(end, PrincipalRules("RULE:^CN=(.*?),O=.*$/$1/L")) == "alice"
    with pytest.raises(NoMatchingRule):
        peer_name(end, PrincipalRules("RULE:^OU=.*$/x/"))


def test_clients_are_not_asked_for_certificates_that_nothing_verifies(authority: Authority) -> None:
    with pytest.raises(TlsConfigError, match="needs a trust store") as caught:
        make_server_context(stores(authority.issue("broker"), None), "required")
    assert caught.value.option == "ssl.truststore.location"


@pytest.mark.parametrize(
    ("protocols", "suites", "version", "cipher"),
    [
        ([], [], "TLSv1.3", None),
        (["TLSv1.2", "TLSv1.3"], [], "TLSv1.3", None),
        (["TLSv1.2"], [], "TLSv1.2", None),
        (["TLSv1.3"], [], "TLSv1.3", None),
        ([], ["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"], "TLSv1.2", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        ([], ["TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"], "TLSv1.2", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ([], ["TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384"], "TLSv1.2", "ECDHE-ECDSA-AES256-SHA384"),
        ([], ["ECDHE-ECDSA-AES256-GCM-SHA384"], "TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384"),
    ],
)
def test_versions_and_suites(
    authority: Authority, protocols: list[str], suites: list[str], version: str, cipher: str | None
) -> None:
    server = make_server_context(stores(authority.issue("broker"), None), "none", protocols, suites)
    end, _ = shake_hands(server, make_client_context(stores(None, authority)))
    chosen = end.cipher()
    assert end.version() == version
    assert chosen is not None
    assert cipher in (None, chosen[0])


@pytest.mark.parametrize(
    ("protocols", "suites", "option"),
    [
        (["TLSv1.1"], [], "ssl.enabled.protocols"),
        (["SSLv3", "TLSv1.2"], [], "ssl.enabled.protocols"),
        ([], ["TLS_RSA_WITH_NULL_SHA"], "ssl.cipher.suites"),
        ([], ["NO_SUCH_SUITE"], "ssl.cipher.suites"),
        ([], ["TLS_AES_128_GCM_SHA256"], "ssl.cipher.suites"),
        (["TLSv1.3"], ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"], "ssl.cipher.suites"),
    ],
)
def test_versions_and_suites_that_are_refused(protocols: list[str], suites: list[str], option: str) -> None:
    with pytest.raises(TlsConfigError) as caught:
        make_client_context(Stores(), enabled_protocols=protocols, cipher_suites=suites)
    assert caught.value.option == option


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_handshake_begins_with_bytes_that_were_read_before(
    authority: Authority, new_loop: asyncio.AbstractEventLoop
) -> None:
    """The first bytes of the client reach a protocol without TLS, which hands them to the context."""
    server_context = make_server_context(stores(authority.issue("broker"), None))

    class Late(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport = cast("asyncio.Transport", transport)

        def data_received(self, data: bytes) -> None:
            self.transport.pause_reading()
            self.task = asyncio.get_running_loop().create_task(self.serve(data))

        async def serve(self, early: bytes) -> None:
            loop, context = asyncio.get_running_loop(), AcceptedContext.take(server_context, early, lambda: None, print)
            tls = await loop.start_tls(self.transport, asyncio.Protocol(), context, server_side=True)
            assert tls is not None
            tls.write(b"hello")
            tls.close()

    async def scene() -> None:
        server = await asyncio.get_running_loop().create_server(Late, "127.0.0.1", 0)
        port, client = server.sockets[0].getsockname()[1], make_client_context(stores(None, authority))
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname="localhost")
        assert await reader.read() == b"hello"
        writer.close()
        await writer.wait_closed()
        server.close()
        await server.wait_closed()

    with asyncio.Runner(loop_factory=new_loop) as runner:  # type: ignore[arg-type]
        runner.run(scene())


def test_the_alert_of_a_failed_handshake_is_handed_over(authority: Authority) -> None:
    """The client learns why: without the alert it only sees the end of the connection."""
    server = make_server_context(stores(authority.issue("broker"), authority), "required")
    client = make_client_context(stores(None, authority))
    alerts: list[bytes] = []
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    at_server = AcceptedContext.take(server, b"", lambda: None, alerts.append).wrap_bio(up, down, server_side=True)
    at_client = client.wrap_bio(down, up, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        at_client.do_handshake()
    with pytest.raises(ssl.SSLWantReadError):
        at_server.do_handshake()
    at_client.do_handshake()
    with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        at_server.do_handshake()
    (alert,) = alerts
    down.write(alert)
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"):
        at_client.read(1)


def test_a_secret_file_is_gone_after_its_use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with secret_file(b"secret") as path:
        assert Path(path).read_bytes() == b"secret"
    assert not Path(path).exists()
    monkeypatch.delattr("os.memfd_create", raising=False)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with secret_file(b"secret") as path:
        assert Path(path).read_bytes() == b"secret"
        assert Path(path).stat().st_mode & 0o777 == 0o600
    assert not Path(path).exists()

"""The keys of tokens, read from a file or a URL, and again when they change."""

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.logged import logged
from tests.unit.sample import NOW_MS, BrokerInMemory, ManualClock

from tailrace.base.security_limits import JWKS_DOCUMENT_BYTES_MAX, JWKS_REFRESH_PAUSE_MS
from tailrace.client.backoff import Backoff
from tailrace.security.bearer_token import TokenRefused, TokenRules
from tailrace.server.security.guards import Guards
from tailrace.server.security.key_source import KeySource
from tailrace.server.security.mechanism import OAuthSource

jwk = pytest.importorskip("joserfc.jwk")
jwt = pytest.importorskip("joserfc.jwt")

HOUR_MS = 3_600_000


class Issuer:
    """Signs tokens; its document has the public parts of its keys."""

    def __init__(self) -> None:
        self.keys: dict[str, Any] = {}
        self.rotate("first")

    def rotate(self, key_id: str) -> None:
        self.keys = {key_id: jwk.ECKey.generate_key("P-256", {"kid": key_id})}

    @property
    def document(self) -> str:
        return json.dumps({"keys": [key.as_dict(private=False) for key in self.keys.values()]})

    def token(self, user: str = "alice") -> str:
        ((key_id, key),) = self.keys.items()
        now_s = NOW_MS // 1000
        claims = {"sub": user, "iat": now_s, "exp": now_s + 600}
        text: str = jwt.encode({"alg": "ES256", "kid": key_id}, claims, key, algorithms=["ES256"])
        return text


def source(url: str, clock: ManualClock | None = None) -> KeySource:
    return KeySource(url, TokenRules(), clock or ManualClock(), HOUR_MS, Backoff(1, 2))


def first_message(token: str) -> bytes:
    return f"n,,\x01auth=Bearer {token}\x01\x01".encode()


async def test_a_file(tmp_path: Path) -> None:
    issuer, file = Issuer(), tmp_path / "jwks.json"
    file.write_text(issuer.document)
    keys = source(file.as_uri())
    with pytest.raises(TokenRefused, match="have not been read yet"):
        keys.check(issuer.token())
    assert await keys.refresh()
    assert keys.check(issuer.token()).principal == "alice"


async def test_an_unknown_key_has_the_keys_read_again(tmp_path: Path) -> None:
    issuer, file, clock = Issuer(), tmp_path / "jwks.json", ManualClock()
    file.write_text(issuer.document)
    keys = source(file.as_uri(), clock)
    await keys.refresh()
    mechanism = OAuthSource(keys.check, keys.refresh)
    issuer.rotate("second")
    file.write_text(issuer.document)
    early = mechanism.begin(is_again=False)
    assert b"invalid_token" in await mechanism.respond(early, first_message(issuer.token()))
    assert early.identity is None  # clients cannot have the keys read as often as they like
    clock.time_ms += JWKS_REFRESH_PAUSE_MS
    exchange = mechanism.begin(is_again=False)
    assert await mechanism.respond(exchange, first_message(issuer.token())) == b""
    assert exchange.identity is not None
    assert exchange.identity.name == "alice"


async def test_a_bad_document_leaves_the_keys_as_they_are(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    issuer, file, clock = Issuer(), tmp_path / "jwks.json", ManualClock()
    file.write_text(issuer.document)
    keys = source(file.as_uri(), clock)
    await keys.refresh()
    for text in ("no JSON", '{"keys": []}', "x" * (JWKS_DOCUMENT_BYTES_MAX + 1)):
        file.write_text(text)
        clock.time_ms += JWKS_REFRESH_PAUSE_MS
        assert not await keys.refresh()
        assert keys.check(issuer.token()).principal == "alice"
    file.unlink()
    clock.time_ms += JWKS_REFRESH_PAUSE_MS
    assert not await keys.refresh()
    assert logged(caplog).count("the keys for tokens could not be read") == 4


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, _Server)
        server.asked += 1
        if server.failures:
            server.failures -= 1
            self.send_error(503)
            return
        if server.rude_answer:
            self.wfile.write(server.rude_answer)
            return
        if self.path.startswith("/moved"):
            self.send_response(302)
            self.send_header("Location", f"http://127.0.0.1:{server.server_port}/keys")
            self.end_headers()
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(server.document.encode())

    def log_message(self, *arguments: object) -> None:
        """Nothing on the test's output."""


class _Server(HTTPServer):
    document = ""
    rude_answer = b""
    failures = 0
    asked = 0


@pytest.fixture
def web() -> Iterator[_Server]:
    server = _Server(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


async def test_a_url_is_asked_until_it_answers(web: _Server) -> None:
    issuer = Issuer()
    web.document, web.failures = issuer.document, 3
    keys = source(f"http://127.0.0.1:{web.server_port}/keys")
    keeping = asyncio.create_task(keys.keep())
    async with asyncio.timeout(60):
        while True:
            try:
                assert keys.check(issuer.token()).principal == "alice"
                break
            except TokenRefused:
                await asyncio.sleep(0.005)
    keeping.cancel()
    await asyncio.wait([keeping])
    assert web.asked == 4


async def test_several_logins_share_one_reading(web: _Server) -> None:
    web.document = Issuer().document
    keys = source(f"http://127.0.0.1:{web.server_port}/keys")
    assert await asyncio.gather(*[keys.refresh() for _ in range(5)]) == [True] * 5
    assert web.asked == 1


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"220 mail.example ESMTP\r\n", "it does not answer in HTTP (BadStatusLine)"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n", "it does not answer in HTTP (HTTPException)"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{", "(IncompleteRead)"),
    ],
)
async def test_a_server_that_does_not_speak_http(
    web: _Server, answer: bytes, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    """These errors of Python's HTTP client are no `OSError`: they ended the task that keeps the keys."""
    web.rude_answer = answer
    assert not await source(f"http://127.0.0.1:{web.server_port}/keys").refresh()
    assert problem in logged(caplog)


async def test_a_redirect_is_not_followed(web: _Server, caplog: pytest.LogCaptureFixture) -> None:
    web.document = Issuer().document
    assert not await source(f"http://127.0.0.1:{web.server_port}/moved").refresh()
    assert web.asked == 1
    assert "it answers 302, and redirects are not followed" in logged(caplog)


async def test_the_log_shows_no_secret_of_the_url(web: _Server, caplog: pytest.LogCaptureFixture) -> None:
    web.document = Issuer().document
    assert await source(f"http://127.0.0.1:{web.server_port}/keys?api_key=hush").refresh()
    for place in ("me:hush@127.0.0.1/keys", "me:hush@127.0.0.1:1/keys"):
        keys = source(f"http://{place}")
        assert not await keys.refresh()
        with pytest.raises(TokenRefused) as caught:
            keys.check("token")
        assert "hush" not in caught.value.reason
    assert "hush" not in logged(caplog)


async def test_keys_are_taken_over_from_a_source_of_the_same_url(tmp_path: Path) -> None:
    issuer, file = Issuer(), tmp_path / "jwks.json"
    file.write_text(issuer.document)
    before = source(file.as_uri())
    await before.refresh()
    file.unlink()
    same, other = source(file.as_uri()), source((tmp_path / "other.json").as_uri())
    for keys in (same, other):
        keys.take_over(before)
    assert same.check(issuer.token()).principal == "alice"
    with pytest.raises(TokenRefused, match="have not been read yet"):
        other.check(issuer.token())


async def test_a_change_of_the_listener_keeps_its_keys(tmp_path: Path) -> None:
    """While the server of the keys was away, any change of a listener refused every token until it came back."""
    issuer, jwks, users = Issuer(), tmp_path / "jwks.json", tmp_path / "users"
    jwks.write_text(issuer.document)
    users.write_text("alice=a\n")
    async with BrokerInMemory().running(
        listeners="SASL_PLAINTEXT://127.0.0.1:0",
        sasl_enabled_mechanisms="PLAIN,OAUTHBEARER",
        sasl_oauthbearer_jwks_endpoint_url=jwks.as_uri(),
        tailrace_sasl_plain_users_file=str(users),
    ) as broker:
        guards = Guards(broker)
        guards.open(broker.config.broker_listeners[0])
        before = guards["SASL_PLAINTEXT"]
        try:
            async with asyncio.timeout(60):
                while not await _is_let_in(guards, issuer):
                    await asyncio.sleep(0.005)
            jwks.unlink()
            users.write_text("alice=another\n")
            await guards.refresh()
            assert guards["SASL_PLAINTEXT"] is not before
            assert await _is_let_in(guards, issuer)
        finally:
            await guards.close()


async def _is_let_in(guards: Guards, issuer: Issuer) -> bool:
    session = guards.session("SASL_PLAINTEXT", lambda _: None, lambda *_: None)
    assert session is not None
    session.handshake("OAUTHBEARER", 1)
    await session.respond(first_message(issuer.token()))
    return session.is_complete

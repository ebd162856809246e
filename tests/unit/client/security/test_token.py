"""Tokens from functions, files and OAuth servers, and when another one is fetched."""

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qs

import pytest

from tailrace.client.error import AuthenticationError, BrokerUnavailable
from tailrace.client.security.token import expiry_of, tokens_of_callback, tokens_of_file, unsecured_tokens
from tailrace.client.security.token_endpoint import TokenEndpoint, tokens_of_endpoint
from tailrace.security.bearer_token import Token, TokenRules
from tailrace.security.unsecured_token import check_unsecured, make_unsecured

SECRET = "client-secret-91c"
NOW_S = 1_800_000_000.0
NO_HTTP = 0
"""In place of a status: the server does not answer in HTTP."""


def token(subject: str, lifetime_s: int = 100, now_s: float = NOW_S) -> str:
    options = {"unsecuredLoginStringClaim_sub": subject, "unsecuredLoginLifetimeSeconds": str(lifetime_s)}
    return make_unsecured(options, now_s)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of the module, which the test sets."""
    now = [NOW_S]
    monkeypatch.setattr("tailrace.client.security.token.time.time", lambda: now[0])
    return now


def test_a_token_is_used_until_most_of_its_life_has_passed(clock: list[float]) -> None:
    async def scene() -> None:
        names = iter(["first", "second"])
        source = tokens_of_callback(lambda: token(next(names), now_s=clock[0]))
        first = await source.token()
        clock[0] += 79
        assert await source.token() == first
        clock[0] += 2
        assert await source.token() != first

    asyncio.run(scene())


def test_logins_at_the_same_time_share_one_fetch(clock: list[float]) -> None:
    calls: list[int] = []

    async def oauth_token() -> str:
        calls.append(1)
        await asyncio.sleep(0)
        return token("alice")

    async def scene() -> None:
        source = tokens_of_callback(oauth_token)
        assert len(set(await asyncio.gather(*[source.token() for _ in range(5)]))) == 1

    asyncio.run(scene())
    assert len(calls) == 1


def test_a_token_that_does_not_say_when_it_expires_is_fetched_for_each_login() -> None:
    async def scene() -> None:
        names = iter("ab")
        source = tokens_of_callback(lambda: next(names))
        assert [await source.token(), await source.token()] == ["a", "b"]

    asyncio.run(scene())


@pytest.mark.parametrize(("result", "words"), [(None, "returned NoneType"), (ValueError(SECRET), "raised ValueError")])
def test_a_function_that_gives_no_token(result: object, words: str) -> None:
    def oauth_token() -> str:
        if isinstance(result, Exception):
            raise result
        return result  # type: ignore[return-value]

    with pytest.raises(AuthenticationError, match=f"oauth_token {words}") as caught:
        asyncio.run(tokens_of_callback(oauth_token).token())
    assert SECRET not in str(caught.value)


def test_a_file_is_read_for_each_login(tmp_path: Path) -> None:
    async def scene() -> None:
        source = tokens_of_file(tmp_path / "token")
        with pytest.raises(AuthenticationError, match=r"token of the token cannot be read|cannot be read"):
            await source.token()
        for text in ("first", "second"):
            (tmp_path / "token").write_text(text + "\n")
            assert await source.token() == text

    asyncio.run(scene())


def test_unsecured_tokens_say_what_their_options_say() -> None:
    options = {
        "unsecuredLoginStringClaim_sub": "alice",
        "unsecuredLoginListClaim_scope": "|read|write",
        "unsecuredLoginNumberClaim_level": "3",
    }
    found = check_unsecured(make_unsecured(options, NOW_S), TokenRules(), NOW_S)
    assert found == Token("alice", round((NOW_S + 3600) * 1000), frozenset({"read", "write"}))
    with pytest.raises(ValueError, match="unsecuredLoginStringClaim_sub is missing"):
        asyncio.run(unsecured_tokens({}).token())


@pytest.mark.parametrize("text", ["opaque", "a.b.c", "..", "a.eyJleHAiOiAieCJ9.c", "a." + "W10" + ".c"])
def test_the_expiry_of_what_is_no_jwt_is_not_known(text: str) -> None:
    assert expiry_of(text) is None


class Server(BaseHTTPRequestHandler):
    """An OAuth server with one client."""

    answers: ClassVar[list[tuple[int, object]]] = []
    forms: ClassVar[list[dict[str, list[str]]]] = []
    headers_seen: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        size = int(self.headers["Content-Length"])
        self.forms.append(parse_qs(self.rfile.read(size).decode()))
        self.headers_seen.append(self.headers["Authorization"])
        status, answer = self.answers.pop(0)
        if status == NO_HTTP:
            self.wfile.write(b"220 mail.example ESMTP\r\n")
            return
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    Server.answers, Server.forms, Server.headers_seen = [], [], []
    http = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=http.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{http.server_port}/token"
    http.shutdown()
    thread.join()
    http.server_close()


def test_a_token_for_an_id_and_a_secret(server: str) -> None:
    Server.answers = [(200, {"access_token": "opaque-1", "expires_in": 100}), (200, {"access_token": "opaque-2"})]
    source = tokens_of_endpoint(TokenEndpoint(server, "me", SECRET, "read write"))

    async def scene() -> None:
        assert [await source.token(), await source.token()] == ["opaque-1", "opaque-1"]

    asyncio.run(scene())
    assert Server.forms == [{"grant_type": ["client_credentials"], "scope": ["read write"]}]
    assert Server.headers_seen == ["Basic bWU6Y2xpZW50LXNlY3JldC05MWM="]
    assert SECRET not in repr(TokenEndpoint(server, "me", SECRET)) + source.description


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        ((401, {"error": "invalid_client"}), AuthenticationError, r"refuses client me: 401 \(invalid_client\); check"),
        ((400, b"<html>"), AuthenticationError, "refuses client me: 400; check"),
        ((302, b""), AuthenticationError, "refuses client me: 302"),
        ((503, b""), BrokerUnavailable, "answers 503"),
        ((NO_HTTP, b""), BrokerUnavailable, r"it does not answer in HTTP \(BadStatusLine\)"),
        ((200, b"[]"), AuthenticationError, "without an access_token"),
        ((200, {"token": "x"}), AuthenticationError, "without an access_token"),
    ],
)
def test_answers_without_a_token(server: str, answer: tuple[int, object], kind: type[Exception], words: str) -> None:
    Server.answers = [answer]
    with pytest.raises(kind, match=words) as caught:
        asyncio.run(tokens_of_endpoint(TokenEndpoint(server, "me", SECRET)).token())
    assert SECRET not in str(caught.value)


def test_a_server_that_does_not_answer_and_an_address_that_is_none() -> None:
    with pytest.raises(BrokerUnavailable, match="cannot be reached"):
        asyncio.run(tokens_of_endpoint(TokenEndpoint("http://127.0.0.1:1/token?secret=x", "me", SECRET)).token())
    with pytest.raises(BrokerUnavailable, match="token cannot be reached: the URL is not valid") as caught:
        asyncio.run(tokens_of_endpoint(TokenEndpoint("http://me:hush@issuer.example/token", "me", SECRET)).token())
    assert "hush" not in str(caught.value)
    with pytest.raises(ValueError, match="not a URL with https, http or file"):
        tokens_of_endpoint(TokenEndpoint("ftp://host", "me", SECRET))

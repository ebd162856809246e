"""The client of a registry: its methods with a real one, failures with a stub."""

import asyncio
import base64
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.certificate import make_certificate

from tailrace.schema import NewSchema, Reference, Registry, RegistryError, RegistryUnavailable, SchemaType, aio

LONG = NewSchema('{"type":"record","name":"R","fields":[{"name":"a","type":"long"}]}')
STRING = NewSchema('{"type":"record","name":"R","fields":[{"name":"a","type":"string"}]}')
WIDER = NewSchema(
    '{"type":"record","name":"R","fields":[{"name":"a","type":"long"},{"name":"b","type":"int","default":1}]}'
)


class Stub(ThreadingHTTPServer):
    """Answers with what a test puts into `answers`, the last one again and again; None closes the connection."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[tuple[int, Any] | None] = []
        self.asked: list[tuple[str, str, str | None]] = []
        self.connection_count = 0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Stub

    def setup(self) -> None:
        super().setup()
        self.server.connection_count += 1

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.asked.append((self.command, self.path, self.headers.get("Authorization")))
        answers = self.server.answers
        said = answers.pop(0) if len(answers) > 1 else answers[0]
        if said is None:
            self.close_connection = True
            return
        body = said[1] if isinstance(said[1], bytes) else json.dumps(said[1]).encode()
        self.send_response(said[0])
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_DELETE = answer  # noqa: N815 - the names that the library calls

    def handle(self) -> None:
        with suppress(ConnectionError, ssl.SSLError):
            super().handle()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def stub() -> Iterator[Stub]:
    server = Stub()
    yield server
    server.shutdown()
    server.server_close()


Connect = Callable[..., Registry]


@pytest.fixture
def client() -> Iterator[Connect]:
    """Make clients that are closed after the test."""
    with ExitStack() as stack:
        yield lambda *urls, **options: stack.enter_context(Registry(urls, retry_backoff_ms=1, **options))


def test_a_schema_is_registered_and_found_in_every_way(registry: Registry, topic: str) -> None:
    stored = registry.register(topic, LONG)
    assert (stored.subject, stored.type, stored.text) == (topic, SchemaType.AVRO, LONG.text)
    found = registry.schema(stored.id)
    assert (found.id, found.text, found.subject) == (stored.id, LONG.text, None)
    assert registry.look_up(topic, LONG).version == 1
    assert registry.latest(topic).id == registry.version(topic, 1).id == stored.id
    assert (registry.versions(topic), topic in registry.subjects(), registry.subjects(topic)) == ([1], True, [topic])


def test_a_check_names_what_breaks(registry: Registry, topic: str) -> None:
    registry.register(topic, LONG)
    assert registry.check(topic, WIDER) == registry.check(topic, WIDER, 1) == []
    messages = registry.check(topic, STRING, "latest")
    assert any("TYPE_MISMATCH" in message and "/fields/0" in message for message in messages)


def test_configs_of_a_subject(registry: Registry, topic: str) -> None:
    assert registry.config(topic)["compatibilityLevel"] == "BACKWARD"
    registry.set_config({"compatibility": "NONE"}, topic)
    assert registry.config(topic)["compatibilityLevel"] == "NONE"
    registry.delete_config(topic)
    assert registry.config(topic)["compatibilityLevel"] == registry.config()["compatibilityLevel"]


def test_a_deleted_version_is_registered_anew(registry: Registry, topic: str) -> None:
    registry.register(topic, LONG)
    assert registry.delete_version(topic, 1) == 1
    assert registry.register(topic, LONG).version == 2
    assert registry.delete_subject(topic) == [2]
    assert 2 in registry.delete_subject(topic, permanent=True)
    with pytest.raises(RegistryError) as raised:
        registry.versions(topic)
    assert (raised.value.status, raised.value.code) == (404, 40401)
    assert topic in str(raised.value)


def test_references_are_resolved_in_the_order_in_which_they_are_needed(registry: Registry, topic: str) -> None:
    inner = NewSchema('{"type":"record","name":"Inner","fields":[{"name":"x","type":"int"}]}')
    middle = '{"type":"record","name":"Middle","fields":[{"name":"i","type":"Inner"}]}'
    outer = '{"type":"record","name":"Outer","fields":[{"name":"m","type":"Middle"}]}'
    registry.register(f"{topic}/inner", inner)
    registry.register(f"{topic}-m", NewSchema(middle, references=(Reference("Inner", f"{topic}/inner", 1),)))
    stored = registry.register(topic, NewSchema(outer, references=(Reference("Middle", f"{topic}-m", 1),)))
    found = registry.schema(stored.id)
    assert list(found.imports.items()) == [("Inner", inner.text), ("Middle", middle)]


def test_the_twin_for_asyncio(registry_url: str, topic: str) -> None:
    async def use() -> None:
        async with aio.Registry(registry_url) as registry:
            stored = await registry.register(topic, LONG)
            assert (await registry.schema(stored.id)).text == LONG.text
            assert (await registry.look_up(topic, LONG)).id == (await registry.latest(topic)).id == stored.id
            assert (await registry.version(topic, 1)).id == stored.id
            assert await registry.check(topic, STRING) != []
            assert (await registry.subjects(topic), await registry.versions(topic)) == ([topic], [1])
            await registry.set_config({"compatibility": "FULL"}, topic)
            assert (await registry.config(topic))["compatibilityLevel"] == "FULL"
            await registry.delete_config(topic)
            assert await registry.delete_version(topic, 1) == 1
            assert await registry.delete_subject(topic, permanent=True) == [1]

    asyncio.run(use())


def test_what_never_changes_is_asked_once_over_one_connection(stub: Stub, client: Connect) -> None:
    stub.answers = [(200, {"schema": '"int"', "id": 7, "version": 1, "subject": "s"})]
    with client(stub.url) as registry:
        for _ in range(3):
            registry.schema(7)
            registry.register("s", NewSchema('"int"'))
            registry.version("s", 1)
    assert [path for _, path, _ in stub.asked] == [
        "/schemas/ids/7",
        "/subjects/s/versions",
        "/subjects/s/versions/1?deleted=true",
    ]
    assert stub.connection_count == 1


def test_a_server_error_is_retried(stub: Stub, client: Connect) -> None:
    stub.answers = [(500, {"error_code": 50004, "message": "no leader"}), (503, b"<html>"), (200, [])]
    assert client(stub.url).subjects() == []
    assert len(stub.asked) == 3


def test_retries_end_with_the_last_error(stub: Stub, client: Connect) -> None:
    stub.answers = [(500, {"error_code": 50004, "message": "no leader"})]
    with pytest.raises(RegistryError, match="no leader") as raised:
        client(stub.url, retries=2).subjects()
    assert (raised.value.status, raised.value.code, len(stub.asked)) == (500, 50004, 3)


def test_the_next_registry_takes_over_and_stays_the_first_choice(stub: Stub, client: Connect) -> None:
    stub.answers = [(200, [])]
    registry = client("http://127.0.0.1:1", stub.url, retries=0)
    assert registry.subjects() == registry.subjects() == []
    with Registry(f"http://127.0.0.1:1, {stub.url}", retries=0) as listed:
        assert listed.subjects() == []


def test_a_lost_connection_is_opened_again(stub: Stub, client: Connect) -> None:
    stub.answers = [(200, []), None, (200, ["a"])]
    registry = client(stub.url, retries=0)
    assert registry.subjects() == []
    assert registry.subjects() == ["a"]


def test_a_deletion_that_may_have_happened_is_not_repeated(stub: Stub, client: Connect) -> None:
    stub.answers = [None]
    with pytest.raises(RegistryUnavailable, match=rf"{stub.url}: .*; the deletion may have been carried out"):
        client(stub.url).delete_subject("s")
    assert len(stub.asked) == 1


def test_a_deletion_is_not_repeated_after_a_server_error(stub: Stub, client: Connect) -> None:
    """A leader that fails after its write answers with 5xx. The second request deleted the version before the latest,
    or failed with 404 although the deletion had succeeded."""
    stub.answers = [(500, {"error_code": 50002, "message": "timed out"}), (200, 1)]
    with pytest.raises(RegistryError, match="timed out"):
        client(stub.url, stub.url.replace("127.0.0.1", "localhost")).delete_version("s", "latest")
    assert len(stub.asked) == 1


def test_a_deletion_gets_a_connection_of_its_own(stub: Stub, client: Connect) -> None:
    """An idle connection that the registry had closed made a deletion fail that was never carried out."""
    stub.answers = [(200, [])]
    registry = client(stub.url)
    registry.subjects()
    assert registry.delete_subject("s") == []
    assert stub.connection_count == 2


def test_a_deletion_is_sent_to_the_next_registry_if_the_first_is_not_there(stub: Stub, client: Connect) -> None:
    stub.answers = [(200, [1])]
    assert client("http://127.0.0.1:1", stub.url).delete_subject("s") == [1]


def test_no_registry_answers(client: Connect) -> None:
    with pytest.raises(RegistryUnavailable, match="refused"):
        client("http://127.0.0.1:1", retries=1).subjects()


def test_an_answer_that_is_not_of_a_registry(stub: Stub, client: Connect) -> None:
    stub.answers = [(200, b"<html>")]
    with pytest.raises(RegistryUnavailable, match="not JSON"):
        client(stub.url).subjects()
    stub.answers = [(404, b"<html>")]
    with pytest.raises(RegistryError, match="HTTP status 404"):
        client(stub.url).subjects()


def test_basic_authentication(stub: Stub, client: Connect) -> None:
    stub.answers = [(200, [])]
    client(stub.url, user="ann", password="secret").subjects()  # noqa: S106
    assert stub.asked[0][2] == "Basic " + base64.b64encode(b"ann:secret").decode()


def test_tls(stub: Stub, client: Connect, tmp_path: Path) -> None:
    make_certificate(tmp_path, "server", "IP:127.0.0.1")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "server.pem")
    stub.socket = server.wrap_socket(stub.socket, server_side=True)
    stub.answers = [(200, ["a"])]
    address = stub.url.replace("http", "https")
    trusting = ssl.create_default_context(cafile=tmp_path / "server-ca.pem")
    assert client(address, tls=trusting).subjects() == ["a"]
    with pytest.raises(RegistryUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
        client(address, retries=0).subjects()


def test_the_configs_of_confluents_client(stub: Stub, tmp_path: Path) -> None:
    for name, host, issuer in (
        ("authority", "DNS:authority", None),
        ("server", "IP:127.0.0.1", "authority"),
        ("client", "DNS:client", "authority"),
    ):
        make_certificate(tmp_path, name, host, issuer)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "server.pem")
    server.load_verify_locations(tmp_path / "authority-ca.pem")
    server.verify_mode = ssl.CERT_REQUIRED
    stub.socket = server.wrap_socket(stub.socket, server_side=True)
    stub.answers = [(200, ["a"])]
    config = {
        "url": stub.url.replace("http", "https"),
        "basic.auth.user.info": "ann:sec:ret",
        "ssl.ca.location": str(tmp_path / "authority-ca.pem"),
        "ssl.certificate.location": str(tmp_path / "client-ca.pem"),
        "ssl.key.location": str(tmp_path / "client-key.pem"),
    }
    with Registry.from_config(config) as registry:
        assert registry.subjects() == ["a"]
    assert stub.asked[0][2] == "Basic " + base64.b64encode(b"ann:sec:ret").decode()


def test_a_url_with_a_path(stub: Stub, client: Connect) -> None:
    stub.answers = [(200, [])]
    client(stub.url + "/registry/").subjects()
    assert stub.asked[0][1] == "/registry/subjects"


@pytest.mark.parametrize("url", ["", "localhost:8081", "ftp://a", "http://", "http://localhost:b", "http://@localhost"])
def test_a_wrong_url(url: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - each has its own text
        Registry(url)


def test_threads_share_a_client(registry: Registry, topic: str, client: Connect) -> None:
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(registry.register(topic, LONG).id)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1

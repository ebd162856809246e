"""Requests that come in: which are refused, and which are records."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from tailrace.client.fetch.table import read_table
from tailrace.spark.connector.webhook.intake import close_intake, open_intake, require_topic
from tailrace.spark.connector.webhook.receiver import Receiver, Store
from tailrace.spark.connector.webhook.reply import KEY_HEADER, SIGNATURE_HEADER, sign
from tailrace.spark.connector.webhook.request import Record, Refusal, Route, check_head, read_records
from tailrace.spark.error import PipelineError
from tailrace.testing import Broker

ROUTE = Route("/hook", "hooks", "secret", body_bytes_max=1000, keep=("X-Event",))


def signed(body: bytes, **others: str) -> dict[str, str]:
    return {SIGNATURE_HEADER: sign("secret", body)} | {name.replace("_", "-"): text for name, text in others.items()}


@pytest.mark.parametrize(
    ("status", "method", "headers"),
    [
        (405, "GET", {"Content-Length": "0"}),
        (411, "POST", {}),
        (411, "POST", {"Content-Length": "3", "Transfer-Encoding": "chunked"}),
        (400, "POST", {"Content-Length": "-1"}),
        (400, "POST", {"Content-Length": "²"}),
        (413, "POST", {"Content-Length": "1001"}),
        (413, "POST", {"Content-Length": "9" * 5000}),
    ],
)
def test_a_request_is_refused_before_its_body_is_read(status: int, method: str, headers: dict[str, str]) -> None:
    with pytest.raises(Refusal) as refusal:
        check_head(ROUTE, method, headers)
    assert refusal.value.status == status


def test_an_unknown_path_is_refused() -> None:
    with pytest.raises(Refusal) as refusal:
        check_head(None, "POST", {})
    assert refusal.value.status == 404


@pytest.mark.parametrize(
    ("status", "body"), [(400, b"{"), (400, b"7"), (400, b"[7]"), (400, b"\xff"), (400, b""), (400, b"[" * 100_000)]
)
def test_a_body_that_is_not_json_is_refused(status: int, body: bytes) -> None:
    with pytest.raises(Refusal) as refusal:
        read_records(ROUTE, signed(body), body)
    assert refusal.value.status == status


def test_a_wrong_signature_is_refused() -> None:
    for headers in ({}, signed(b"other")):
        with pytest.raises(Refusal) as refusal:
            read_records(ROUTE, headers, b"{}")
        assert refusal.value.status == 401


def test_an_object_is_a_record_as_it_came_and_an_array_is_one_for_each_element() -> None:
    kept = (("x-event", b"push"),)
    body = b'{ "n": 1 }'
    assert read_records(ROUTE, signed(body, X_Event="push"), body) == [Record(body, None, kept)]
    body = '[{"n": "ä"}, {"n": 2}]'.encode()
    headers = signed(body, X_Event="push") | {KEY_HEADER: "k"}
    found = read_records(ROUTE, headers, body)
    assert found == [Record('{"n":"ä"}'.encode(), b"k", kept), Record(b'{"n":2}', b"k", kept)]
    assert read_records(Route("/", "t", is_json=False), {}, b"\xff") == [Record(b"\xff", None, ())]


@contextmanager
def listening(store: Store) -> Iterator[http.client.HTTPConnection]:
    receiver = Receiver("127.0.0.1", 0, store)
    receiver.open(ROUTE)
    receiver.start()
    connection = http.client.HTTPConnection("127.0.0.1", receiver.port, timeout=30)
    try:
        yield connection
    finally:
        connection.close()
        receiver.stop()


def post(connection: http.client.HTTPConnection, body: bytes, headers: dict[str, str]) -> tuple[int, dict[str, object]]:
    connection.request("POST", "/hook?x=1", body, headers)
    reply = connection.getresponse()
    found: dict[str, object] = json.loads(reply.read())
    return reply.status, found


def test_a_request_is_answered_when_it_is_stored_and_not_before() -> None:
    stored: list[Record] = []
    failures = [OSError("no broker")]

    def store(topic: str, records: Sequence[Record]) -> None:
        if failures:
            raise failures.pop()
        stored.extend(records)

    with listening(store) as connection:
        body = b'[{"n":1},{"n":2}]'
        status, answer = post(connection, body, signed(body))
        assert (status, stored) == (503, [])
        assert "again later" in str(answer["error"])
        assert post(connection, body, signed(body)) == (200, {"records": 2})  # over the same connection
        assert post(connection, body, {})[0] == 401
        assert post(connection, b"x" * 1001, {})[0] == 413
        assert [record.value for record in stored] == [b'{"n":1}', b'{"n":2}']


def test_an_answer_is_sent_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The body of each answer waited 40 ms, until the caller's system had acknowledged the head."""
    delays: list[int] = []

    def take(self: Receiver, method: str, path: str, headers: object, read: object) -> tuple[int, str]:
        (accepted,) = self._server._open
        delays.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        return 404, "nothing here"

    monkeypatch.setattr(Receiver, "take", take)
    with listening(lambda topic, records: None) as connection:
        assert post(connection, b"{}", {})[0] == 404
    assert [bool(each) for each in delays] == [True]


def test_stopping_waits_for_a_request_under_way() -> None:
    begun, may_end, answers = threading.Event(), threading.Event(), []

    def store(topic: str, records: Sequence[Record]) -> None:
        begun.set()
        may_end.wait(60)

    with listening(store) as connection:
        own = http.client.HTTPConnection(connection.host, connection.port, timeout=30)  # the other is closed at the end
        sending = threading.Thread(target=lambda: answers.append(post(own, b"{}", signed(b"{}"))))
        sending.start()
        assert begun.wait(60)
        threading.Timer(0.1, may_end.set).start()
    sending.join()
    own.close()
    assert answers == [(200, {"records": 1})]


def test_flows_share_an_address_and_the_last_one_closes_it() -> None:
    with Broker({"auto.create.topics.enable": False}) as broker, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = ("127.0.0.1", int(taken.getsockname()[1]))
        taken.close()
        client = {"bootstrap.servers": broker.bootstrap_servers}
        require_topic(client, "hooks", 3)
        require_topic(client, "hooks", 3)
        other = Route("/other", "hooks", is_json=False)
        open_intake(address, ROUTE, client, "first")
        open_intake(address, ROUTE, client, "first")
        open_intake(address, other, client, "second")
        with pytest.raises(PipelineError, match="two flows listen at the path /hook"):
            open_intake(address, Route("/hook", "others"), client, "third")
        close_intake(address, "third")
        with pytest.raises(PipelineError, match="cannot listen at"):
            Receiver(*address, lambda *_: None)
        close_intake(address, "first")
        connection = http.client.HTTPConnection(*address, timeout=30)
        body = b'[{"n":1},{"n":2}]'
        assert post(connection, body, signed(body)) == (200, {"records": 2})
        connection.close()
        close_intake(address, "second")
        close_intake(address, "second")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)
        found = read_table(broker.bootstrap_servers, "hooks").column("value").to_pylist()
        assert sorted(found) == [b'{"n":1}', b'{"n":2}']

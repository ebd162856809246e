"""Requests to a real server on loopback that is away for a while, and refuses rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing

import pytest
from tests.webhook_server import Request, WebhookServer

from tailrace.spark.connector.webhook.reply import KEY_HEADER, SIGNATURE_HEADER, sign
from tailrace.spark.connector.webhook.sender import Sender, Target, WebhookRow, send_rows
from tailrace.spark.error import ConnectorError, RetriableConnectorError
from tailrace.spark.record_place import RecordPlace

SECRET = "not-to-be-shown"  # noqa: S105 - of a test


@pytest.fixture
def server() -> Iterator[WebhookServer]:
    with WebhookServer().running() as server:
        yield server


def test_a_request_is_repeated_with_its_key_until_it_is_accepted(server: WebhookServer) -> None:
    answers = iter([(500, {}, b""), (429, {"Retry-After": "3"}, b""), None, (503, {}, b"full"), (204, {}, b"")])
    server.answer = lambda _: next(answers)
    waits: list[float] = []
    target = Target(server.url + "?to=me", headers=(("Authorization", SECRET), ("user-agent", "mine")), secret=SECRET)
    sender = Sender(target, sleep=waits.append)
    assert sender.send(b'{"n":1}', "key-1") is None
    sender.close()
    assert waits == [0.5, 3, 2, 4]
    assert {request.path for request in server.requests} == {"/hook?to=me"}
    assert {request.headers[KEY_HEADER] for request in server.requests} == {"key-1"}
    sent = server.requests[0].headers
    assert (sent["Authorization"], sent["user-agent"]) == (SECRET, "mine")
    assert sent["Content-Type"] == "application/json"
    assert sent[SIGNATURE_HEADER] == sign(SECRET, b'{"n":1}')


def test_the_row_that_is_refused_is_found_in_an_array(server: WebhookServer) -> None:
    accepted: list[int] = []

    def answer(request: Request) -> tuple[int, dict[str, str], bytes]:
        numbers = [row["n"] for row in json.loads(request.body)]
        if 777 in numbers:
            return 422, {}, b"777 is wrong"
        accepted.extend(numbers)
        return 200, {}, b""

    server.answer = answer
    rows = [WebhookRow(json.dumps({"n": number}), f"orders 0 {number}") for number in range(1000)]
    sender = Sender(Target(server.url, batch_size=1000))
    refused = list(send_rows(sender, rows, 0, lambda first, body: f"{first}-{len(body)}", is_array=True))
    sender.close()
    (error,) = refused
    assert (error.reason, error.row) == ("the server answered 422: 777 is wrong", {"n": 777})
    assert error.origin == RecordPlace("orders", 0, 777)
    assert sorted(accepted) == [number for number in range(1000) if number != 777]
    keys = [request.headers[KEY_HEADER] for request in server.requests]
    assert len(set(keys)) == len(keys)


def test_a_service_that_stays_away_can_come_back_later(server: WebhookServer) -> None:
    server.answer = lambda _: (503, {}, b"")
    sender = Sender(Target(server.url, retries=2), sleep=lambda _: None)
    with pytest.raises(RetriableConnectorError, match=r"http://127.0.0.1:\d+/…: the server answered 503, after 3"):
        sender.send(b"{}", "key")
    assert len(server.requests) == 3
    server.answer = lambda _: (409, {}, b"taken")
    answer = sender.send(b"{}", "key")
    assert answer is not None
    assert (answer.status, answer.text) == (409, "taken")
    sender.close()


@pytest.mark.parametrize("status", [302, 401, 404])
def test_a_wrong_url_or_token_is_final_and_shows_no_secret(server: WebhookServer, status: int) -> None:
    server.answer = lambda _: (status, {}, b"no")
    target = Target(f"{server.url}/{SECRET}", headers=(("Authorization", SECRET),), secret=SECRET)
    with pytest.raises(ConnectorError, match=f"the server answered {status}: no; check url=") as error:
        with closing(Sender(target)) as sender:
            sender.send(b"{}", "key")
    assert not isinstance(error.value, RetriableConnectorError)
    assert SECRET not in f"{error.value} {target!r} {target}"


def test_a_host_that_does_not_answer_is_one_line() -> None:
    sender = Sender(Target("http://127.0.0.1:1/", retries=0))
    with pytest.raises(RetriableConnectorError, match="no answer: ConnectionRefusedError") as error:
        sender.send(b"{}", "key")
    assert "\n" not in str(error.value)

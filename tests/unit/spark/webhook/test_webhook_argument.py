"""The arguments of webhook(), and what is told before Spark starts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tailrace.pipeline import PipelineError, flow, topic, webhook
from tailrace.spark.connector.base import Delivery, FlowPlace
from tailrace.spark.connector.webhook import sender
from tailrace.spark.error import SparkSourceError

SECRET = "not-to-be-shown"  # noqa: S105 - of a test
PLACE = FlowPlace("f", Path("c"), Path("o"))
LISTEN: dict[str, Any] = {"listen": "127.0.0.1:8090", "topic": "hooks"}


def test_secrets_are_never_shown() -> None:
    sink = webhook(f"https://me:{SECRET}@hooks.example.com/{SECRET}?key={SECRET}", headers={"Authorization": SECRET})
    source = webhook(**LISTEN, secret=SECRET)
    assert SECRET not in f"{sink!r} {sink} {source!r} {source}"
    assert str(sink) == "webhook https://hooks.example.com/…"
    assert str(source) == "webhook at 127.0.0.1:8090/"
    assert dict(sink.target.headers)["Authorization"] == SECRET
    user = webhook("http://me:a%3Ab@localhost:1/x").target
    assert dict(user.headers) == {"Authorization": "Basic bWU6YTpi"}
    assert user.url == "http://localhost:1/x"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "either url=, as a sink, or listen=, as a source"),
        ({"url": "http://localhost", **LISTEN}, "either url=, as a sink, or listen=, as a source"),
        ({"url": "ftp://localhost"}, "needs a URL such as https://"),
        ({"url": "http://localhost:port"}, "the URL is invalid"),
        ({"url": "http://localhost", "method": "GET"}, "is not one of POST, PUT, PATCH"),
        ({"url": "http://localhost", "headers": ["a"]}, "headers= is a mapping"),
        ({"url": "http://localhost", "headers": {"a": "b\r\nc: d"}}, "a header has a line break"),
        ({"url": "http://localhost", "batch_size": 0}, "batch_size=0 is not a number of at least 1"),
        ({"url": "http://localhost", "retries": -1}, "retries=-1 is not a number of at least 0"),
        ({"url": "http://localhost", "timeout": 0}, "timeout=0 is not a positive number of seconds"),
        ({"url": "http://localhost", "topic": "t"}, "webhook(url) is a sink, and topic= is for a source"),
        ({"url": "http://localhost", "secret": ""}, "secret= is not a text"),
        ({"listen": "127.0.0.1:8090"}, "needs topic="),
        ({**LISTEN, "listen": "8090"}, "is not an address"),
        ({**LISTEN, "listen": "localhost:99999"}, "is not an address"),
        ({**LISTEN, "path": "orders"}, "does not begin with /"),
        ({**LISTEN, "headers": {"a": "b"}}, "webhook(listen=…) is a source, and headers= is for a sink"),
        ({**LISTEN, "body_bytes_max": "1"}, "body_bytes_max='1' is not a number of at least 1"),
        ({**LISTEN, "malformed": "null"}, "has no schema"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(PipelineError) as error:
        webhook(**arguments).check_source()
    assert words in str(error.value)


def test_an_end_is_not_the_other() -> None:
    with pytest.raises(PipelineError, match=r"webhook at 127.0.0.1:8090/, which is for sources"):

        @flow(source=topic("t"), sink=webhook(**LISTEN))
        def wrong(rows: Any) -> Any:
            return rows

    with pytest.raises(
        PipelineError, match=r"delivery='exactly-once' is not possible with .*; use at-least-once or at-most-once"
    ):

        @flow(source=topic("t"), sink=webhook("http://localhost"), delivery="exactly-once")
        def unkept(rows: Any) -> Any:
            return rows


def test_a_host_that_cannot_be_reached_is_told_in_one_line() -> None:
    with pytest.raises(SparkSourceError, match=r"http://127.0.0.1:1/… cannot be reached: Connection refused") as error:
        webhook(f"http://127.0.0.1:1/{SECRET}").connect_sink(PLACE)
    assert SECRET not in str(error.value)
    with pytest.raises(SparkSourceError, match=r"http://no.such.host.invalid/… cannot be reached: "):
        webhook("http://no.such.host.invalid/").connect_sink(PLACE)


def test_no_request_is_repeated_where_rows_arrive_at_most_once(monkeypatch: pytest.MonkeyPatch) -> None:
    retries: list[int] = []
    monkeypatch.setattr(sender, "write_rows", lambda batch, target, place: retries.append(target.retries))
    sink: Any = webhook("http://localhost", retries=3)
    for delivery in (Delivery.AT_LEAST_ONCE, Delivery.AT_MOST_ONCE):
        sink.write_batch(None, 0, replace(PLACE, delivery=delivery))
    assert retries == [3, 0]

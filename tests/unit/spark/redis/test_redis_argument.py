"""The arguments of redis(), and what is told before Spark starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.redis_server import PASSWORD, started_server

from tailrace.pipeline import PipelineError, flow, redis, topic
from tailrace.spark.connector.base import FlowPlace

pytestmark = pytest.mark.slow

URL = "redis://user:not-to-be-shown@localhost:6379/2?socket_timeout=3"
PLACE = FlowPlace("f", Path("c"), Path("o"))


def test_the_password_is_never_shown() -> None:
    found = redis(URL, stream="orders")
    assert str(found.settings) == "redis://localhost:6379/2"
    assert PASSWORD not in f"{found!r} {found}"
    assert str(redis("unix:///run/redis.sock?db=1", hash="a:{b}").settings) == "unix:///run/redis.sock"
    assert str(redis("rediss://[::1]:7/", hash="a:{b}").settings) == "rediss://[::1]:7"


@pytest.mark.parametrize("url", ["redis://me:very/secret@host", "redis://me:7/secret@host", "redis://host:secret"])
def test_a_password_with_a_slash_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(PipelineError, match="are written as %XX") as caught:
        redis(url, stream="orders")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "either stream= or hash="),
        ({"stream": "a", "hash": "b:{c}"}, "either stream= or hash="),
        ({"stream": "a", "url": "http://:not-to-be-shown@redis.invalid"}, "needs a URL such as redis://"),
        ({"stream": "a", "url": "redis://:not-to-be-shown@x:port"}, "the URL is invalid"),
        ({"stream": "a", "url": 7}, "needs a URL such as redis://"),
        ({"stream": 7}, "is not the key of a stream"),
        ({"stream": "a}b"}, "is not the key of a stream"),
        ({"stream": "a{}{b}"}, "is not the key of a stream"),
        ({"hash": "user"}, "a template with columns in braces"),
        ({"hash": "user:{}"}, "a template with columns in braces"),
        ({"stream": "a", "include": "offset"}, "an entry has no column 'offset'"),
        ({"stream": "a", "malformed": "drop"}, "errors= of the flow"),
        ({"stream": "a", "start": "now"}, "is not one of earliest, latest"),
        ({"stream": "a", "batch_size": 0}, "is not a positive number"),
        ({"stream": "a", "timeout": "long"}, "is not a positive number of seconds"),
        ({"stream": "a", "data_loss": "no"}, "is not one of fail, warn"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(PipelineError) as error:
        redis(**{"url": URL} | arguments)
    assert words in str(error.value)
    assert PASSWORD not in str(error.value)


@pytest.mark.parametrize(
    ("source", "sink", "words"),
    [
        (redis(URL, hash="a:{b}"), topic("t"), "is for sinks"),
        (redis(URL, stream="a", maxlen=3), topic("t"), "maxlen= is for a sink"),
        (redis(URL, stream="a", include="id"), topic("t"), "has no schema"),
        (topic("t"), redis(URL, stream=["a", "b"]), "writes to one stream"),
        (topic("t"), redis(URL, stream="a", start="latest"), "start= is for a source"),
        (topic("t"), redis(URL, stream="a", ttl=3), "ttl= is for hashes"),
        (topic("t"), redis(URL, hash="a:{b}", maxlen=3), "maxlen= is for streams"),
    ],
)
def test_arguments_of_the_other_end_are_refused(source: Any, sink: Any, words: str) -> None:
    with pytest.raises(PipelineError, match=words):

        @flow(source=source, sink=sink)
        def any_flow(rows: Any) -> Any:
            return rows


def test_what_is_wrong_with_the_server_is_told_before_spark_starts() -> None:
    with started_server() as server:
        redis(server.url, stream="orders").connect_source(PLACE)
        with server.client() as client:
            client.set("orders", "text")
        with pytest.raises(PipelineError, match=r"redis://127.0.0.1:\d+/0: key orders holds a string, not a stream"):
            redis(server.url, stream="orders").connect_source(PLACE)
        wrong = redis(server.url.replace(PASSWORD, "wrong-secret"), hash="a:{b}")
        with pytest.raises(PipelineError, match="the user or the password is refused") as error:
            wrong.connect_sink(PLACE)
        assert "wrong-secret" not in str(error.value)
    with pytest.raises(PipelineError, match=r"redis://127.0.0.1:\d+/0: connect: the server does not answer") as error:
        redis(server.url, stream="orders").connect_sink(PLACE)
    assert "\n" not in str(error.value)

"""Calls of Kafka Connect's REST API, the stories that they form, and short forms to write them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.unit.registry.answers.call import Body, Call

JSON = {"Content-Type": "application/json"}
SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
LINES: Body = {"connector.class": SOURCE, "file": "/nonexistent/lines.txt", "topic": "lines"}
ORDERS: Body = {"connector.class": SINK, "file": "/dev/null", "topics": "orders"}
BROKEN: Body = {"connector.class": SINK, "file": "/no-such-folder/orders.txt", "topics": "orders"}
"""A sink whose task fails."""


@dataclass(frozen=True)
class Settle:
    """Wait until a connector and all its tasks are in these states."""

    name: str
    connector: str
    tasks: tuple[str, ...]


Step = Call | Settle
Story = Callable[[], Iterator[Step]]

STORIES: dict[str, Story] = {}
"""Every story by name. Each one expects a worker without connectors, and leaves none behind."""


def story(steps: Story) -> Story:
    """Add a story to those that are told."""
    STORIES[steps.__name__] = steps
    return steps


def get(path: str) -> Call:
    """Return a GET."""
    return Call("GET", path)


def delete(path: str) -> Call:
    """Return a DELETE."""
    return Call("DELETE", path)


def send(method: str, path: str, body: Any = None) -> Call:
    """Return a call with a body of JSON, if there is one."""
    return Call(method, path, body, {} if body is None else JSON)


def put(path: str, body: Any = None) -> Call:
    """Return a PUT."""
    return send("PUT", path, body)


def post(path: str, body: Any = None) -> Call:
    """Return a POST."""
    return send("POST", path, body)


def patch(path: str, body: Any = None) -> Call:
    """Return a PATCH."""
    return send("PATCH", path, body)


def create(name: str, config: Body, **more: Any) -> Call:
    """Return the call that creates a connector."""
    return post("/connectors", {"name": name, "config": config, **more})


def running(name: str) -> Settle:
    """Wait until a connector and its task run."""
    return Settle(name, "RUNNING", ("RUNNING",))


def of_sink(partition: Any, offset: Any, topic: str = "orders") -> Body:
    """Return an offset of a sink."""
    return {"partition": {"kafka_topic": topic, "kafka_partition": partition}, "offset": {"kafka_offset": offset}}

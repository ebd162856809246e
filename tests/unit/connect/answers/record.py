"""Putting the calls of a story to a worker, and keeping what it answers."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from tests.unit.connect.answers.call import Settle
from tests.unit.connect.answers.stories import STORIES
from tests.unit.registry.answers.call import Call
from tests.unit.registry.answers.record import Answer, ask

SETTLE_S = 120.0
REBALANCE = "rebalance"

_VARYING = ("version", "commit", "kafka_cluster_id", "worker_id", "last_modified", "trace", "documentation")


def tell(name: str, url: str) -> dict[str, Answer]:
    """Put the calls of a story to a worker without connectors, in order, and return the answer to each."""
    answers: dict[str, Answer] = {}
    for step in STORIES[name]():
        if isinstance(step, Settle):
            _await(step, url)
        else:
            answers[_unique(_title(step), answers)] = steady(_ask(step, url))
    return answers


def titles(name: str) -> list[str]:
    """Return the titles of the calls of a story, which are the keys of its answers."""
    found: dict[str, None] = {}
    for step in STORIES[name]():
        if isinstance(step, Call):
            found[_unique(_title(step), found)] = None
    return list(found)


def _ask(call: Call, url: str) -> Answer:
    """Put a call, and put it again while the worker rebalances, as Kafka Connect asks its clients to do."""
    deadline = time.monotonic() + SETTLE_S
    while True:
        answer = ask(call, url)
        message = answer["body"].get("message") if isinstance(answer["body"], dict) else None
        if answer["status"] != 409 or REBALANCE not in str(message) or time.monotonic() > deadline:
            return answer
        time.sleep(0.1)


def _await(step: Settle, url: str) -> None:
    deadline = time.monotonic() + SETTLE_S
    while time.monotonic() < deadline:
        body = ask(Call("GET", f"/connectors/{step.name}/status"), url)["body"]
        if "connector" in body:
            found = (body["connector"]["state"], tuple(task["state"] for task in body["tasks"]))
            if found == (step.connector, step.tasks):
                return
        time.sleep(0.05)
    raise TimeoutError(f"connector {step.name} is not {step.connector} {step.tasks}, but {body}")


def steady(value: Any) -> Any:
    """Replace what differs from run to run and from worker to worker."""
    if isinstance(value, dict):
        return {
            name: f"<{name}>" if name in _VARYING and isinstance(item, str | int) else steady(item)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [steady(item) for item in value]
    if isinstance(value, str) and value.startswith("<html>"):
        return "<a page of the HTTP server>"
    return value


def _title(call: Call) -> str:
    content = call.content()
    kind = {name: value for name, value in call.headers.items() if value != "application/json"}
    return (
        f"{call.method} {call.path}"
        + (f" {json.dumps(kind)}" if kind else "")
        + (f" {content.decode()}" if content is not None else "")
    )


def _unique(title: str, taken: Mapping[str, Any]) -> str:
    """Return the title, with a number if the story has made the same call before."""
    if title not in taken:
        return title
    return next(numbered for count in range(2, 100) if (numbered := f"{title} ({count})") not in taken)

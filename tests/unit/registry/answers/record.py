"""Putting the calls of a story to a registry, and keeping what it answers."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from tests.unit.registry.answers.call import Call
from tests.unit.registry.answers.stories import STORIES

Answer = dict[str, Any]
"""The status, the content type (null without a body) and the body of an answer: JSON, or text if it is none."""

TEXT_LENGTH_MAX = 2000
TIMEOUT_S = 60.0


def tell(name: str, url: str) -> dict[str, Answer]:
    """Put the calls of a story to the empty registry at `url`, in order, and return the answer to each."""
    answers: dict[str, Answer] = {}
    for call in STORIES[name]():
        answers[_unique(_title(call), answers)] = steady(ask(call, url))
    return answers


def titles(name: str) -> list[str]:
    """Return the titles of the calls of a story, which are the keys of its answers."""
    found: dict[str, None] = {}
    for call in STORIES[name]():
        found[_unique(_title(call), found)] = None
    return list(found)


def ask(call: Call, url: str) -> Answer:
    """Put one call to a registry. The path is sent as it is written, without any tidying up."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "127.0.0.1", address.port, timeout=TIMEOUT_S)
    try:
        connection.request(call.method, call.path, call.content(), call.sent_headers())
        response = connection.getresponse()
        content = response.read()
        return {
            "status": response.status,
            "type": response.getheader("Content-Type"),
            "body": _decoded(content),
        }
    finally:
        connection.close()


def _decoded(content: bytes) -> Any:
    if not content:
        return None
    try:
        return json.loads(content)
    except ValueError:
        return content.decode(errors="replace")


def steady(value: Any) -> Any:
    """Replace what differs from run to run, and shorten texts that are long only because the call was."""
    if isinstance(value, dict) and "commitId" in value:
        return {"version": "<version>", "commitId": "<commit>"}
    if isinstance(value, dict):
        return {name: _VARYING.get(name, steady)(item) for name, item in value.items()}
    if isinstance(value, list):
        return [steady(item) for item in value]
    if isinstance(value, str) and value.startswith("<html>"):
        return "<a page of the HTTP server>"
    if isinstance(value, str):
        return _short(_OBJECT.sub(r"\1@…", value))
    return value


def _title(call: Call) -> str:
    """Return the request line and the body as one line of text."""
    headers = "".join(f" [{name}: {value}]" for name, value in call.headers.items())
    content = call.content()
    return f"{call.method} {_short(call.path)}{headers}" + (
        f" {_short(content.decode())}" if content is not None else ""
    )


def _unique(title: str, taken: Mapping[str, Any]) -> str:
    """Return the title, with a number if the story has made the same call before."""
    if title not in taken:
        return title
    return next(numbered for count in range(2, 100) if (numbered := f"{title} ({count})") not in taken)


def _short(text: str) -> str:
    return text if len(text) <= TEXT_LENGTH_MAX else f"{text[:100]}… ({len(text)} characters)"


def _text_for(kept: str) -> Any:
    return lambda value: kept if value is not None else None


_OBJECT = re.compile(r"(\w+)@[0-9a-f]{6,8}\b")
"""How Java shows an object that has no text of its own: the class and an address."""

_VARYING = {
    "ts": _text_for("<time>"),
    "createTs": _text_for("<time>"),
    "updateTs": _text_for("<time>"),
    "kafka-cluster": _text_for("<cluster>"),
    "schema-registry-cluster": _text_for("<group>"),
}

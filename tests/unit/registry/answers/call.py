"""Calls of a registry's REST API, the stories that they form, and short forms to write them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"

Body = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """One request: `body` is sent as JSON, or as it is if it is text; without one, no body is sent."""

    method: str
    path: str
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def content(self) -> bytes | None:
        """Return the bytes to send."""
        if self.body is None:
            return None
        return (self.body if isinstance(self.body, str) else json.dumps(self.body)).encode()

    def sent_headers(self) -> dict[str, str]:
        """Return the headers to send; those of the call replace the usual media type."""
        usual = {} if self.body is None else {"Content-Type": MEDIA_TYPE}
        return {**usual, **self.headers}


Story = Callable[[], Iterator[Call]]

STORIES: dict[str, Story] = {}
"""Every story by name. Each one expects an empty registry, so that its ids start at 1."""


def story(calls: Story) -> Story:
    """Add a story to those that are told, under the name of its module and function."""
    module = calls.__module__.rsplit(".", 1)[-1]
    STORIES[f"{module}.{calls.__name__}"] = calls
    return calls


def get(path: str, **headers: str) -> Call:
    """Return a GET; `accept="text/plain"` gives the header Accept."""
    return Call("GET", path, None, _headers(headers))


def delete(path: str) -> Call:
    """Return a DELETE."""
    return Call("DELETE", path)


def post(path: str, body: Any, **headers: str) -> Call:
    """Return a POST."""
    return Call("POST", path, body, _headers(headers))


def put(path: str, body: Any, **headers: str) -> Call:
    """Return a PUT."""
    return Call("PUT", path, body, _headers(headers))


def register(subject: str, body: Body, query: str = "") -> Call:
    """Return the call that registers a schema under a subject."""
    return post(f"/subjects/{subject}/versions{query}", body)


def look_up(subject: str, body: Body, query: str = "") -> Call:
    """Return the call that finds the version of a schema under a subject."""
    return post(f"/subjects/{subject}{query}", body)


def check(subject: str, body: Body, version: str = "latest", query: str = "?verbose=true") -> Call:
    """Return the call that tests a schema against a version of a subject."""
    return post(f"/compatibility/subjects/{subject}/versions/{version}{query}", body)


def check_all(subject: str, body: Body, query: str = "?verbose=true") -> Call:
    """Return the call that tests a schema against every version that the level of the subject asks for."""
    return post(f"/compatibility/subjects/{subject}/versions{query}", body)


def set_level(level: str, subject: str | None = None) -> Call:
    """Return the call that sets the compatibility level of a subject, or the global one."""
    return put("/config" if subject is None else f"/config/{subject}", {"compatibility": level})


def set_mode(mode: str, subject: str | None = None, query: str = "") -> Call:
    """Return the call that sets the mode of a subject, or the global one."""
    return put(("/mode" if subject is None else f"/mode/{subject}") + query, {"mode": mode})


def avro(schema: Any, **more: Any) -> Body:
    """Return a body with an Avro schema, given as what its JSON stands for."""
    return {"schema": json.dumps(schema), **more}


def record(name: str, more: Body | None = None, **types: Any) -> Body:
    """Return a body with an Avro record; a tuple is a type and its default."""
    fields = [_field(field_name, kind) for field_name, kind in types.items()]
    return avro({"type": "record", "name": name, "fields": fields}, **(more or {}))


def json_schema(schema: Any, **more: Any) -> Body:
    """Return a body with a JSON Schema."""
    return {"schemaType": "JSON", "schema": json.dumps(schema), **more}


def protobuf(text: str, **more: Any) -> Body:
    """Return a body with a Protobuf schema of version 3."""
    return {"schemaType": "PROTOBUF", "schema": f'syntax = "proto3"; {text}', **more}


def reference(name: str, subject: str, version: int = 1) -> Body:
    """Return a reference to a version of a subject."""
    return {"name": name, "subject": subject, "version": version}


def _field(name: str, kind: Any) -> Body:
    if isinstance(kind, tuple):
        return {"name": name, "type": kind[0], "default": kind[1]}
    return {"name": name, "type": kind}


def _headers(given: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-").title(): value for name, value in given.items()}

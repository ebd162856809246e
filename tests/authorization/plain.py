"""Requests from plain dictionaries and lists, so that a case is one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from tailrace.protocol.message import Message
from tailrace.protocol.primitive import ZERO_UUID, Array
from tailrace.protocol.registry import message_types

_REQUESTS = {kind.__name__.removesuffix("Request"): kind for kind in message_types() if kind.SCHEMA.is_request}


class Id(NamedTuple):
    """Stands for the id of a topic, which is known only once the topic exists."""

    topic: str


def request(api: str, fields: Mapping[str, Any], ids: Mapping[str, UUID]) -> Message:
    """Return the request of an API, by Kafka's name for it."""
    return _struct(_REQUESTS[api], fields, ids)


def _struct(kind: type[Message], fields: Mapping[str, Any], ids: Mapping[str, UUID]) -> Message:
    types = {field.name: field.type for field in kind.SCHEMA.fields}
    return kind(**{name: _value(types[name], value, ids) for name, value in fields.items()})


def _value(kind: Any, value: Any, ids: Mapping[str, UUID]) -> Any:
    if isinstance(value, Id):
        return ids.get(value.topic, UUID(int=77)) if value.topic else ZERO_UUID
    if isinstance(value, Mapping):
        return _struct(kind, value, ids)
    if isinstance(kind, Array) and isinstance(value, Sequence):
        return [_value(kind.element, element, ids) for element in value]
    return value

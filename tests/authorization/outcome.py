"""What a reply tells a client, as one line of text.

The line has the names and the errors at every level, the operations that the reply says are allowed, and whether there
are offsets, records, configs and the like. What depends on time or on the broker is left out.

    t[0 ok] other[0 TOPIC_AUTHORIZATION_FAILED]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from tailrace.machines.authorization.vocabulary import Operation
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.message import Message
from tailrace.protocol.primitive import ZERO_UUID

_OPERATIONS_UNASKED = -(1 << 31)

_ERRORS = {"error_code", "partition_error_code"}
_NAMES = {
    *("name", "topic", "topic_name", "group_id", "transactional_id", "resource_name", "key", "user", "entity_name"),
    *("index", "partition", "partition_index", "partition_id", "resource_type", "group_state", "transaction_state"),
    *("principal_name", "subscribed_topic_names", "partitions"),
}
_KNOWN = {
    *("high_watermark", "base_offset", "offset", "end_offset", "committed_offset", "low_watermark", "producer_id"),
    "node_id",
}
_PRESENT = {"configs", "active_producers", "resources", "records", "hmac"}
_LEFT_OUT = {"node_endpoints", "synonyms", "supported_features", "finalized_features", "api_keys", "brokers"}


def outcome(response: Message, version: int, topics: Mapping[UUID, str]) -> str:
    """Return the line for a reply; topics have their names instead of their ids."""
    return _struct(response, version, topics) or "nothing"


def _struct(message: Message, version: int, topics: Mapping[UUID, str]) -> str:
    parts = [
        _value(field.name, getattr(message, field.name), version, topics)
        for field in message.SCHEMA.fields
        if version in field.versions and field.name not in _LEFT_OUT
    ]
    return " ".join(part for part in parts if part)


def _value(name: str, value: Any, version: int, topics: Mapping[UUID, str]) -> str:
    if name in _ERRORS:
        return ErrorCode(value).name if value else "ok"
    if name == "topic_config_error_code":
        return f"configs: {ErrorCode(value).name}" if value else ""
    if name.endswith("authorized_operations"):
        return "" if value == _OPERATIONS_UNASKED else f"may {_operations(value)}"
    if isinstance(value, UUID):
        return "" if value == ZERO_UUID else f"#{topics.get(value, '?')}"
    if name in _KNOWN:
        return name if value >= 0 else ""
    if name in _PRESENT:
        return name if value else ""
    if isinstance(value, list) and value and isinstance(value[0], Message):
        return f"[{', '.join(sorted(_struct(element, version, topics) for element in value))}]"
    if isinstance(value, Message):
        return _struct(value, version, topics)
    if name in _NAMES and value is not None:
        return " ".join(map(str, value)) if isinstance(value, list) else str(value)
    return ""


def _operations(bits: int) -> str:
    return "|".join(operation.name for operation in Operation if bits >> operation & 1) or "nothing"

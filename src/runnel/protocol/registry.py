"""Every API that Runnel can put on the wire, found by its key."""

from types import ModuleType

from runnel.base.invariant import invariant
from runnel.protocol.api_key import ApiKey
from runnel.protocol.message import Message, MessageType
from runnel.protocol.messages import (
    api_versions,
    cluster,
    config,
    consumer_group,
    coordinator,
    fetch,
    group,
    group_admin,
    group_offset,
    metadata,
    offset,
    produce,
    producer,
    reassignment,
    sasl,
    topic,
    transaction,
    transaction_admin,
    transaction_marker,
)

FAMILIES: tuple[ModuleType, ...] = (
    api_versions,
    cluster,
    config,
    consumer_group,
    coordinator,
    fetch,
    group,
    group_admin,
    group_offset,
    metadata,
    offset,
    produce,
    producer,
    reassignment,
    sasl,
    topic,
    transaction,
    transaction_admin,
    transaction_marker,
)


def _collect(is_request: bool) -> dict[int, type[Message]]:
    found: dict[int, type[Message]] = {}
    for family in FAMILIES:
        for value in vars(family).values():
            if not isinstance(value, MessageType) or value.SCHEMA.key is None:
                continue
            if value.SCHEMA.is_request == is_request:
                invariant(value.SCHEMA.key not in found, f"{value.__name__} is declared twice")
                found[value.SCHEMA.key] = value.SCHEMA.type
    return dict(sorted(found.items()))


_REQUESTS = _collect(is_request=True)
_RESPONSES = _collect(is_request=False)
invariant(_REQUESTS.keys() == _RESPONSES.keys(), "a request without its response, or the other way round")

API_KEYS: tuple[ApiKey, ...] = tuple(ApiKey(key) for key in _REQUESTS)


def find_request_type(api_key: int) -> type[Message] | None:
    """The request with this key, or None for a key that we do not know."""
    return _REQUESTS.get(api_key)


def request_type(api_key: int) -> type[Message]:
    """The request with this key; KeyError for a key that we do not know."""
    return _REQUESTS[api_key]


def response_type(api_key: int) -> type[Message]:
    """The response with this key; KeyError for a key that we do not know."""
    return _RESPONSES[api_key]


def version_range(api_key: int) -> tuple[int, int]:
    """The lowest and the highest version that can be encoded and decoded."""
    versions = _REQUESTS[api_key].SCHEMA.versions
    return versions[0], versions[-1]


def message_types() -> list[type[Message]]:
    """All requests and responses, by key."""
    return [cls for key in _REQUESTS for cls in (_REQUESTS[key], _RESPONSES[key])]

"""The registry of all messages by API key."""

from types import ModuleType

from tailrace.base.discovery import import_modules
from tailrace.base.invariant import invariant
from tailrace.protocol import messages
from tailrace.protocol.api_key import ApiKey
from tailrace.protocol.message import Message, MessageType

FAMILIES: tuple[ModuleType, ...] = import_modules(messages.__name__, messages.__path__)


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
invariant(_REQUESTS.keys() == _RESPONSES.keys(), "every request has a response, and every response a request")

API_KEYS: tuple[ApiKey, ...] = tuple(ApiKey(key) for key in _REQUESTS)


def find_request_type(api_key: int) -> type[Message] | None:
    """Return the request with this key, or None if the key is unknown."""
    return _REQUESTS.get(api_key)


def request_type(api_key: int) -> type[Message]:
    """Return the request with this key; raise KeyError if the key is unknown."""
    return _REQUESTS[api_key]


def response_type(api_key: int) -> type[Message]:
    """Return the response with this key; raise KeyError if the key is unknown."""
    return _RESPONSES[api_key]


def version_range(api_key: int) -> tuple[int, int]:
    """Return the lowest and the highest version that can be encoded and decoded."""
    versions = _REQUESTS[api_key].SCHEMA.versions
    return versions[0], versions[-1]


def message_types() -> list[type[Message]]:
    """Return all requests and responses, by key."""
    return [cls for key in _REQUESTS for cls in (_REQUESTS[key], _RESPONSES[key])]

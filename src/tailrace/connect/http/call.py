"""What the routes share: the service behind a request, names in paths, and bodies."""

from collections.abc import Mapping
from urllib.parse import unquote

from fastapi import Request

from tailrace.connect.service import ConnectService

Scalar = str | int | float | bool | None
"""A value of a config. Numbers and truth values count as their text, as with Kafka Connect."""


def service_of(request: Request) -> ConnectService:
    """Return the service that answers a request."""
    service: ConnectService = request.app.state.service
    return service


def read_name(raw: str) -> str:
    """Return the name in a path."""
    return unquote(raw)


def read_config(given: Mapping[str, Scalar]) -> dict[str, str]:
    """Return a config as texts; settings without a value are left out."""
    return {name: _text(value) for name, value in given.items() if value is not None}


def _text(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def clean_name(name: Scalar) -> str:
    """Return the name of a new connector without spaces around it; the validation of its config checks it."""
    return "" if name is None else _text(name).strip()


def is_true(text: str) -> bool:
    """Return whether a parameter of a query is true; anything else is false, as with Kafka Connect."""
    return text.lower() == "true"

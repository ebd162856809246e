"""Parts of a request to a registry and of its answer, however they are sent."""

import json
from base64 import b64encode
from typing import NamedTuple

_MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"


class Refusal(NamedTuple):
    """The error of a registry: its own code, and what it says."""

    code: int
    message: str


def request_headers(user_info: str | None) -> dict[str, str]:
    """Return the headers of every request. `user_info` is USER:PASSWORD."""
    headers = {"Accept": f"{_MEDIA_TYPE}, application/json", "Content-Type": _MEDIA_TYPE}
    if user_info is not None:
        headers["Authorization"] = f"Basic {b64encode(user_info.encode()).decode()}"
    return headers


def read_refusal(body: bytes) -> Refusal | None:
    """Return the error in the body of an answer; None if a server that is not a registry wrote it."""
    try:
        said = json.loads(body)
        return Refusal(int(said["error_code"]), str(said["message"]))
    except (ValueError, KeyError, TypeError):
        return None

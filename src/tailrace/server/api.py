"""The APIs that this broker serves, each registered by its handler.

ApiVersions, the dispatcher, the compatibility page and the tests all read this registry;
there is no second list.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from tailrace.protocol.api_key import ApiKey
from tailrace.protocol.errors import ApiError
from tailrace.protocol.message import Message
from tailrace.server.context import RequestContext

R = TypeVar("R", bound=Message)

Handle = Callable[[RequestContext, Any], Awaitable[Message | None]]
Fail = Callable[[RequestContext, Any, ApiError], Message]


@dataclass(frozen=True, slots=True)
class Api:
    """One API: its request, its versions, its handler, and the function that builds the reply for an error."""

    key: ApiKey
    request_type: type[Message]
    version_min: int
    version_max: int
    advertised_min: int
    handle: Handle
    fail: Fail
    missing: str
    is_controllers: bool = False
    is_brokers: bool = False


APIS: dict[int, Api] = {}


def api(
    request_type: type[R],
    *,
    versions: tuple[int, int],
    fail: Callable[[RequestContext, R, ApiError], Message],
    advertised_min: int | None = None,
    missing: str = "",
    is_controllers: bool = False,
    is_brokers: bool = False,
) -> Callable[[Callable[[RequestContext, R], Awaitable[Message | None]]], Handle]:
    """Register a handler.

    `fail` builds the reply that reports one error for the whole request. `missing` lists for the compatibility page
    what is not supported. Brokers that are not the controller forward an API with `is_controllers` to it. An
    API with `is_brokers` is served on the listener between brokers only.
    """

    def register(handle: Handle) -> Handle:
        key = ApiKey(cast("ApiKey", request_type.SCHEMA.key))
        low, high = versions
        APIS[key] = Api(
            key,
            request_type,
            low,
            high,
            low if advertised_min is None else advertised_min,
            handle,
            fail,
            missing,
            is_controllers,
            is_brokers,
        )
        return handle

    return register

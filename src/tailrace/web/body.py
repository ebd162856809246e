"""The bodies of requests: how many JSON values one may have."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import HTTPException, Request, Response
from fastapi.routing import APIRoute

from tailrace.base.limits import HTTP_JSON_VALUES_MAX


class BoundedRoute(APIRoute):
    """A route that refuses bodies with too many JSON values before models are made of them."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of FastAPI for a request that counts its values."""
        handle = super().get_route_handler()

        async def handle_bounded(request: Request) -> Response:
            return await handle(_BoundedRequest(request.scope, request.receive))

        return handle_bounded


class _BoundedRequest(Request):
    async def json(self) -> Any:
        """Return the body."""
        found = await super().json()
        if _has_too_many_values(found):
            raise HTTPException(
                413, f"The request has more than {HTTP_JSON_VALUES_MAX} JSON values; divide it into several requests"
            )
        return found


def _has_too_many_values(value: Any) -> bool:
    count, pending = 1, [value]
    while pending:
        each = pending.pop()
        if isinstance(each, dict | list):
            count += len(each)
            if count > HTTP_JSON_VALUES_MAX:
                return True
            pending.extend(each.values() if isinstance(each, dict) else each)
    return False

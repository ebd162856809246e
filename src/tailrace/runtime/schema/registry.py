"""The question of a broker to a schema registry: under which subjects is an id registered?

A broker has one connection to a registry at a time. If a registry does not answer, the next one of the list is asked,
and stays the first choice until it fails in turn.
"""

import asyncio
import json
import ssl
from collections.abc import Sequence

from tailrace.base.limits import SCHEMA_REGISTRY_ANSWER_S, SCHEMA_REGISTRY_REPLY_BYTES_MAX
from tailrace.base.registry_address import RegistryAddress
from tailrace.runtime.schema.http import HttpConnection, HttpError, HttpReply
from tailrace.schema.exchange import read_refusal, request_headers

_OK = 200
_NOT_FOUND = 404
_SCHEMA_NOT_FOUND = 40403


class RegistryError(Exception):
    """No schema registry gave an answer that can be used."""


class RegistryClient:
    """Asks the registries of a broker, one question at a time."""

    def __init__(self, urls: Sequence[str], user_info: str | None, tls: ssl.SSLContext | None = None) -> None:
        headers = request_headers(user_info)
        self._connections = {
            url: HttpConnection(RegistryAddress.of(url), headers, SCHEMA_REGISTRY_REPLY_BYTES_MAX, tls) for url in urls
        }
        self._preferred = list(urls)

    async def subjects(self, schema_id: int) -> frozenset[str]:
        """Return the subjects that have the id, none if it is unknown. Raises `RegistryError`."""
        problems = []
        for url in tuple(self._preferred):
            try:
                async with asyncio.timeout(SCHEMA_REGISTRY_ANSWER_S):
                    reply = await self._connections[url].get(f"/schemas/ids/{schema_id}/subjects")
                return _subjects(reply)
            except TimeoutError:
                problems.append(f"{url} did not answer within {SCHEMA_REGISTRY_ANSWER_S:g} s")
            except (OSError, EOFError, HttpError, RegistryError) as error:
                problems.append(f"{url}: {error or type(error).__name__}")
            self._preferred = [*self._preferred[1:], url]
        raise RegistryError("; ".join(problems))

    def close(self) -> None:
        """Close the connections."""
        for connection in self._connections.values():
            connection.close()


def _subjects(reply: HttpReply) -> frozenset[str]:
    if reply.status == _OK:
        try:
            names = json.loads(reply.body)
        except ValueError:
            names = None
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            return frozenset(names)
    refusal = read_refusal(reply.body)
    # Any other 404 comes from a server that is no registry, or from one that does not know the question.
    if reply.status == _NOT_FOUND and refusal is not None and refusal.code == _SCHEMA_NOT_FOUND:
        return frozenset()
    raise RegistryError(f"the registry answered with status {reply.status}")

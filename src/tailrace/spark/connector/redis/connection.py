"""Connections to Redis, and its failures as errors that say whether a restart can help.

The URL has the password, so it is never shown: messages have its scheme, host and database.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from tailrace.base.limits import SPARK_CLUSTERS_KEPT_MAX
from tailrace.spark.error import ConnectorError, PipelineError, RetriableConnectorError

SCHEMES = ("redis", "rediss", "unix")
_PASSING = (
    "BUSY ",
    "CLUSTERDOWN",
    "LOADING",
    "MASTERDOWN",
    "MISCONF",
    "NOREPLICAS",
    "OOM",
    "READONLY",
    "STAGED",
    "TRYAGAIN",
)
"""The codes of replies that can be different a moment later: a failover, a full memory or disk, a long script."""


@dataclass(frozen=True, slots=True)
class RedisSettings:
    """Where a server is, and how long to wait for it."""

    url: str = field(repr=False)
    is_cluster: bool = False
    timeout_s: float = 10.0

    def __str__(self) -> str:
        parts = urlsplit(self.url)
        if parts.scheme == "unix":
            return f"unix://{parts.path}"
        host = parts.hostname or "localhost"
        port = "" if parts.port is None else f":{parts.port}"
        return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}{parts.path.rstrip('/')}"


_WRONG_URL = "the URL is invalid; special characters of a user or a password are written as %XX"


def check_settings(place: str, url: Any, *, is_cluster: bool, timeout: Any) -> RedisSettings:
    """Return the settings of a connection; raises `PipelineError`, whose text has no password."""
    if not isinstance(url, str) or urlsplit(url).scheme not in SCHEMES:
        raise PipelineError(f"{place} needs a URL such as redis://localhost:6379/0, rediss://… or unix://…")
    try:
        str(settings := RedisSettings(url, is_cluster, check_seconds(place, "timeout", timeout)))
    except ValueError:  # the port is not a number; the message repeats it, and it may be the password
        raise PipelineError(f"{place}: {_WRONG_URL}") from None
    parts = urlsplit(url)
    if parts.scheme != "unix" and "@" in parts.path:
        raise PipelineError(f"{place}: {_WRONG_URL}")
    return settings


def check_seconds(place: str, name: str, value: Any) -> float:
    """Return a number of seconds; raises `PipelineError` if it is not positive."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise PipelineError(f"{place}: {name}={value!r} is not a positive number of seconds")
    return float(value)


def open_client(settings: RedisSettings) -> Any:
    """Return the client of this process; raises `PipelineError` without the package."""
    return _kept_client(os.getpid(), settings)


@lru_cache(SPARK_CLUSTERS_KEPT_MAX)
def _kept_client(_pid: int, settings: RedisSettings) -> Any:
    """Return a client that is kept; a forked worker must not use the connections of its parent."""
    try:
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry
    except ImportError:
        raise PipelineError("redis() needs the extra [redis]: pip install 'tailrace[redis]'") from None
    timeouts = {"socket_timeout": settings.timeout_s, "socket_connect_timeout": settings.timeout_s}
    # A repeated command could write a row twice. The flow is repeated instead, which knows what it has written.
    client = redis.RedisCluster if settings.is_cluster else redis.Redis
    return client.from_url(settings.url, retry=Retry(NoBackoff(), 0), **timeouts)


@contextmanager
def redis_scope(settings: RedisSettings, what: str) -> Iterator[None]:
    """Raise `RetriableConnectorError` if the server is away, and `ConnectorError` if it refuses what is done."""
    from redis.exceptions import AuthenticationError, AuthorizationError, ConnectionError, RedisError, TimeoutError

    try:
        yield
    except (AuthenticationError, AuthorizationError) as error:
        raise ConnectorError(f"{settings}: {what}: the user or the password is refused: {error}") from None
    except (ConnectionError, TimeoutError) as error:
        raise RetriableConnectorError(f"{settings}: {what}: the server does not answer: {error}") from None
    except RedisError as error:
        kind = RetriableConnectorError if is_passing(str(error)) else ConnectorError
        raise kind(f"{settings}: {what}: {error}") from None


def is_passing(reply: str) -> bool:
    """Return whether the reason of an error reply can pass."""
    return reply.startswith(_PASSING) or "used memory > 'maxmemory'" in reply


def connect(settings: RedisSettings) -> Any:
    """Return a client whose server answers; raises `PipelineError`."""
    client = open_client(settings)
    try:
        with redis_scope(settings, "connect"):
            client.ping()
    except ConnectorError as error:
        raise PipelineError(str(error)) from None
    return client


def require_kind(settings: RedisSettings, key: str, kind: str) -> None:
    """Raise `PipelineError` if a key holds something other than this kind of value."""
    client = connect(settings)
    with redis_scope(settings, f"look at {key}"):
        found = client.type(key).decode()
    if found not in (kind, "none"):
        raise PipelineError(f"{settings}: key {key} holds a {found}, not a {kind}")


def slot_name(key: str) -> str:
    """Return a part of a key in braces, which puts other keys that begin with it into the slot of the key."""
    begin = key.find("{")
    end = key.find("}", begin + 1) if begin >= 0 else -1
    return key[begin : end + 1] if end > begin + 1 else f"{{{key}}}"

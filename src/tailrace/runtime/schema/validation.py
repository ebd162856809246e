"""Knowledge of a broker about schema ids: which subjects each belongs to.

An id and its schema never change, so a subject that an id was found under is remembered until the cache is full. That
an id is unknown, or not registered under a subject, may change at any time. It is remembered for a moment, and only if
the registry was asked after the batch had come: a producer may register its schema right before it sends a record.

Lookups of one id are joined. After a registry has failed, requests that need it are refused at once while one lookup
after the other finds out whether it is back. So a registry that is down or slow delays a connection once, and affects
only batches with ids that the broker does not know.
"""

import asyncio
import logging
import ssl
from collections import OrderedDict
from typing import TypeVar

from tailrace.base.clock import Clock
from tailrace.base.limits import (
    SCHEMA_ID_CACHE_COUNT,
    SCHEMA_LOOKUPS_WAITING_MAX,
    SCHEMA_REGISTRY_REST_MS,
    SCHEMA_UNKNOWN_MS,
)
from tailrace.base.metric import Registry
from tailrace.base.sentinel import INT32_MAX
from tailrace.base.task import ignore_exception
from tailrace.config.broker import BrokerConfig
from tailrace.runtime.schema.registry import RegistryClient, RegistryError
from tailrace.runtime.tls import make_broker_context
from tailrace.security.tls.store import Stores

log = logging.getLogger("tailrace.runtime")

K = TypeVar("K")
V = TypeVar("V")

_NO_SUBJECTS: frozenset[str] = frozenset()


class SchemaValidation:
    """The ids that a broker knows, and the registry that it asks for others."""

    def __init__(self, config: BrokerConfig, clock: Clock, metrics: Registry) -> None:
        """Raise `ConfigError` if a file for TLS cannot be used."""
        self._clock = clock
        self._subjects: OrderedDict[int, frozenset[str]] = OrderedDict()
        self._missing_at_ms: OrderedDict[tuple[int, str | None], int] = OrderedDict()
        self._lookups: dict[int, asyncio.Task[frozenset[str]]] = {}
        self._turn = asyncio.Lock()
        self._failed_at_ms: int | None = None
        self._failure = ""
        self._client: RegistryClient | None = None
        if config.confluent_schema_registry_url:
            self._client = RegistryClient(
                config.confluent_schema_registry_url, config.confluent_basic_auth_user_info, _tls(config)
            )
        self.refused_records = metrics.counter(
            "tailrace_schema_validation_refused_record_count",
            "Records in batches that were refused because a record has no valid schema id.",
            ("topic",),
        )

    def known(self, schema_id: int, subject: str | None) -> bool | None:
        """Return whether an id belongs to a subject, or with None to any; None if the registry has to be asked."""
        if not 0 <= schema_id <= INT32_MAX:
            return (
                False  # registries give out positive 32-bit numbers; a negative one stands for a record without an id
            )
        if _belongs(self._subjects.get(schema_id, _NO_SUBJECTS), subject):
            self._subjects.move_to_end(schema_id)
            return True
        missing_at_ms = self._missing_at_ms.get((schema_id, subject))
        is_fresh = missing_at_ms is not None and self._clock.monotonic_ms() - missing_at_ms < SCHEMA_UNKNOWN_MS
        return False if is_fresh else None

    async def find(self, schema_id: int, subject: str | None) -> bool:
        """Ask the registry whether an id belongs to a subject, or with None to any.

        Raises `RegistryError`, without a wait if the registry is down. A lookup goes on if its caller is cancelled.
        """
        is_joined = schema_id in self._lookups
        found = _belongs(await asyncio.shield(self._look_up(schema_id)), subject)
        if not found and is_joined:
            # That lookup may be older than a registration, and any other is younger than this call.
            found = _belongs(await asyncio.shield(self._look_up(schema_id)), subject)
        if not found:
            _put(self._missing_at_ms, (schema_id, subject), self._clock.monotonic_ms())
        return found

    def _look_up(self, schema_id: int) -> "asyncio.Task[frozenset[str]]":
        """Begin or join a lookup. While the registry is down, begin one now and then, and raise `RegistryError`."""
        if self._client is None:
            raise RegistryError("confluent.schema.registry.url is not set on this broker")
        task = self._lookups.get(schema_id)
        if task is None and self._may_ask:
            task = asyncio.get_running_loop().create_task(self._run(self._client, schema_id))
            task.add_done_callback(ignore_exception)
            self._lookups[schema_id] = task
        if task is None or self._failed_at_ms is not None:
            raise RegistryError(self._failure or "too many lookups are waiting for the schema registry")
        return task

    @property
    def _may_ask(self) -> bool:
        if self._failed_at_ms is None:
            return len(self._lookups) < SCHEMA_LOOKUPS_WAITING_MAX
        # One lookup at a time shows whether the registry is back.
        return not self._is_resting and not self._lookups

    @property
    def _is_resting(self) -> bool:
        failed_at_ms = self._failed_at_ms
        return failed_at_ms is not None and self._clock.monotonic_ms() - failed_at_ms < SCHEMA_REGISTRY_REST_MS

    async def _run(self, client: RegistryClient, schema_id: int) -> frozenset[str]:
        try:
            async with self._turn:
                if self._is_resting:  # the lookup before this one has failed
                    raise RegistryError(self._failure)
                subjects = await self._ask(client, schema_id)
        finally:
            del self._lookups[schema_id]
        _put(self._subjects, schema_id, subjects)
        return subjects

    async def _ask(self, client: RegistryClient, schema_id: int) -> frozenset[str]:
        try:
            subjects = await client.subjects(schema_id)
        except RegistryError as error:
            if self._failed_at_ms is None:
                log.warning("cannot look up schema ids: %s", error)
            self._failed_at_ms, self._failure = self._clock.monotonic_ms(), str(error)
            raise
        if self._failed_at_ms is not None:
            log.info("the schema registry answers again")
            self._failed_at_ms, self._failure = None, ""
        return subjects

    async def stop(self) -> None:
        """End the lookups and close the connection."""
        tasks = list(self._lookups.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._client is not None:
            self._client.close()


def _tls(config: BrokerConfig) -> ssl.SSLContext | None:
    """Return the context for the registries; None for the certificates of the system, which are loaded when needed."""
    truststore, keystore = config.confluent_ssl_truststore_location, config.confluent_ssl_keystore_location
    if truststore is None and keystore is None:
        return None
    stores = Stores(
        truststore_location=truststore,
        keystore_location=keystore,
        key_password=config.confluent_ssl_key_password,
    )
    return make_broker_context("the schema registry", "confluent.ssl", stores)


def _belongs(subjects: frozenset[str], subject: str | None) -> bool:
    return bool(subjects) if subject is None else subject in subjects


def _put(cache: OrderedDict[K, V], key: K, value: V) -> None:
    """Store a value as the newest, and drop the one that was used least recently if there are too many."""
    cache[key] = value
    cache.move_to_end(key)
    if len(cache) > SCHEMA_ID_CACHE_COUNT:
        cache.popitem(last=False)

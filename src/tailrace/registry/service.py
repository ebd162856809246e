"""One registry process: its state, its place in the group of registries, and the requests that change something."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self, TypeVar

from tailrace.base.schema_limits import REGISTRY_READ_THREADS_MAX
from tailrace.client.error import ClientError
from tailrace.protocol.errors import ApiError
from tailrace.registry.core.error import Code, RegistryError
from tailrace.registry.core.parser import SchemaCache, SchemaParser
from tailrace.registry.core.state import State
from tailrace.registry.election import SESSION_TIMEOUT_MS, Election, Member
from tailrace.registry.store import SchemaStore
from tailrace.registry.writer import Decide, Writer

_log = logging.getLogger(__name__)

LEADER_TIMEOUT_S = 5.0
"""How long a request that changes something waits while the registries elect a leader."""

R = TypeVar("R")


class Registry:
    """A member of the group of registries. Use it as an async context manager."""

    def __init__(
        self,
        bootstrap: str,
        member: Member,
        *,
        topic: str = "_schemas",
        group_id: str = "schema-registry",
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        client: Mapping[str, str] | None = None,
    ) -> None:
        self.member = member
        self.store = SchemaStore(bootstrap, topic=topic, group_id=group_id, client=client)
        self._cache = SchemaCache()
        self.parser = SchemaParser(self.store.state, self._cache)
        self.group_id = group_id
        self._election = Election(
            self.store.cluster, group_id, member, self._on_leader, session_timeout_ms=session_timeout_ms
        )
        self._leader: Member | None = None
        self._problem: str | None = None
        self._is_known = asyncio.Condition()
        self._writer = Writer(self.store, self._cache, lambda: self.is_leader)
        self._tasks: list[asyncio.Task[None]] = []
        self._threads = ThreadPoolExecutor(REGISTRY_READ_THREADS_MAX, thread_name_prefix="registry-reader")

    @property
    def state(self) -> State:
        """What has been registered."""
        return self.store.state

    @property
    def leader(self) -> Member | None:
        """The registry that writes, as far as this one knows."""
        return self._leader

    @property
    def problem(self) -> str | None:
        """Why this registry knows no leader, if there is a reason other than an election that is under way."""
        return self._problem

    @property
    def is_leader(self) -> bool:
        """Whether this registry is the one that writes."""
        return self._leader is not None and self._leader.url == self.member.url

    async def __aenter__(self) -> Self:
        await self.store.__aenter__()
        self._tasks = [asyncio.create_task(self._election.run()), asyncio.create_task(self._writer.run())]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)
        await self.store.close()

    async def _on_leader(self, leader: Member | None, problem: str | None) -> None:
        """Note the outcome of an election, or why there is none.

        It must not wait for brokers, because no heartbeat is sent meanwhile. A new leader takes the topic over before
        its first decision, not here.
        """
        if leader is None or leader.url != self.member.url:
            await self.store.give_up_writing()  # another leader may write from now on
        if leader is not None and leader != self._leader:
            _log.info("registry %s leads group %s", leader.url, self.group_id)
        async with self._is_known:
            self._leader, self._problem = leader, problem
            self._is_known.notify_all()

    async def known_leader(self) -> Member:
        """Return the leader; waits for an election that is under way, and raises `RegistryError` if it lasts."""
        try:
            async with asyncio.timeout(LEADER_TIMEOUT_S), self._is_known:
                await self._is_known.wait_for(lambda: self._leader is not None)
        except TimeoutError:
            reason = "an election is under way" if self._problem is None else self._problem
            raise RegistryError(
                Code.UNKNOWN_LEADER, f"Registry {self.member.url} knows no leader of group {self.group_id}: {reason}"
            ) from None
        assert self._leader is not None  # noqa: S101 - the condition above
        return self._leader

    async def catch_up(self) -> None:
        """Read what the leader has written, so that a client that asks this follower next sees its own change."""
        try:
            await self.store.catch_up()
        except (ClientError, ApiError, TimeoutError) as error:
            _log.warning("registry %s could not read topic %s to its end: %s", self.member.url, self.store.topic, error)

    async def examine(self, look: Callable[[State, SchemaParser], R]) -> R:
        """Run work on schemas in a thread, with the state of this moment.

        A large schema takes seconds to parse and to compare, and heartbeats and other requests do not wait for that.
        """
        state = self.state.copy()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, look, state, SchemaParser(state, self._cache))

    async def change(self, decide: Decide[R]) -> R:
        """Decide and write as the leader; each decision sees those before it. Raises `RegistryError` if it cannot."""
        return await self._writer.change(decide)

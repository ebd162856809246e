"""The group of a consumer: its member, its commits, and the steps that the reader must take.

Everything runs on the event loop. The reader calls `begin_step` when the user is done with all records,
runs the user's callback, and calls `end_step`. Only then are partitions added and removed, and only then do
automatic commits read positions. So a commit never covers a record that the user still works on.
"""

import asyncio
import logging
import re
import time
from collections import deque
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any
from uuid import UUID

from tailrace.client.cluster import Cluster
from tailrace.client.error import BrokerUnavailable, ClientError, CommitFailed, RequestTimeout
from tailrace.client.fetch.fetcher import Fetcher
from tailrace.client.fetch.setting import CLASSIC, CONSUMER, ConsumerSettings
from tailrace.client.group.classic_protocol import ClassicMember
from tailrace.client.group.commit_queue import Commit, Committer
from tailrace.client.group.consumer_protocol import ConsumerMember
from tailrace.client.group.coordinator import Coordinator
from tailrace.client.group.member import GroupMember, Step, StepKind
from tailrace.client.group.offset import NO_MEMBER, GroupMetadata, Identity, OffsetAndMetadata, fetch_offsets
from tailrace.client.group.subscription import GroupSubscription
from tailrace.client.place import AT_COMMITTED
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from tailrace.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest

_log = logging.getLogger(__name__)

_COMMIT_INTERVAL_MIN_S = 0.01
_LAST_COMMIT_TIMEOUT_S = 10.0  # a program must not wait at its end for a broker that is gone
_NOT_MODERN = frozenset(
    {ErrorCode.UNSUPPORTED_VERSION, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.GROUP_ID_NOT_FOUND}
)
"""Errors of a coordinator that does not support the consumer protocol, or not for this group."""


class Group:
    """The group of one consumer. The reader sets `read_at_s` and `is_waiting`."""

    def __init__(self, settings: ConsumerSettings, group_id: str, cluster: Cluster, fetcher: Fetcher) -> None:
        self.settings = settings
        self.cluster = cluster
        self.coordinator = Coordinator(cluster, group_id)
        self.subscription = GroupSubscription()
        self.owned: set[TopicPartition] = set()
        self.read_at_s = time.monotonic()
        self.is_waiting = False
        self._fetcher = fetcher
        self._member: GroupMember | None = None
        self._protocol = settings.chosen_protocol
        self._committer = Committer(
            self.coordinator, self._identity, self._may_commit_again, settings.default_api_timeout_ms
        )
        self._committer.on_fenced = self._on_fenced
        self._steps: deque[Step] = deque()
        self._is_commit_due = False
        self._commits_at_end = True
        self._running: asyncio.Task[None] | None = None
        self._timer: asyncio.Task[None] | None = None
        self._commits: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        fetcher.locator.find_committed = self._find_places

    # --- from any thread

    def subscribe(self, names: Iterable[str], pattern: re.Pattern[str] | None) -> None:
        """Read these topics together with the other members of the group."""
        self.subscription.set(names, pattern)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._on_subscription)

    def positions(self, targets: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the positions of partitions, or of all that are assigned."""
        chosen = None if targets is None else set(targets)
        ids = {name: topic.topic_id for name, topic in self.cluster.view.topics.items()}
        with self._fetcher.lock:
            return {
                state.target: OffsetAndMetadata(state.position, "", state.leader_epoch)
                for state in self._fetcher.assignment
                if state.place is None and state.position >= 0 and (chosen is None or state.target in chosen)
                # A position in a deleted topic would be committed for a new topic of the same name.
                if state.is_in(ids.get(state.target.topic))
            }

    # --- on the loop: beginning and ending

    def start(self) -> None:
        """Start on the running event loop."""
        self._loop = asyncio.get_running_loop()
        self.read_at_s = time.monotonic()
        if self.settings.enable_auto_commit:
            self._timer = self._loop.create_task(self._remind())
        self._on_subscription()

    def _on_subscription(self) -> None:
        if self.subscription.is_empty:
            return
        if self._running is None:
            self.read_at_s = time.monotonic()
            self._running = asyncio.get_running_loop().create_task(self._run())
        elif self._member is not None:
            self._member.on_subscription()

    async def begin_leaving(self, *, commits: bool = True) -> Step | None:
        """Stop being an active member; returns the last step of the reader, if there is one.

        Without `commits` nothing is committed, because the last records may not have been processed.
        """
        self._commits_at_end = commits
        running, self._running = self._running, None
        if running is not None:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        while self._steps:
            self._steps.popleft().done.cancel()
        self._is_commit_due = False
        self._fetcher.has_notice = False
        try:
            async with asyncio.timeout(_LAST_COMMIT_TIMEOUT_S):
                await self._commit_quietly(self.positions())
        except TimeoutError:
            _log.warning("no answer to the last commit of group %s in time", self.coordinator.group_id)
            self._commits_at_end = False
        if not self.owned:
            return None
        self._steps.append(Step(StepKind.REVOKE, self.owned))
        return await self.begin_step()

    async def end_leaving(self) -> None:
        """Leave at the coordinator, and drop the subscription."""
        self.subscription.set((), None)
        self._commits_at_end = True
        self._fetcher.fatal = None
        member, self._member = self._member, None
        if member is not None:
            await member.leave()

    async def close(self) -> None:
        """Stop the background tasks, after `end_leaving`."""
        tasks = [task for task in (self._running, self._timer, *self._commits) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- on the loop, called by the reader

    async def begin_step(self) -> Step | None:
        """Prepare and return the next step for the user's callback, or None. Commits offsets that are due."""
        self.read_at_s = time.monotonic()
        if self._is_commit_due:
            self._is_commit_due = False
            task = asyncio.get_running_loop().create_task(self._commit_quietly(self.positions()))
            self._commits.add(task)
            task.add_done_callback(self._commits.discard)
        if not self._steps:
            self._fetcher.has_notice = False
            return None
        step = self._steps[0]
        step.is_started = True
        if step.kind is StepKind.ASSIGN:
            self._fetcher.add_or_move(dict.fromkeys(step.partitions, AT_COMMITTED))
            self.owned.update(step.partitions)
        elif step.kind is StepKind.LOSE:
            step.partitions = sorted(self.owned)
        else:
            step.partitions = [target for target in step.partitions if target in self.owned]
        if step.kind is StepKind.REVOKE:
            await self._commit_quietly(self.positions(step.partitions))
        return step

    async def end_step(self, step: Step) -> None:
        """Finish a step after its callback."""
        if step.kind is not StepKind.ASSIGN:
            self._fetcher.remove(step.partitions)
            self.owned.difference_update(step.partitions)
            self._committer.give_up(step.partitions)
        if self._steps and self._steps[0] is step:
            self._steps.popleft()
        if not step.done.done():
            step.done.set_result(None)
        self.read_at_s = time.monotonic()

    async def change(self, kind: StepKind, partitions: Iterable[TopicPartition]) -> None:
        """Wait until the reader has taken a step."""
        step = Step(kind, partitions)
        if kind is StepKind.LOSE:  # it removes all partitions, so the steps before it do not matter
            for other in [other for other in self._steps if not other.is_started]:
                self._steps.remove(other)
                other.done.set_result(None)
        self._steps.append(step)
        self._fetcher.notify()
        try:
            await step.done
        finally:
            if not step.is_started and step in self._steps:
                self._steps.remove(step)

    # --- commits

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> Coroutine[Any, Any, None]:
        """Commit offsets; raises `CommitFailed` if the group has excluded the member, or `ApiError`.

        The commit belongs to the partitions and topics at the call, not when the coroutine begins.
        """
        return self._commit(self._committer.prepare(offsets, self._read_ids()))

    def _read_ids(self) -> dict[str, UUID]:
        """Return the ids of the topics that the positions belong to."""
        with self._fetcher.lock:
            return {each.target.topic: each.topic_id for each in self._fetcher.assignment if each.topic_id is not None}

    async def _commit(self, wanted: Commit, *, skips_lost: bool = False) -> None:
        self._check_member()
        await self._committer.commit(wanted, skips_lost=skips_lost)

    def check_owned(self, targets: Iterable[TopicPartition]) -> None:
        """Raise `CommitFailed` for partitions of other members, whose commits this one would overwrite."""
        if lost := sorted(target for target in targets if not self._may_commit_again(target)):
            raise CommitFailed(f"{', '.join(map(str, lost))} was assigned to another member before the commit")

    def metadata(self) -> GroupMetadata:
        """Return the identity for commits; raises `CommitFailed` if the consumer is not a member at the moment."""
        return GroupMetadata(self.coordinator.group_id, self._check_member(), self._read_ids())

    def _check_member(self) -> Identity:
        identity = self._identity()
        if not self.subscription.is_empty and not identity.is_member:
            raise CommitFailed(f"this consumer is not a member of the group {self.coordinator.group_id} at the moment")
        return identity

    async def committed(self, targets: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the committed offsets of the group; partitions without one are left out."""
        wanted = list(targets)
        if not wanted:
            return {}
        return await self.coordinator.retry(
            lambda: self._fetch_committed(wanted), timeout_ms=self.settings.default_api_timeout_ms
        )

    async def _fetch_committed(self, targets: list[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        topics = self.cluster.view.topics
        ids = {name: topics[name].topic_id for name, _ in targets if name in topics}
        try:
            return await fetch_offsets(self.coordinator, targets, topic_ids=ids)
        except ApiError as error:
            if error.code is ErrorCode.UNKNOWN_TOPIC_ID:  # a topic was deleted, and perhaps created again
                await self.cluster.refresh(list(ids))
            raise

    async def _find_places(self, targets: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        wanted = list(targets)
        found = await self.committed(wanted)
        self._committer.forget({target: None for target in wanted if target not in found})
        self._committer.note(found)
        return found

    def _commit_quietly(self, positions: Mapping[TopicPartition, OffsetAndMetadata]) -> Coroutine[Any, Any, None]:
        """Commit automatically. If that fails, the records are read again by this member or another."""
        return self._try_to_commit(self._committer.prepare(self._committer.changed(positions), self._read_ids()))

    async def _try_to_commit(self, wanted: Commit) -> None:
        if not self.settings.enable_auto_commit or not self._commits_at_end or not wanted.offsets:
            return
        try:
            await self._commit(wanted, skips_lost=True)
        except (ClientError, ApiError, RemoteProtocolError) as error:
            _log.warning("an automatic commit of group %s failed: %s", self.coordinator.group_id, error)

    async def _remind(self) -> None:
        interval_s = max(self.settings.auto_commit_interval_ms / 1000, _COMMIT_INTERVAL_MIN_S)
        while True:
            await asyncio.sleep(interval_s)
            self._is_commit_due = True
            self._fetcher.notify()

    def _identity(self) -> Identity:
        return NO_MEMBER if self._member is None else self._member.identity

    def _may_commit_again(self, target: TopicPartition) -> bool:
        return self.subscription.is_empty or target in self.owned

    def _on_fenced(self, identity: Identity) -> bool:
        return self._member is None or self._member.on_fenced(identity)

    # --- membership

    async def _run(self) -> None:
        """Stay a member until an error makes that impossible, which the reader then raises."""
        try:
            while True:
                member = self._member = await self._new_member()
                running = asyncio.get_running_loop().create_task(member.run())
                watching = asyncio.get_running_loop().create_task(self._watch())
                try:
                    await asyncio.wait({running, watching}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    running.cancel()
                    watching.cancel()
                    await asyncio.gather(running, watching, return_exceptions=True)
                if not running.cancelled() and (error := running.exception()) is not None:
                    if not self._falls_back(error):
                        raise error
                    continue
                await member.leave()
                self._member = None
                await self.change(StepKind.LOSE, self.owned)
        except Exception as error:
            self._member = None
            self._fetcher.notify(fatal=error)

    async def _new_member(self) -> GroupMember:
        protocol = self._protocol or await self._choose_protocol()
        return ConsumerMember(self) if protocol == CONSUMER else ClassicMember(self)

    async def _choose_protocol(self) -> str:
        """Return the consumer protocol if the coordinator supports it, else the classic one."""
        failure_count = 0
        while True:
            try:
                connection = await self.coordinator.connection()
                connection.version(ConsumerGroupHeartbeatRequest)
                return CONSUMER
            except (BrokerUnavailable, RequestTimeout):
                self.coordinator.forget()
            except ApiError as error:
                if error.code is ErrorCode.UNSUPPORTED_VERSION:
                    return CLASSIC
                if not error.code.retriable:
                    raise
            failure_count += 1
            await asyncio.sleep(self.cluster.backoff.wait_s(failure_count))

    def _falls_back(self, error: BaseException) -> bool:
        """Return whether to fall back to the classic protocol, if the settings do not name one."""
        if self._protocol is not None or not isinstance(error, ApiError) or error.code not in _NOT_MODERN or self.owned:
            return False
        self._protocol = CLASSIC
        return True

    async def _watch(self) -> None:
        """Return when there was no read for max.poll.interval.ms."""
        limit_s = self.settings.max_poll_interval_ms / 1000
        while True:
            idle_s = 0.0 if self.is_waiting else time.monotonic() - self.read_at_s
            if idle_s >= limit_s:
                break
            await asyncio.sleep(limit_s - idle_s)
        _log.warning(
            "no read for max.poll.interval.ms (%d ms): this consumer leaves the group %s until the next read",
            self.settings.max_poll_interval_ms,
            self.coordinator.group_id,
        )

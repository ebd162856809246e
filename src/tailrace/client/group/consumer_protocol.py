"""Membership in a group of the consumer protocol, in which the coordinator assigns the partitions (KIP-848).

There is one request, the heartbeat. It carries the member's changes since the last one, and the reply carries
the member's assignment. The member gives up and takes partitions accordingly, and reports that with the next
heartbeat, which it sends at once. Other members continue in the meantime.
"""

import asyncio
import contextlib
import logging
import uuid

from tailrace.client.error import BrokerUnavailable, ClientError, RequestTimeout
from tailrace.client.group.member import Host, StepKind
from tailrace.client.group.offset import Identity
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from tailrace.protocol.messages.consumer_group import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)

_log = logging.getLogger(__name__)

_JOIN = 0
_LEAVE = -1
_LEAVE_FOR_A_WHILE = -2  # a static member, which keeps its place
_LEAVE_TIMEOUT_MS = 5_000
_FIRST_INTERVAL_S = 5.0
_QUICK_BEAT_S = 0.5
_QUICK_BEAT_COUNT = 6
_OWN_ID_VERSION = 1  # the first version in which members choose their ids
_OUT = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})


class ConsumerMember:
    """One member. Its main task sends heartbeats, a second applies assignments, a third matches a pattern."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._settings = host.settings
        self._member_id = ""
        self._epoch = _JOIN
        self._interval_s = _FIRST_INTERVAL_S
        self._wake = asyncio.Event()
        self._target: dict[uuid.UUID, list[int]] | None = None  # the assignment of the coordinator
        self._target_changed = asyncio.Event()
        self._names: list[str] = []
        self._named = -1  # the number of the subscription that the names belong to
        self._sent_subscription: tuple[int, list[str]] | None = None
        self._sent_owned: set[TopicPartition] | None = None  # None: the next heartbeat must carry everything
        self._settled: set[TopicPartition] = set()
        self._failure_count = 0
        self._quick_beats_left = _QUICK_BEAT_COUNT

    @property
    def identity(self) -> Identity:
        """The identity for commits at the moment."""
        epoch = self._epoch if self._epoch > _JOIN else -1
        return Identity(self._member_id, epoch, self._settings.group_instance_id)

    def on_subscription(self) -> None:
        """Send the new subscription with a heartbeat at once."""
        self._wake.set()

    def on_fenced(self, identity: Identity) -> bool:
        """Start over if the identity is current; the next heartbeat would report the same."""
        if identity != self.identity:
            return False
        self._wake.set()
        return True

    async def run(self) -> None:
        """Join and stay a member; raises the error that makes membership impossible."""
        works = (self._beat(), self._reconcile_when_due(), self._match())
        tasks = [asyncio.create_task(work) for work in works]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            done.pop().result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def leave(self) -> None:
        """Leave; a static member keeps its place."""
        coordinator, is_in = self._host.coordinator, self._epoch > _JOIN
        request = ConsumerGroupHeartbeatRequest(
            group_id=coordinator.group_id,
            member_id=self._member_id,
            member_epoch=_LEAVE if self._settings.group_instance_id is None else _LEAVE_FOR_A_WHILE,
            instance_id=self._settings.group_instance_id,
        )
        self._epoch = _JOIN
        try:
            if is_in:
                await coordinator.request(request, ConsumerGroupHeartbeatResponse, timeout_ms=_LEAVE_TIMEOUT_MS)
        except (ClientError, ApiError, RemoteProtocolError) as error:
            _log.info("leaving group %s without telling its coordinator: %s", coordinator.group_id, error)
        finally:
            await self._host.cluster.close_lane(self)

    # --- heartbeats

    async def _beat(self) -> None:
        while True:
            self._wake.clear()
            try:
                await self._beat_once()
                self._failure_count = 0
            except (BrokerUnavailable, RequestTimeout) as error:
                await self._recover(error)
                continue
            except ApiError as error:
                if error.code in _OUT:
                    await self._start_over(error.code)
                elif error.code is ErrorCode.INVALID_REGULAR_EXPRESSION and not self._matches_here:
                    _log.info("the coordinator rejects the regular expression, so this client matches it: %s", error)
                    self._host.subscription.match_here()
                elif error.code.retriable:
                    await self._recover(error)
                else:
                    raise
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._next_wait_s()):
                    await self._wake.wait()

    def _next_wait_s(self) -> float:
        """Return the interval; shorter for a new member, because coordinators assign a moment after it has joined."""
        if self._target or not self._quick_beats_left:
            return self._interval_s
        self._quick_beats_left -= 1
        return min(self._interval_s, _QUICK_BEAT_S)

    async def _recover(self, error: Exception) -> None:
        """Wait a little, and send everything again, because the coordinator may not have got the last heartbeat."""
        _log.info("heartbeat to group %s: %s", self._host.coordinator.group_id, error)
        self._sent_owned, self._sent_subscription = None, None
        self._failure_count += 1
        await asyncio.sleep(self._host.cluster.backoff.wait_s(self._failure_count))

    async def _beat_once(self) -> None:
        coordinator = self._host.coordinator
        connection = await coordinator.connection(self)
        version = connection.version(ConsumerGroupHeartbeatRequest)
        if not self._member_id and version >= _OWN_ID_VERSION:
            self._member_id = str(uuid.uuid4())
        await self._prepare_names(version)
        said, owned = (self._host.subscription.number, self._names), set(self._settled)
        request = self._build(version, owned, is_new=said != self._sent_subscription)
        reply = await coordinator.request(request, ConsumerGroupHeartbeatResponse, lane=self)
        coordinator.check(reply.error_code, "staying in", reply.error_message)
        self._sent_subscription, self._sent_owned = said, owned  # the assignment may have changed in the meantime
        self._member_id = reply.member_id or self._member_id
        self._epoch = reply.member_epoch
        self._interval_s = reply.heartbeat_interval_ms / 1000
        if reply.assignment is not None:
            self._aim(reply.assignment.topic_partitions)

    def _build(self, version: int, owned: set[TopicPartition], *, is_new: bool) -> ConsumerGroupHeartbeatRequest:
        """Return a heartbeat with all changes; with everything after a failure."""
        is_full = self._epoch == _JOIN or self._sent_owned is None
        subscription = self._host.subscription
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._host.coordinator.group_id,
            member_id=self._member_id,
            member_epoch=self._epoch,
            instance_id=self._settings.group_instance_id,
        )
        if is_full:
            request.rack_id = self._settings.client_rack or None
            request.rebalance_timeout_ms = self._settings.max_poll_interval_ms
            request.server_assignor = self._settings.group_remote_assignor
        if is_full or owned != self._sent_owned:
            request.topic_partitions = self._by_topic_id(owned)
        if is_full or is_new:
            request.subscribed_topic_names = sorted(self._names if self._matches_here else subscription.names)
            if version >= _OWN_ID_VERSION:
                request.subscribed_topic_regex = subscription.broker_expression or ""
        return request

    def _by_topic_id(self, owned: set[TopicPartition]) -> list[ConsumerGroupHeartbeatRequestTopicPartitions]:
        ids = {name: topic.topic_id for name, topic in self._host.cluster.view.topics.items()}
        found: dict[uuid.UUID, list[int]] = {}
        for topic, partition in sorted(owned):
            if topic in ids:
                found.setdefault(ids[topic], []).append(partition)
        return [
            ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in found.items()
        ]

    async def _start_over(self, code: ErrorCode) -> None:
        """Lose all partitions, and join as a new member."""
        _log.warning("group %s excluded this member (%s); joining again", self._host.coordinator.group_id, code.name)
        self._epoch = _JOIN
        self._target = None
        self._quick_beats_left = _QUICK_BEAT_COUNT
        self._sent_owned = None
        await self._host.change(StepKind.LOSE, self._host.owned)
        self._settled = set()

    # --- what the member shall have

    def _aim(self, topics: list[ConsumerGroupHeartbeatResponseTopicPartitions]) -> None:
        self._target = {topic.topic_id: topic.partitions for topic in topics}
        self._target_changed.set()

    async def _reconcile_when_due(self) -> None:
        while True:
            await self._target_changed.wait()
            self._target_changed.clear()
            target = self._target
            if target is None:
                continue
            wanted, is_whole = await self._resolve(target)
            if revoked := self._host.owned - wanted:
                await self._host.change(StepKind.REVOKE, revoked)
            if self._target is None:
                continue  # the member has left the group in the meantime
            if (added := wanted - self._host.owned) and not await self._take(added):
                continue
            self._settled = set(self._host.owned)
            self._wake.set()
            if not is_whole:
                await asyncio.sleep(self._host.cluster.backoff.wait_s(1))
                self._target_changed.set()

    async def _take(self, added: set[TopicPartition]) -> bool:
        """Have the reader take partitions. Return False if the assignment changes before it does.

        The reader may take long. If a heartbeat has meanwhile said that this member does not own them, the coordinator
        may have given them to another member.
        """
        taking = asyncio.create_task(self._host.change(StepKind.ASSIGN, added))
        changing = asyncio.create_task(self._target_changed.wait())
        try:
            await asyncio.wait({taking, changing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            is_taken = taking.done()
            taking.cancel()
            changing.cancel()
            await asyncio.gather(taking, changing, return_exceptions=True)
        return is_taken

    async def _resolve(self, target: dict[uuid.UUID, list[int]]) -> tuple[set[TopicPartition], bool]:
        """Return the partitions by name, and whether all names are known."""
        cluster = self._host.cluster
        names = {topic.topic_id: name for name, topic in cluster.view.topics.items()}
        if not target.keys() <= names.keys():
            try:
                view = await cluster.refresh(self._host.subscription.names or None)
                names = {topic.topic_id: name for name, topic in view.topics.items()}
            except (ClientError, ApiError, RemoteProtocolError) as error:
                _log.info("finding the topics of group %s: %s", self._host.coordinator.group_id, error)
        found = {
            TopicPartition(names[topic_id], partition)
            for topic_id, partitions in target.items()
            if topic_id in names
            for partition in partitions
        }
        return found, target.keys() <= names.keys()

    # --- patterns that the coordinator does not match

    @property
    def _matches_here(self) -> bool:
        subscription = self._host.subscription
        return subscription.pattern is not None and subscription.broker_expression is None

    async def _prepare_names(self, version: int) -> None:
        """Match the pattern of a new subscription, if the client has to."""
        subscription = self._host.subscription
        if subscription.broker_expression is not None and version < _OWN_ID_VERSION:
            subscription.match_here()
        number = subscription.number
        if self._matches_here and self._named != number:
            self._names = await subscription.find_names(self._host.cluster)
            self._named = number

    async def _match(self) -> None:
        """Search for topics that match the pattern from time to time."""
        while True:
            await asyncio.sleep(self._settings.metadata_max_age_ms / 1000)
            if not self._matches_here:
                continue
            try:
                names = await self._host.subscription.find_names(self._host.cluster)
            except (ClientError, ApiError, RemoteProtocolError) as error:
                _log.info("finding the topics of group %s: %s", self._host.coordinator.group_id, error)
                continue
            if names != self._names:
                self._names = names
                self._wake.set()

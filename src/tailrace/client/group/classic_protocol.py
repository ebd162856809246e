"""Membership in a classic group, in which one member, the leader, assigns the partitions.

A member joins, and the coordinator answers when all members have joined, which begins a generation. The
leader sends all assignments with SyncGroup, each member gets its own in the reply, and heartbeats follow
until one of them reports the next rebalance.

Eager members give up all partitions before they join. Cooperative members keep theirs, give up those that
the new assignment lacks, and join once more so that other members can have them (KIP-429).
"""

import asyncio
import logging
from collections.abc import Mapping

from tailrace.client.error import BrokerUnavailable, ClientError, RequestTimeout
from tailrace.client.group.classic_message import Lead, build_join, build_leave, build_sync
from tailrace.client.group.member import Host, StepKind
from tailrace.client.group.offset import Identity
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.consumer_protocol import decode_assignment
from tailrace.protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from tailrace.protocol.messages.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupResponse,
)
from tailrace.protocol.messages.group_admin import DescribeGroupsRequest, DescribeGroupsResponse

_log = logging.getLogger(__name__)

_OUT = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})
_JOIN_MARGIN_MS = 5_000  # the coordinator answers when the slowest member has joined, or a little later
_LEAVE_TIMEOUT_MS = 5_000
_MISSING_TOPIC_AGE_S = 1.0


class ClassicMember:
    """One member. Its main task joins when that is due, a second sends heartbeats, a third watches topics."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._settings = host.settings
        self._assignors = host.settings.assignors
        self._is_cooperative = all(assignor.is_cooperative for assignor in self._assignors)
        self._identity = Identity(group_instance_id=host.settings.group_instance_id)
        self._is_due = asyncio.Event()
        self._is_joining = True
        self._is_lost = False
        self._previous: list[TopicPartition] = []
        self._topics: list[str] = []
        self._counts: dict[str, int] | None = None  # what the leader assigned; None for other members

    @property
    def identity(self) -> Identity:
        """The identity for commits at the moment."""
        return self._identity

    def on_subscription(self) -> None:
        """Join with the new subscription."""
        self._is_due.set()

    def on_fenced(self, identity: Identity) -> bool:
        """Join again if the identity is current; the next heartbeat would report the same."""
        if self._is_joining or identity != self._identity:
            return False
        self._lose()
        return True

    async def run(self) -> None:
        """Join and stay a member; raises the error that makes membership impossible."""
        tasks = [asyncio.create_task(work) for work in (self._join_when_due(), self._beat(), self._watch_topics())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            done.pop().result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def leave(self) -> None:
        """Leave, unless the member is static and keeps its place."""
        identity, self._identity = self._identity, Identity(group_instance_id=self._identity.group_instance_id)
        coordinator = self._host.coordinator
        try:
            if identity.member_id and identity.group_instance_id is None:
                version = (await coordinator.connection()).version(LeaveGroupRequest)
                request = build_leave(coordinator.group_id, identity, version)
                await coordinator.request(request, LeaveGroupResponse, timeout_ms=_LEAVE_TIMEOUT_MS)
        except (ClientError, ApiError, RemoteProtocolError) as error:
            _log.info("leaving group %s without telling its coordinator: %s", coordinator.group_id, error)
        finally:
            await self._host.cluster.close_lane(self)

    # --- joining

    async def _join_when_due(self) -> None:
        while True:
            await self._let_go()
            self._is_joining = True
            self._is_due.clear()
            assigned = await self._join_until_done()
            self._is_joining = False
            await self._take(assigned)
            await self._is_due.wait()

    async def _let_go(self) -> None:
        """Give up partitions before joining: the lost ones, and all of an eager member."""
        owned = self._host.owned
        if self._is_lost:
            self._is_lost = False
            if owned:
                await self._host.change(StepKind.LOSE, owned)
        elif not self._is_cooperative:
            self._previous = sorted(owned) or self._previous
            if owned:
                await self._host.change(StepKind.REVOKE, owned)

    async def _take(self, assigned: set[TopicPartition]) -> None:
        """Take the steps from the current to the new assignment."""
        revoked = self._host.owned - assigned
        if revoked:
            await self._host.change(StepKind.REVOKE, revoked)
            self._is_due.set()  # other members wait for these
        if added := assigned - self._host.owned:
            await self._host.change(StepKind.ASSIGN, added)

    async def _join_until_done(self) -> set[TopicPartition]:
        """Retry until there is an assignment; raises errors that are not retriable."""
        failure_count = 0
        while True:
            try:
                return await self._join_and_sync()
            except (BrokerUnavailable, RequestTimeout) as error:
                _log.info("joining group %s: %s", self._host.coordinator.group_id, error)
            except ApiError as error:
                if error.code is ErrorCode.MEMBER_ID_REQUIRED:
                    continue  # the member joins again at once, with its new id (KIP-394)
                if error.code in _OUT:
                    await self._start_over(error.code)
                elif error.code is not ErrorCode.REBALANCE_IN_PROGRESS and not error.code.retriable:
                    raise
            failure_count += 1
            await asyncio.sleep(self._host.cluster.backoff.wait_s(failure_count))

    async def _start_over(self, code: ErrorCode) -> None:
        self._forget_generation(code)
        if self._host.owned:
            await self._host.change(StepKind.LOSE, self._host.owned)

    async def _join_and_sync(self) -> set[TopicPartition]:
        host = self._host
        number = host.subscription.number
        self._topics = await host.subscription.find_names(host.cluster)
        request = build_join(
            self._settings, self._identity, self._assignors, self._topics, sorted(host.owned), self._previous
        )
        wait_ms = max(self._settings.request_timeout_ms, self._settings.max_poll_interval_ms + _JOIN_MARGIN_MS)
        joined = await host.coordinator.request(request, JoinGroupResponse, lane=self, timeout_ms=wait_ms)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._identity = Identity(joined.member_id, -1, self._identity.group_instance_id)
        host.coordinator.check(joined.error_code, "joining")
        self._identity = Identity(joined.member_id, joined.generation_id, self._identity.group_instance_id)
        assignments = await self._lead(joined)
        sync = build_sync(host.coordinator.group_id, self._identity, joined, assignments)
        synced = await host.coordinator.request(sync, SyncGroupResponse, lane=self, timeout_ms=wait_ms)
        host.coordinator.check(synced.error_code, "synchronizing with")
        if number != host.subscription.number:
            self._is_due.set()  # the user has changed the subscription in the meantime
        if joined.skip_assignment and self._counts is not None and not await self._is_all_assigned(self._counts):
            self._is_due.set()  # a leader that joins again assigns the partitions
        return {TopicPartition(*target) for target in decode_assignment(synced.assignment)}

    async def _lead(self, joined: JoinGroupResponse) -> dict[str, bytes]:
        """Assign the partitions, as the leader; a static leader that returned must not (KIP-814)."""
        self._counts = None
        if joined.leader != joined.member_id:
            return {}
        lead = Lead(joined, self._assignors)
        self._counts = await self._count(lead.topics)
        return {} if joined.skip_assignment else lead.assign(self._counts, self._host.cluster.view.racks(lead.topics))

    async def _count(self, topics: frozenset[str]) -> dict[str, int]:
        view = await self._host.cluster.refresh(topics)
        found = {name: view.topics[name] for name in topics if name in view.topics}
        return {name: len(found[name].partitions) if name in found else 0 for name in topics}

    async def _is_all_assigned(self, counts: Mapping[str, int]) -> bool:
        """Return whether the members have all partitions that a static leader finds on its return.

        Partitions may have been added while it was away. Kafka's leader takes them for assigned, and no member reads
        them until the next rebalance.
        """
        coordinator = self._host.coordinator
        request = DescribeGroupsRequest(groups=[coordinator.group_id])
        try:
            (group,) = (await coordinator.request(request, DescribeGroupsResponse, lane=self)).groups
            coordinator.check(group.error_code, "describing")
            assigned = {target for member in group.members for target in decode_assignment(member.member_assignment)}
        except (ClientError, ApiError, RemoteProtocolError) as error:
            _log.info("finding the assignment of group %s: %s", coordinator.group_id, error)
            return False
        return all((topic, index) in assigned for topic, count in counts.items() for index in range(count))

    # --- staying

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._settings.heartbeat_interval_ms / 1000)
            if self._is_joining or not self._identity.is_member:
                continue
            identity, coordinator = self._identity, self._host.coordinator
            request = HeartbeatRequest(
                group_id=coordinator.group_id,
                generation_id=identity.generation_id,
                member_id=identity.member_id,
                group_instance_id=identity.group_instance_id,
            )
            timeout_ms = min(self._settings.request_timeout_ms, self._settings.session_timeout_ms)
            try:
                reply = await coordinator.request(request, HeartbeatResponse, lane=self, timeout_ms=timeout_ms)
                if identity == self._identity:
                    self._obey(reply.error_code)
            except (BrokerUnavailable, RequestTimeout) as error:
                _log.info("heartbeat to group %s: %s", coordinator.group_id, error)
            except ApiError as error:
                if not error.code.retriable:
                    raise

    def _obey(self, error_code: int) -> None:
        if error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._is_due.set()
        elif error_code in _OUT:
            self._forget_generation(ErrorCode(error_code))
            self._lose()
        else:
            self._host.coordinator.check(error_code, "staying in")

    def _forget_generation(self, code: ErrorCode) -> None:
        _log.warning("group %s excluded this member (%s); joining again", self._host.coordinator.group_id, code.name)
        member_id = "" if code is ErrorCode.UNKNOWN_MEMBER_ID else self._identity.member_id
        self._identity = Identity(member_id, -1, self._identity.group_instance_id)

    def _lose(self) -> None:
        self._is_lost = True
        self._is_due.set()

    async def _watch_topics(self) -> None:
        """Join again if a pattern matches other topics, or if the leader sees other numbers of partitions."""
        max_age_s = self._settings.metadata_max_age_ms / 1000
        while True:
            is_missing = self._counts is not None and not all(self._counts.values())
            await asyncio.sleep(min(max_age_s, _MISSING_TOPIC_AGE_S) if is_missing else max_age_s)
            if self._is_joining:
                continue
            try:
                if self._host.subscription.pattern is not None:
                    names = await self._host.subscription.find_names(self._host.cluster)
                    if names != self._topics:
                        self._is_due.set()
                if self._counts is not None and await self._count(frozenset(self._counts)) != self._counts:
                    self._is_due.set()
            except (ClientError, ApiError, RemoteProtocolError) as error:
                _log.info("finding the topics of group %s: %s", self._host.coordinator.group_id, error)

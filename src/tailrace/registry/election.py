"""The election of the registry that writes: a classic group whose members are registries.

The members join with the protocol type `sr` and their addresses, as Confluent's registries do, so both can stand in one
group. The member that leads the group in Kafka's sense names the registry that leads: the one that already does, or the
one with the smallest URL.

Registries that share an address cannot be told apart, so they take no part, except one that leads already: the others
have reached it there. Confluent's registry refuses the whole group in this case. When a member of ours assigns, the
rest of a mixed group can go on all the same, because every member acts on its own assignment alone.

A registry that may not join, or that is refused, tries again for ever: an operator mends the cause elsewhere. It logs
the cause once, and tells it in its health and in the answers to writes.
"""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from tailrace.base.registry_address import RegistryAddress
from tailrace.client.cluster import Cluster
from tailrace.client.error import ClientError
from tailrace.client.group.coordinator import Coordinator
from tailrace.protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from tailrace.protocol.messages.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

_log = logging.getLogger(__name__)

PROTOCOL_TYPE = "sr"
PROTOCOL_NAME = "v0"
SESSION_TIMEOUT_MS = 10_000
HEARTBEATS_A_SESSION = 3
REBALANCE_TIMEOUT_MS = 300_000
_DUPLICATE_URLS = 1
_LEAVE_TIMEOUT_S = 2.0
_LEAVE_VERSION_MAX = 2  # later versions name several members, which one registry does not need


_NO_CANDIDATE = "no registry of the group may become the leader"

_PASSING = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.MEMBER_ID_REQUIRED,
    }
)
"""What a member hears that has to join again. Other errors that are not retriable last until their cause is mended."""

OnLeader = Callable[["Member | None", str | None], Awaitable[None]]


class ElectionError(Exception):
    """A group that cannot elect a leader until one of its members is changed."""


def _read_object(data: bytes) -> dict[str, Any]:
    try:
        members = json.loads(data)
    except ValueError as error:
        raise ElectionError(f"a member of the group is not a registry: it sent {data[:100]!r}") from error
    if not isinstance(members, dict):
        raise ElectionError(f"a member of the group is not a registry: it sent {data[:100]!r}")
    return members


@dataclass(frozen=True, slots=True)
class Member:
    """A registry, as the others reach it."""

    host: str
    port: int
    scheme: str = "http"
    can_lead: bool = True
    is_leader: bool = False

    @property
    def url(self) -> str:
        """The address of its REST API."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    def encode(self) -> bytes:
        """Return the member as it presents itself to the group."""
        return json.dumps(self._members()).encode()

    def _members(self) -> dict[str, Any]:
        return {
            "version": 1,
            "host": self.host,
            "port": self.port,
            "master_eligibility": self.can_lead,
            "scheme": self.scheme,
            "leader": self.is_leader,
        }

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Return the member that presented itself with some bytes."""
        return cls._read(_read_object(data))

    @classmethod
    def _read(cls, members: dict[str, Any]) -> Self:
        try:
            member = cls(
                host=members["host"],
                port=int(members["port"]),
                scheme=members.get("scheme", "http"),
                can_lead=bool(members.get("master_eligibility", True)),
                is_leader=bool(members.get("leader", False)),
            )
            RegistryAddress.of(member.url)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ElectionError(f"a member of the group is not a registry: {str(members)[:200]}") from error
        return member


def elect(members: Sequence[tuple[str, Member]]) -> dict[str, bytes]:
    """Return the assignment of each member, by its id: which of them leads, or that it shares its address."""
    leading = [member_id for member_id, member in members if member.can_lead and member.is_leader]
    current = leading[0] if len(leading) == 1 else None
    counts = Counter(member.url for _, member in members)
    refused = {member_id for member_id, member in members if counts[member.url] > 1 and member_id != current}
    able = [(member_id, member) for member_id, member in members if member.can_lead and member_id not in refused]
    chosen = min(able, key=lambda each: (each[0] != current, each[1].url), default=None)
    assignment: dict[str, Any] = {"version": 1, "error": 0}
    if chosen is not None:
        assignment |= {"master": chosen[0], "master_identity": chosen[1]._members()}
    # It names no leader: a registry of Confluent's compares addresses, and would present itself as the leader then.
    refusal = {"version": 1, "error": _DUPLICATE_URLS}
    return {member_id: json.dumps(refusal if member_id in refused else assignment).encode() for member_id, _ in members}


def elected(assignment: bytes) -> Member | None:
    """Return the registry that an assignment names as the leader, if it names one."""
    members = _read_object(assignment)
    if members.get("error") == _DUPLICATE_URLS:
        raise ElectionError("two registries of the group have the same address: give each its own with --advertise")
    identity = members.get("master_identity")
    return None if identity is None else Member._read(identity)


def _lasts(error: Exception) -> bool:
    """Return whether an error will not pass by itself."""
    if isinstance(error, ApiError):
        return not error.code.retriable and error.code not in _PASSING
    return not isinstance(error, ClientError | RemoteProtocolError | OSError)


class Election:
    """This registry's membership.

    `on_leader` is called with the leader after each election. Before one, and if there is none, it is called with None,
    and with the reason if there is one.
    """

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        member: Member,
        on_leader: OnLeader,
        *,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
    ) -> None:
        self._cluster = cluster
        self._coordinator = Coordinator(cluster, group_id)
        self._member = member
        self._on_leader = on_leader
        self._session_timeout_ms = session_timeout_ms
        self._member_id = ""
        self._generation_id = -1
        self._reported: str | None = None

    async def run(self) -> None:
        """Stay a member until cancelled, and then leave the group."""
        failure_count = 0
        try:
            while True:
                try:
                    await self._join()
                    failure_count = 0
                    await self._stay()
                except Exception as error:  # a bug too: without an election this registry would be useless
                    if isinstance(error, ApiError) and error.code is ErrorCode.MEMBER_ID_REQUIRED:
                        # The coordinator has given the member its id (KIP-394), and forgets it if it is not used soon.
                        continue
                    failure_count += 1
                    await self._on_error(error)
                    await asyncio.sleep(self._cluster.backoff.wait_s(failure_count))
        finally:
            await self._leave()

    async def _on_error(self, error: Exception) -> None:
        code = error.code if isinstance(error, ApiError) else None
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self._member_id = ""
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            await self._tell(None, None)
            return
        self._member = replace(self._member, is_leader=False)  # another registry may have led meanwhile
        if _lasts(error):
            self._report(str(error) or repr(error), error)
        else:
            _log.info("registry %s is out of group %s: %s", self._member.url, self._coordinator.group_id, error)
        await self._tell(None, str(error) or repr(error))

    def _report(self, problem: str, error: Exception | None = None) -> None:
        """Log a problem that lasts, once."""
        if problem == self._reported:
            return
        self._reported = problem
        is_bug = error is not None and not isinstance(error, ApiError | ElectionError)
        _log.error(
            "registry %s cannot take part in group %s, and will try again: %s",
            self._member.url,
            self._coordinator.group_id,
            problem,
            exc_info=error if is_bug else None,
        )

    async def _tell(self, leader: Member | None, problem: str | None) -> None:
        try:
            await self._on_leader(leader, problem)
        except Exception:
            _log.exception("the outcome of an election of group %s was not taken over", self._coordinator.group_id)

    async def _join(self) -> None:
        request = JoinGroupRequest(
            group_id=self._coordinator.group_id,
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self._member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=PROTOCOL_NAME, metadata=self._member.encode())],
        )
        joined = await self._coordinator.request(
            request, JoinGroupResponse, lane=self, timeout_ms=REBALANCE_TIMEOUT_MS + self._session_timeout_ms
        )
        self._member_id = joined.member_id or self._member_id
        self._coordinator.check(joined.error_code, "joining")
        self._generation_id = joined.generation_id
        assignments: list[SyncGroupRequestAssignment] = []
        if joined.leader == joined.member_id:
            chosen = elect(self._read_members(joined.members))
            assignments = [
                SyncGroupRequestAssignment(member_id=member_id, assignment=each) for member_id, each in chosen.items()
            ]
        sync = SyncGroupRequest(
            group_id=self._coordinator.group_id,
            generation_id=self._generation_id,
            member_id=self._member_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=PROTOCOL_NAME,
            assignments=assignments,
        )
        synced = await self._coordinator.request(sync, SyncGroupResponse, lane=self, timeout_ms=REBALANCE_TIMEOUT_MS)
        self._coordinator.check(synced.error_code, "synchronizing with")
        await self._take(synced.assignment)

    def _read_members(self, members: Sequence[JoinGroupResponseMember]) -> list[tuple[str, Member]]:
        """Return the members of the group, without those that cannot be understood; they get no assignment."""
        found: list[tuple[str, Member]] = []
        for each in members:
            try:
                found.append((each.member_id, Member.decode(each.metadata)))
            except ElectionError as error:
                _log.error("group %s goes on without member %s: %s", self._coordinator.group_id, each.member_id, error)
        return found

    async def _take(self, assignment: bytes) -> None:
        """Take over what was assigned.

        A member that is refused stays in the group: it hears of every change of the group, and only a change can mend
        that. If it joined again and again, the others would have to elect again each time.
        """
        leader, problem = None, None
        try:
            leader = elected(assignment)
            problem = _NO_CANDIDATE if leader is None else None
        except ElectionError as error:
            problem = str(error)
        self._member = replace(self._member, is_leader=leader is not None and leader.url == self._member.url)
        if problem is not None:
            self._report(problem)
        elif self._reported is not None:
            self._reported = None
            _log.info("registry %s takes part in group %s again", self._member.url, self._coordinator.group_id)
        await self._tell(leader, problem)

    async def _stay(self) -> None:
        """Send heartbeats; returns when the group has to elect again."""
        while True:
            await asyncio.sleep(self._session_timeout_ms / HEARTBEATS_A_SESSION / 1000)
            request = HeartbeatRequest(
                group_id=self._coordinator.group_id, generation_id=self._generation_id, member_id=self._member_id
            )
            reply = await self._coordinator.request(request, HeartbeatResponse, timeout_ms=self._session_timeout_ms)
            if reply.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
                return
            self._coordinator.check(reply.error_code, "heartbeat of")

    async def _leave(self) -> None:
        if not self._member_id:
            return
        request = LeaveGroupRequest(group_id=self._coordinator.group_id, member_id=self._member_id)
        try:
            async with asyncio.timeout(_LEAVE_TIMEOUT_S):
                await self._coordinator.request(request, LeaveGroupResponse, version_max=_LEAVE_VERSION_MAX)
        except (ClientError, ApiError, RemoteProtocolError, OSError) as error:
            _log.info("leaving group %s without telling its coordinator: %s", self._coordinator.group_id, error)

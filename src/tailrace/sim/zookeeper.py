"""The simulated metadata servers, as one host: sessions, their timeouts, and notifications.

A session lives as long as the servers hear from it within its timeout. A connection carries messages in order, in both
directions. When it breaks, messages in transit are lost, and the outcome of a commit may be unknown.
"""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from contextvars import Context
from typing import NamedTuple, Protocol

from tailrace.coordination.store import Change, CommitTooLargeError, Create, Node, Operation, Put
from tailrace.coordination.tree import Step, Tree
from tailrace.sim.loop import VirtualLoop
from tailrace.sim.network import Network

HOST = "zookeeper"
_COMMIT_BYTES_MAX = 1_000_000
_TICK_S = 0.25


class Channel:
    """One direction of a connection: messages arrive in order, or not at all."""

    def __init__(self, network: Network, source: str, target: str) -> None:
        self.is_open = True
        self._network = network
        self._ends = (source, target)
        self._sent_count = 0
        self._arrived_count = 0
        self._early: dict[int, Callable[[], None]] = {}

    def send(self, action: Callable[[], None], late_s: float = 0.0) -> None:
        """Run `action` at the other end, and all that is sent after it not before it."""
        number = self._sent_count
        self._sent_count += 1
        if late_s:
            loop = self._network.loop
            loop.call_at(loop.time() + late_s, lambda: self._carry(number, action), context=Context())
        else:
            self._carry(number, action)

    def _carry(self, number: int, action: Callable[[], None]) -> None:
        self._network.carry(*self._ends, lambda: self._arrive(number, action))

    def _arrive(self, number: int, action: Callable[[], None]) -> None:
        self._early[number] = action
        while self.is_open and self._arrived_count in self._early:
            self._arrived_count += 1
            self._early.pop(self._arrived_count - 1)()


class Peer(Protocol):
    """A client's end of a connection; called on the servers' side, it replies through a channel."""

    owner: str

    def connected(self, session_id: int, nodes: dict[str, Node]) -> None: ...

    def changed(self, changes: Sequence[Change]) -> None: ...

    def answered(self, number: int, error: Exception | None) -> None: ...

    def broken(self) -> None: ...


class _Trap(NamedTuple):
    """The path of a node whose next change is held when a client sends it, for so long."""

    path: str
    for_s: float
    caught: "asyncio.Future[None]"


class Session:
    """The servers' state of one client."""

    def __init__(self, session_id: int, heard_at_s: float) -> None:
        self.session_id = session_id
        self.heard_at_s = heard_at_s
        self.paths: set[str] = set()
        self.peer: Peer | None = None


class SimZookeeper:
    """All servers together. They keep their state in memory and never lose it."""

    def __init__(self, loop: VirtualLoop, session_timeout_ms: int) -> None:
        self.session_timeout_ms = session_timeout_ms
        self.tree = Tree()
        self.network = loop.network
        self.breaks_after_commit = False
        self.on_commit: Callable[[Sequence[Change]], None] | None = None
        self._loop = loop
        self._sessions: dict[int, Session] = {}
        self._ids = itertools.count(1)
        self._trap: _Trap | None = None
        self._is_stalled = False
        self._held: list[Callable[[], None]] = []
        self._newest: dict[str, int] = {}  # the latest session of a program
        self._silent: set[int] = set()  # sessions that expired
        loop.call_soon_world(self._tick)

    def has_fallen_silent(self, owner: str) -> bool:
        """Return whether a program's session has expired, so that other brokers may lead in its place."""
        return self._newest.get(owner) in self._silent

    @property
    def session_ids(self) -> list[int]:
        return list(self._sessions)

    # --- requests of clients

    def receive(self, action: Callable[[], None]) -> None:
        """Handle a message, or keep it while the servers are stalled."""
        if self._is_stalled:
            self._held.append(action)
        else:
            action()

    def connect(self, session_id: int | None, peer: Peer) -> None:
        """Resume a session if it still exists; otherwise start another."""
        session = self._sessions.get(session_id or 0)
        if session is None:
            session = Session(next(self._ids), self._loop.time())
            self._sessions[session.session_id] = session
            self._newest[peer.owner] = session.session_id
        session.peer = peer
        session.heard_at_s = self._loop.time()
        peer.connected(session.session_id, dict(self.tree.nodes))

    def ping(self, session_id: int, peer: Peer, number: int) -> None:
        """Handle a ping of a client."""
        if self._hear(session_id, peer) is not None:
            peer.answered(number, None)

    def commit(self, session_id: int, peer: Peer, number: int, operations: Sequence[Operation]) -> None:
        """Apply all operations or none, notify all clients, then reply."""
        session = self._hear(session_id, peer)
        if session is None:
            return
        try:
            if sum(len(each.path) + len(getattr(each, "value", b"")) for each in operations) > _COMMIT_BYTES_MAX:
                raise CommitTooLargeError(f"the commit of {len(operations)} operations is too large")
            steps = self.tree.decide(operations)
        except Exception as error:  # errors of the tree are sent to the client
            peer.answered(number, error)
            return
        session.paths |= {each.path for each in operations if isinstance(each, Create) and each.is_ephemeral}
        self._replay(steps)
        if self.breaks_after_commit:
            self.breaks_after_commit = False
            self.break_connection(session_id)
        else:
            peer.answered(number, None)

    def commit_as_world(self, operations: Sequence[Operation]) -> None:
        """Apply operations that belong to no session, as if a client had sent them."""
        self._replay(self.tree.decide(operations))

    def close(self, session_id: int, peer: Peer, number: int) -> None:
        """End a session at the request of its client."""
        if self._hear(session_id, peer) is not None:
            self._end(self._sessions[session_id])
            peer.answered(number, None)

    def _hear(self, session_id: int, peer: Peer) -> Session | None:
        session = self._sessions.get(session_id)
        if session is None or session.peer is not peer:
            peer.broken()  # it has another connection, or its session has ended
            return None
        session.heard_at_s = self._loop.time()
        return session

    # --- failures

    def stall(self) -> None:
        """Stop replying, as during an election of the servers' leader."""
        self._is_stalled = True

    def hold_next(self, path: str, for_s: float) -> "asyncio.Future[None]":
        """Hold the next commit that changes a node, with all that its client sends after it.

        The result is done when the client has sent it.
        """
        self._trap = _Trap(path, for_s, self._loop.create_future())
        return self._trap.caught

    def catch(self, operations: Sequence[Operation]) -> float:
        """Return for how many seconds to hold a commit, because it is the one to be held; else 0."""
        trap = self._trap
        if trap is None or not any(isinstance(each, Put) and each.path == trap.path for each in operations):
            return 0.0
        self._trap = None
        if not trap.caught.done():
            trap.caught.set_result(None)
        return trap.for_s

    def resume(self) -> None:
        """Handle the waiting messages. Sessions get their full timeout again, as from a new leader."""
        self._is_stalled = False
        for session in self._sessions.values():
            session.heard_at_s = self._loop.time()
        held, self._held = self._held, []
        for action in held:
            action()

    def expire(self, session_id: int) -> None:
        """End a session although its client may be alive."""
        session = self._sessions[session_id]
        self._end(session)
        if session.peer is not None:
            session.peer.broken()

    def break_connection(self, session_id: int) -> None:
        """Break a connection and lose its messages in transit; the session continues."""
        session = self._sessions[session_id]
        peer, session.peer = session.peer, None
        if peer is not None:
            peer.broken()

    # --- internals

    def _tick(self) -> None:
        if not self._is_stalled:
            oldest_s = self._loop.time() - self.session_timeout_ms / 1000
            for session in [each for each in self._sessions.values() if each.heard_at_s < oldest_s]:
                self._silent.add(session.session_id)
                self._end(session)
        self._loop.call_later(_TICK_S, self._tick)

    def _end(self, session: Session) -> None:
        del self._sessions[session.session_id]
        gone = sorted(session.paths & self.tree.ephemeral)
        self._replay([Step(Change(path, None), True) for path in gone])

    def _replay(self, steps: Sequence[Step]) -> None:
        self.tree.replay(steps)
        changes = [step.change for step in steps]
        if not changes:
            return
        if self.on_commit is not None:
            self.on_commit(changes)
        for session in self._sessions.values():
            if session.peer is not None:
                session.peer.changed(changes)

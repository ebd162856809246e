"""A follower's side of incremental fetch sessions (KIP-227): a request names only partitions that changed.

So the cost of a request grows with the number of changes and not with the number of partitions.
"""

from collections.abc import Hashable, Mapping
from typing import Generic, NamedTuple, TypeVar

NO_SESSION = 0
FIRST_EPOCH = 0
_EPOCH_MAX = 2**31 - 1

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SessionRequest(NamedTuple, Generic[K, V]):
    """The content of the next request."""

    session_id: int
    epoch: int
    named: Mapping[K, V]
    forgotten: list[K]


class FollowerSession(Generic[K, V]):
    """The partitions that a follower fetches from a leader, and which of them the leader knows."""

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = FIRST_EPOCH
        self._wanted: dict[K, V] = {}
        # Changes that the leader does not know yet.
        self._named: dict[K, V] = {}
        self._forgotten: dict[K, None] = {}

    def __len__(self) -> int:
        return len(self._wanted)

    def want(self, key: K, value: V) -> None:
        """Fetch a partition from the next request on, or fetch it from another position."""
        if self._wanted.get(key) != value:
            self._wanted[key] = self._named[key] = value
            self._forgotten.pop(key, None)

    def drop(self, key: K) -> None:
        """Fetch a partition no longer."""
        if key in self._wanted:
            del self._wanted[key]
            self._named.pop(key, None)
            self._forgotten[key] = None

    def ask(self) -> SessionRequest[K, V]:
        """Build the next request: all partitions in the first request of a session, then only changes."""
        is_first = self._epoch == FIRST_EPOCH
        named = dict(self._wanted) if is_first else self._named
        forgotten = [] if is_first else list(self._forgotten)
        self._named, self._forgotten = {}, {}
        return SessionRequest(self._id, self._epoch, named, forgotten)

    def answered(self, session_id: int) -> None:
        """Note that the leader answered without an error; it may have had no room for a session."""
        if session_id == NO_SESSION:
            self.reset()
            return
        self._id = session_id
        self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1

    def reset(self) -> None:
        """Start a new session, because the leader does not know this one or its state is uncertain."""
        self._id, self._epoch = NO_SESSION, FIRST_EPOCH
        self._named, self._forgotten = {}, {}

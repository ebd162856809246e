"""A follower's side of incremental fetch sessions (KIP-227): it names only what changed since its last request."""

from collections.abc import Hashable, Mapping
from typing import Generic, NamedTuple, TypeVar

NO_SESSION = 0
FIRST_EPOCH = 0
_EPOCH_MAX = 2**31 - 1

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SessionRequest(NamedTuple, Generic[K, V]):
    """What the next request says."""

    session_id: int
    epoch: int
    named: Mapping[K, V]
    forgotten: list[K]


class FollowerSession(Generic[K, V]):
    """What a leader knows of the partitions that it is asked for."""

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = FIRST_EPOCH
        self._known: dict[K, V] = {}

    def ask(self, wanted: Mapping[K, V]) -> SessionRequest[K, V]:
        """The request by which the leader comes to know that `wanted` is wanted, and nothing else."""
        if self._epoch == FIRST_EPOCH:
            named, forgotten = dict(wanted), []
        else:
            named = {key: value for key, value in wanted.items() if self._known.get(key) != value}
            forgotten = [key for key in self._known if key not in wanted]
        self._known = dict(wanted)
        return SessionRequest(self._id, self._epoch, named, forgotten)

    def answered(self, session_id: int) -> None:
        """The leader has answered without an error; it may have had no room for a session."""
        if session_id == NO_SESSION:
            self.reset()
            return
        self._id = session_id
        self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1

    def reset(self) -> None:
        """Begin another session: the leader does not know this one, or nobody knows what it knows."""
        self._id, self._epoch = NO_SESSION, FIRST_EPOCH
        self._known = {}

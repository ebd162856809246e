"""What the machine of a coordinator decides, as a value that the shell carries out.

The order matters. The timers are set at once. The records are appended as one atomic batch and, in the
same step, replayed in order. The replies go out when everything that was appended so far is committed
(the high watermark has passed it), also those of a decision without records. If the append fails, nothing is
replayed and none of the replies goes out: `failed(error)` says what happens instead and, where there is
none, each token is answered with the error itself.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Self, TypeVar

from runnel.protocol.errors import ErrorCode
from runnel.protocol.message import Message

Token = object
"""A request that waits for its reply; the machine only hands it back."""

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a waiting request."""

    token: Token
    response: Message


@dataclass(frozen=True, slots=True)
class Timer:
    """Call `on_timer` with this key at this time, in place of an earlier one; None takes it back."""

    key: tuple[str, ...]
    at_ms: int | None


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """A producer, at one of its epochs."""

    producer_id: int
    producer_epoch: int


@dataclass(slots=True)
class Decision(Generic[R]):
    """Records to write, replies to send once they are committed, timers to set.

    Records that are not atomic may be written as several batches, of which a crash keeps some. With a producer they
    are written in its transaction.
    """

    records: list[R] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    timers: list[Timer] = field(default_factory=list)
    is_atomic: bool = True
    producer: ProducerIdentity | None = None
    failed: Callable[[ErrorCode], Self] | None = None

    def reply(self, token: Token, response: Message) -> Self:
        """Add a reply; returns itself, so that a decision which is only a reply is one expression."""
        self.replies.append(Reply(token, response))
        return self

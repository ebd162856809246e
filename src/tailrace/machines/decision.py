"""The decision of a coordinator's machine, as a value that the shell carries out.

The order matters. The timers are set at once. The records are appended as one atomic batch and, in the
same step, replayed in order. The replies are sent when everything appended so far is below the high
watermark, including the replies of a decision without records. If the append fails, nothing is replayed
and none of the replies is sent: `failed(error)` returns what happens instead and, if it is None, each
token is answered with the error itself.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Self, TypeVar

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.message import Message

Token = object
"""A request that waits for its reply; the machine only passes it back."""

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply to a waiting request."""

    token: Token
    response: Message


@dataclass(frozen=True, slots=True)
class Timer:
    """Call `on_timer` with this key at this time, replacing an earlier timer; None cancels it."""

    key: tuple[str, ...]
    at_ms: int | None


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """A producer id and epoch."""

    producer_id: int
    producer_epoch: int


@dataclass(slots=True)
class Decision(Generic[R]):
    """Records to write, replies to send once they are replicated, timers to set.

    Records that are not atomic may be written as several batches, of which a crash may keep some. With a producer,
    they are written in its transaction.
    """

    records: list[R] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    timers: list[Timer] = field(default_factory=list)
    is_atomic: bool = True
    producer: ProducerIdentity | None = None
    failed: Callable[[ErrorCode], Self] | None = None

    def reply(self, token: Token, response: Message) -> Self:
        """Add a reply and return the decision, so that a decision with only a reply is one expression."""
        self.replies.append(Reply(token, response))
        return self

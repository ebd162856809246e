"""Waits at one partition: of consumers for readable records, of followers for appends, of requests for an offset."""

from typing import Protocol

from tailrace.protocol.errors import ErrorCode
from tailrace.runtime.offset_wait import OffsetReached, OffsetWaits


class AppendWaiter(Protocol):
    """A fetch or a session that waits for records."""

    def appended(self, size_bytes: int) -> None:
        """Count bytes that were appended."""
        ...

    def disturbed(self) -> None:
        """Stop waiting, because of something other than an append."""
        ...


class Waiters:
    """The waits of one partition, each kind woken in the order in which it came."""

    __slots__ = ("_high_watermark", "followers", "readers")

    def __init__(self) -> None:
        self.readers: dict[AppendWaiter, None] = {}
        self.followers: dict[AppendWaiter, None] = {}
        self._high_watermark: OffsetWaits | None = None  # made when a request first has to wait

    def add(self, waiter: AppendWaiter, *, for_end: bool = False) -> None:
        """Wake `waiter` when the high watermark advances, or with `for_end` at each append, as followers need it."""
        (self.followers if for_end else self.readers)[waiter] = None

    def remove(self, waiter: AppendWaiter) -> None:
        self.readers.pop(waiter, None)
        self.followers.pop(waiter, None)

    def add_high_watermark(self, offset: int) -> OffsetReached:
        """Wait until the high watermark reaches `offset`."""
        if self._high_watermark is None:
            self._high_watermark = OffsetWaits()
        return self._high_watermark.add(offset)

    def appended(self, size_bytes: int) -> None:
        """Wake the followers: the log has grown by so many bytes."""
        for waiter in tuple(self.followers):
            waiter.appended(size_bytes)

    def readable(self, size_bytes: int) -> None:
        """Wake the readers: the high watermark or the log start has moved, past about so many bytes."""
        for waiter in tuple(self.readers):
            waiter.appended(size_bytes)

    def reach(self, high_watermark: int) -> None:
        """Wake the requests that wait for this high watermark or a lower one."""
        if self._high_watermark is not None:
            self._high_watermark.reach(high_watermark)

    def fail(self, code: ErrorCode) -> None:
        """Fail the requests that wait for the high watermark, because it may never reach their offsets."""
        if self._high_watermark is not None:
            self._high_watermark.fail(code)

    def disturb_followers(self) -> None:
        """Wake the fetches of followers, so that they look at the partition again."""
        for waiter in tuple(self.followers):
            waiter.disturbed()

    def disturb(self) -> None:
        """Wake the fetches of readers and followers, so that they look at the partition again."""
        for waiter in (*self.readers, *self.followers):
            waiter.disturbed()

"""Whether the client at the other end of a connection is still there, learned without reading from it."""

import asyncio
import select
import sys
import termios
from collections.abc import Callable, Iterable
from enum import Enum, auto
from fcntl import ioctl

_CLOSED_ITS_SIDE = getattr(select, "POLLRDHUP", 0)  # Linux alone tells it without reading
_LOST = select.POLLERR | select.POLLHUP
_COUNT_BYTES = 4

PEER_STATE = "peer_state"
"""The extra information of a transport without a socket: a function that returns the `PeerState`."""


class PeerState(Enum):
    """What is known about a client without reading what it has sent."""

    PRESENT = auto()
    ENDED = auto()
    """It sends nothing more, and something that it sent before is unread."""
    FINISHED = auto()
    """It sends nothing more, and nothing is unread."""
    GONE = auto()
    """The connection is lost."""


def peer_state(transport: asyncio.BaseTransport) -> PeerState:
    """Look at the other end of a connection that is open at this end."""
    look: Callable[[], PeerState] | None = transport.get_extra_info(PEER_STATE)
    if look is not None:
        return look()
    descriptor = transport.get_extra_info("socket").fileno()
    return find_absent([descriptor]).get(descriptor, PeerState.PRESENT)


def find_absent(descriptors: Iterable[int]) -> dict[int, PeerState]:
    """Look at many sockets at once, and return those whose clients are not present."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, _CLOSED_ITS_SIDE)
    return {descriptor: _state(descriptor, events) for descriptor, events in poll.poll(0)}


def _state(descriptor: int, events: int) -> PeerState:
    if events & _LOST:
        return PeerState.GONE
    unread_bytes = int.from_bytes(ioctl(descriptor, termios.FIONREAD, bytes(_COUNT_BYTES)), sys.byteorder)
    return PeerState.ENDED if unread_bytes else PeerState.FINISHED

"""Ports of loopback for servers that bind them later, and again after each restart."""

import atexit
import socket
import sys

_held: list[socket.socket] = []


def free_port(highest: int = 65_535) -> int:
    """Return a port that the system gives to no other socket until this process ends.

    A port that was only found free is soon somebody else's: a connection's, or another test's. This one stays bound,
    to a socket that does not listen, so clients are refused as at any unused port. Linux lets a server bind it all the
    same, since servers set SO_REUSEADDR, as this socket does.
    """
    while True:
        found = socket.socket()
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        if sys.platform == "linux" and port <= highest:
            _held.append(found)
        else:
            found.close()
        if port <= highest:
            return port


def free_ports(count: int) -> list[int]:
    """Return as many ports."""
    return [free_port() for _ in range(count)]


@atexit.register
def _release() -> None:
    for found in _held:
        found.close()

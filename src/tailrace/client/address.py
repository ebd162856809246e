"""Broker addresses in text: `host:port,host:port`."""

from typing import NamedTuple

DEFAULT_PORT = 9092
_PORT_MAX = 65535


class Address(NamedTuple):
    """The host and port of a broker."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_addresses(text: str) -> tuple[Address, ...]:
    """Parse a comma-separated list; raises ValueError for an address that is not HOST:PORT, HOST or [IPv6]:PORT."""
    addresses = tuple(_parse_address(item.strip()) for item in text.split(",") if item.strip())
    if not addresses:
        raise ValueError(f"no address in {text!r}")
    return addresses


def _parse_address(text: str) -> Address:
    if "://" in text:
        raise ValueError(f"{text!r} is a URL: write HOST:PORT, without the part up to ://")
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError(f"{text!r} is not [IPv6]:PORT")
        colon, port = rest[:1], rest[1:]
    else:
        host, colon, port = text.partition(":")
        if ":" in port:
            raise ValueError(f"{text!r}: an IPv6 address needs brackets, as in [::1]:9092")
    if not host:
        raise ValueError(f"{text!r} has no host")
    if not colon:
        return Address(host, DEFAULT_PORT)
    if not (port.isascii() and port.isdigit() and 0 < int(port) <= _PORT_MAX):
        raise ValueError(f"{text!r}: {port!r} is not a port")
    return Address(host, int(port))

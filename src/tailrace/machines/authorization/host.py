"""The canonical form of the address that a client connects from."""

from functools import lru_cache
from ipaddress import IPv6Address, ip_address

from tailrace.base.limits import CANONICAL_HOSTS_MAX


@lru_cache(maxsize=CANONICAL_HOSTS_MAX)
def canonical_host(host: str) -> str:
    """Return one spelling for all spellings of an address; any other text is returned unchanged.

    Kafka compares the text of an ACL's host with Java's spelling of the client's address, so in Kafka an ACL for `::1`
    never applies, and one for `0:0:0:0:0:0:0:1` does. Here both apply. As in Java, an IPv4 address that was mapped to
    IPv6 counts as the IPv4 address: a listener on both families sees IPv4 clients in that form.
    """
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)


def is_address(host: str) -> bool:
    """Whether the text is an IPv4 or IPv6 address."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True

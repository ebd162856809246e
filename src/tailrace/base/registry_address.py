"""Where a schema registry listens, from its URL."""

import re
from typing import NamedTuple
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}
_USER = re.compile(r"[^/]*//[^/?#]*@")


class RegistryAddress(NamedTuple):
    """The parts of a URL that a client needs. `path` is in front of every path, without a slash at its end."""

    url: str
    is_tls: bool
    authority: str
    host: str
    port: int
    path: str

    @classmethod
    def of(cls, url: str) -> "RegistryAddress":
        """Parse a URL. Raise `ValueError` if it is not one of a registry; the message never has a password."""
        if user := _USER.match(url):
            raise ValueError(f"the URL of {url[user.end() :]!r} contains a user; pass it as user and password")
        try:
            parts = urlsplit(url)
            scheme, host, port = parts.scheme, parts.hostname, parts.port
        except ValueError:
            raise ValueError(f"{url!r} is not a valid URL") from None
        if scheme not in _PORTS or not host:
            raise ValueError(f"{url!r} is not the URL of a registry, such as http://localhost:8081")
        if port == 0:
            raise ValueError(f"{url!r} has the port 0")
        return cls(url, scheme == "https", parts.netloc, host, port or _PORTS[scheme], parts.path.rstrip("/"))

"""The door of a service, as its options choose it."""

import ipaddress
import logging
from collections.abc import Mapping

from tailrace.web.audit import ServiceAudit
from tailrace.web.auth import Users
from tailrace.web.cluster_door import ClusterDoor
from tailrace.web.door import Door, FileDoor

_log = logging.getLogger(__name__)


def make_door(users: Users | None, client: Mapping[str, str] | None, service: str) -> Door:
    """Return the door for users of a file, for users of the cluster that `client` connects to, or for every caller.

    Raises `ConfigError` if the client's configs do not let callers log in.
    """
    if client is not None:
        return ClusterDoor(client, ServiceAudit(service))
    return Door() if users is None else FileDoor(users, ServiceAudit(service))


def warn_of_exposure(door: Door, host: str, scheme: str) -> None:
    """Log a warning if other machines can reach a service without a login, or read the passwords of its callers."""
    if _is_loopback(host):
        return
    if not door.schemes:
        _log.warning("every client that can reach %s may do everything: use --users or --cluster-users", host)
    elif scheme == "http":
        _log.warning("callers send their passwords to %s without encryption: use --certificate and --key", host)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

"""Broker options of quotas and of the rate of new connections."""

from ipaddress import ip_address

from tailrace.base.sentinel import INT32_MAX
from tailrace.config.check import Check, at_least
from tailrace.config.declaration import integer, string_list
from tailrace.config.option import Importance, UpdateMode


def parse_ip_override(item: str) -> tuple[str, int] | None:
    """Return the address and the limit of an item ADDRESS:COUNT; None if it is not one."""
    address, _, count = item.rpartition(":")
    try:
        ip_address(address.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None
    is_count = count.isascii() and count.isdigit() and int(count) <= INT32_MAX
    return (address.removeprefix("[").removesuffix("]"), int(count)) if is_count else None


_IP_OVERRIDES: Check[tuple[str, ...]] = Check(
    "a list of ADDRESS:COUNT", lambda value: all(parse_ip_override(item) is not None for item in value)
)


class QuotaOptions:
    """The options of quotas and of the rate of new connections."""

    quota_window_size_seconds = integer(
        "quota.window.size.seconds",
        1,
        "Time for which a client that was idle may save up its quotas of bytes, request time and new connections. It "
        "is also the longest pause because of request time.",
        check=at_least(1),
        importance=Importance.LOW,
    )
    controller_quota_window_num = integer(
        "controller.quota.window.num",
        11,
        "A client that was idle may save up its quota of controller mutations for this many times "
        "`controller.quota.window.size.seconds`.",
        check=at_least(1),
        importance=Importance.LOW,
    )
    controller_quota_window_size_seconds = integer(
        "controller.quota.window.size.seconds",
        1,
        "Unit of time of `controller.quota.window.num`.",
        check=at_least(1),
        importance=Importance.LOW,
    )
    max_connection_creation_rate = integer(
        "max.connection.creation.rate",
        INT32_MAX,
        "New connections per second. Further ones have to wait, and those for which there is no room in the queue of "
        "`socket.listen.backlog.size` are closed. Connections of other brokers are not counted if they have a listener "
        "of their own. With the prefix `listener.name.NAME.` it limits one listener.",
        check=at_least(0),
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    max_connections_per_ip_overrides = string_list(
        "max.connections.per.ip.overrides",
        (),
        "Addresses with another limit than `max.connections.per.ip`, as ADDRESS:COUNT.",
        check=_IP_OVERRIDES,
        update_mode=UpdateMode.CLUSTER_WIDE,
    )

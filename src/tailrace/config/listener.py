"""Listeners: the addresses on which a broker listens, and those that clients connect to."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tailrace.config.error import ConfigError

KAFKA_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
WILDCARD_HOSTS = ("", "0.0.0.0", "::")  # noqa: S104 - recognised, never bound by itself

_LISTENER = re.compile(
    r"(?P<name>[A-Za-z0-9_.-]+)://(?:\[(?P<ipv6>[^\[\]]+)\]|(?P<host>[A-Za-z0-9._-]*)):(?P<port>[0-9]{1,5})"
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A named address; an empty host means every interface, port 0 means any free port."""

    name: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"

    @property
    def wildcard(self) -> bool:
        """Whether the host means every interface, so that clients cannot connect to it."""
        return self.host in WILDCARD_HOSTS

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the address; of all names that is certain for `localhost` alone."""
        import ipaddress  # only few listeners need it, and a start should be quick

        if self.host.lower() == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class ListenerSetup:
    """The listeners of a broker, from its options."""

    opened: tuple[Endpoint, ...]
    controller: tuple[Endpoint, ...]
    advertised: Mapping[str, Endpoint]

    def advertise(self, name: str, bound_port: int, default_host: str) -> Endpoint:
        """Return the address for clients of an open listener, with its port and host filled in."""
        listener = self.advertised[name]
        host = default_host if listener.wildcard else listener.host
        return replace(listener, host=host, port=listener.port or bound_port)


def resolve_listeners(
    listeners: Sequence[str],
    advertised: Sequence[str] | None,
    protocol_map: str,
    controller_names: Sequence[str],
    inter_broker_name: str | None,
) -> ListenerSetup:
    """Parse the five options of listeners; raise `ConfigError` for the first error."""
    controllers = {name.upper() for name in controller_names}
    protocols = dict.fromkeys(controllers, "PLAINTEXT") | parse_protocol_map(
        "listener.security.protocol.map", protocol_map
    )
    parsed = parse_listeners("listeners", listeners, protocols)
    opened = tuple(listener for listener in parsed if listener.name not in controllers)
    if not opened:
        raise ConfigError("listeners", "listeners: all are controller listeners, none is left for clients")
    names = [listener.name for listener in opened]
    if inter_broker_name is not None:
        _check_inter_broker(inter_broker_name, opened)
    check_addresses("listeners", opened)
    told = {listener.name: listener for listener in opened}
    for listener in parse_listeners("advertised.listeners", advertised or (), protocols):
        if listener.name not in controllers:
            told[listener.name] = _check_advertised(listener, names)
    return ListenerSetup(opened, tuple(listener for listener in parsed if listener.name in controllers), told)


def parse_listeners(option: str, items: Sequence[str], protocols: Mapping[str, str]) -> tuple[Endpoint, ...]:
    """Parse the listeners of an option; `protocols` maps listener names to security protocols."""
    listeners = tuple(_parse_listener(option, item, protocols) for item in items)
    names = [listener.name for listener in listeners]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(option, f"{option}: listener name {name} is used more than once")
    return listeners


def check_addresses(option: str, listeners: Iterable[Endpoint]) -> None:
    """Raise if two listeners have the same address."""
    seen: dict[tuple[str, int], Endpoint] = {}
    for listener in listeners:
        other = seen.setdefault((listener.host, listener.port), listener)
        if other is not listener and listener.port != 0:
            raise ConfigError(option, f"{option}: {other} and {listener} have the same address")


def _check_inter_broker(name: str, opened: Sequence[Endpoint]) -> None:
    option = "inter.broker.listener.name"
    if all(listener.name != name.upper() for listener in opened):
        names = ", ".join(listener.name for listener in opened)
        raise ConfigError(option, f"{option}: {name} is not one of the listeners {names}")


def parse_protocol_map(option: str, text: str) -> dict[str, str]:
    """Parse `NAME:PROTOCOL,…`; the names of the four protocols are always defined."""
    protocols = {protocol: protocol for protocol in KAFKA_PROTOCOLS}
    seen: set[str] = set()
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = (part.strip().upper() for part in item.partition(":"))
        if not (name and colon) or protocol not in KAFKA_PROTOCOLS:
            raise ConfigError(option, f"{option}: {item!r} is not NAME:PROTOCOL, one of {', '.join(KAFKA_PROTOCOLS)}")
        if name in seen:
            raise ConfigError(option, f"{option}: listener name {name} is mapped more than once")
        seen.add(name)
        protocols[name] = protocol
    return protocols


def _parse_listener(option: str, item: str, protocols: Mapping[str, str]) -> Endpoint:
    match = _LISTENER.fullmatch(item)
    if match is None or (match["ipv6"] is not None and not _is_ipv6(match["ipv6"])):
        form = "NAME://HOST:PORT, with brackets around an IPv6 address"
        raise ConfigError(option, f"{option}: {item!r} is not of the form {form}")
    name = match["name"].upper()
    port = int(match["port"])
    if port > 65535:
        raise ConfigError(option, f"{option}: {item!r} has a port above 65535")
    if name not in protocols:
        message = f"{option}: no security protocol is defined for listener {name}, set listener.security.protocol.map"
        raise ConfigError(option, message)
    return Endpoint(name, match["ipv6"] or match["host"], port, protocols[name])


def _is_ipv6(text: str) -> bool:
    import ipaddress  # only few listeners need it, and a start should be quick

    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _check_advertised(listener: Endpoint, names: Sequence[str]) -> Endpoint:
    option = "advertised.listeners"
    if listener.name not in names:
        raise ConfigError(option, f"{option}: {listener.name} is not one of the listeners {', '.join(names)}")
    if listener.host in ("0.0.0.0", "::"):  # noqa: S104
        raise ConfigError(option, f"{option}: {listener} names every interface, which no client can connect to")
    return listener

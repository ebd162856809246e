"""Options of one listener: `listener.name.NAME.OPTION`, and for a SASL mechanism `listener.name.NAME.MECHANISM.OPTION`.

They have the meaning of OPTION, for that listener only. Names of listeners and mechanisms are in small letters.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

from tailrace.config.authorization import AuthorizationOptions
from tailrace.config.network import NetworkOptions
from tailrace.config.option import Option
from tailrace.config.quota import QuotaOptions
from tailrace.config.sasl import MECHANISMS, SaslOptions
from tailrace.config.tls import TlsOptions

PREFIX = "listener.name."


def _declared(*owners: type) -> dict[str, Option[Any]]:
    found = (value for owner in owners for value in vars(owner).values() if isinstance(value, Option))
    return {option.name: option for option in found}


_OF_BROKER = {
    "security.inter.broker.protocol",
    "sasl.mechanism.inter.broker.protocol",
    *_declared(AuthorizationOptions),
}
"""Options that say something about the broker as a whole."""

SECURITY_OPTIONS: Mapping[str, Option[Any]] = {
    name: option for name, option in _declared(TlsOptions, SaslOptions).items() if name not in _OF_BROKER
}
"""The options of TLS and SASL that a listener may have for itself."""

LISTENER_OPTIONS: Mapping[str, Option[Any]] = {
    **SECURITY_OPTIONS,
    QuotaOptions.max_connection_creation_rate.name: QuotaOptions.max_connection_creation_rate,
    NetworkOptions.max_connections.name: NetworkOptions.max_connections,
}
"""The options that a listener may have for itself."""

_OF_MECHANISM = ("connections.max.reauth.ms", "sasl.", "tailrace.sasl.")


class Override(NamedTuple):
    """An option of a listener, or of one of its mechanisms."""

    listener: str
    mechanism: str | None
    option: str


@cache
def override_name(listener: str, option: str, mechanism: str | None = None) -> str:
    """Return the name under which a listener, or a mechanism of it, has an option for itself."""
    middle = "" if mechanism is None else f"{mechanism.lower()}."
    return f"{PREFIX}{listener.lower()}.{middle}{option}"


@cache
def parse_override(name: str) -> Override | None:
    """Return the parts of a name, or None if it is no option of a listener."""
    if not name.startswith(PREFIX):
        return None
    rest = name.removeprefix(PREFIX)
    fitting = [option for option in LISTENER_OPTIONS if rest.endswith(f".{option}")]
    if not fitting:
        return None
    option = max(fitting, key=len)
    listener = rest.removesuffix(f".{option}")
    for mechanism in MECHANISMS:
        if listener.endswith(f".{mechanism.lower()}") and option.startswith(_OF_MECHANISM):
            return Override(listener.removesuffix(f".{mechanism.lower()}"), mechanism, option)
    return Override(listener, None, option)


@cache
def override_option(name: str) -> Option[Any] | None:
    """Return the declaration of an option of a listener; None if `name` is none."""
    override = parse_override(name)
    if override is None or not override.listener:
        return None
    return replace(LISTENER_OPTIONS[override.option], name=name)

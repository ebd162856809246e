"""The security options of one listener, its own before those of the broker."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, cast

from tailrace.config.error import ConfigError
from tailrace.config.listener import Endpoint
from tailrace.config.listener_override import SECURITY_OPTIONS, override_name
from tailrace.config.option import Option
from tailrace.config.sasl import MECHANISMS, SaslOptions
from tailrace.config.tls import TlsOptions

T = TypeVar("T")


class ListenerSecurity:
    """What the options say about the security of a listener."""

    def __init__(self, endpoint: Endpoint, values: Mapping[str, Any], is_set: Callable[[str], bool]) -> None:
        """`values` has every option by name; `is_set` says whether one is set and not just a default."""
        self.endpoint = endpoint
        self._values = values
        self._is_set = is_set

    @property
    def has_tls(self) -> bool:
        return self.endpoint.security_protocol.endswith("SSL")

    @property
    def has_sasl(self) -> bool:
        return self.endpoint.security_protocol.startswith("SASL")

    def value(self, option: Option[T], mechanism: str | None = None) -> T:
        """Return the value of an option for this listener, and for one of its mechanisms."""
        return cast("T", self._values[self.name(option, mechanism)])

    def name(self, option: Option[Any], mechanism: str | None = None) -> str:
        """Return the name under which the value is set, or would be."""
        if mechanism is not None:
            name = override_name(self.endpoint.name, option.name, mechanism)
            if self._is_set(name):
                return name
        name = override_name(self.endpoint.name, option.name)
        return name if self._is_set(name) else option.name

    def values(self) -> tuple[object, ...]:
        """Return the values of all options of TLS and SASL that a listener may have, to compare them."""
        return tuple(
            self.value(option, mechanism) for option in SECURITY_OPTIONS.values() for mechanism in (None, *MECHANISMS)
        )


def security_problems(options: ListenerSecurity) -> Iterator[ConfigError]:
    """Yield an error for each thing that a listener needs for its security protocol and does not have."""
    keys = (TlsOptions.ssl_keystore_location, TlsOptions.ssl_keystore_key)
    if options.has_tls and not any(options.value(key) for key in keys):
        message = f"listeners: {options.endpoint} uses TLS and has no key; set {' or '.join(key.name for key in keys)}"
        yield ConfigError("listeners", message)
    mechanisms = SaslOptions.sasl_enabled_mechanisms
    if options.has_sasl and not options.value(mechanisms):
        message = f"listeners: {options.endpoint} uses SASL and has no mechanism; set {mechanisms.name}"
        yield ConfigError("listeners", f"{message} to some of {', '.join(MECHANISMS)}")

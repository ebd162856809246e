"""The guard of a listener: its TLS, its mechanisms, and who a client is."""

import logging
import ssl
from typing import NamedTuple, Self, cast

from tailrace.base.invariant import invariant
from tailrace.config.broker import BrokerConfig
from tailrace.config.error import ConfigError
from tailrace.config.listener import Endpoint
from tailrace.config.listener_security import ListenerSecurity
from tailrace.runtime.background import Run
from tailrace.runtime.broker import Broker
from tailrace.runtime.security_option import Origin
from tailrace.security.der import MalformedCertificate
from tailrace.security.principal_rule import InvalidRule, NoMatchingRule, PrincipalRules
from tailrace.security.tls.peer import peer_name
from tailrace.server.connection import ANONYMOUS, ConnectionClosed
from tailrace.server.security.listener_mechanism import ListenerMechanisms, make_mechanisms
from tailrace.server.security.listener_tls import find_date_problems, make_listener_context
from tailrace.server.security.mechanism import Mechanisms

log = logging.getLogger("tailrace.server")


class LoginLimits(NamedTuple):
    """What a client may do and how long it may take before it has logged in to a listener."""

    request_bytes_max: int
    timeout_s: float  # for the TLS handshake and the login together
    failure_delay_s: float  # how long the answer to a refused login waits

    @classmethod
    def of(cls, options: ListenerSecurity) -> Self:
        """Return the limits that the options of a listener set. Kafka takes the delay from the broker's alone."""
        return cls(
            options.value(BrokerConfig.sasl_server_max_receive_size),
            options.value(BrokerConfig.tailrace_authentication_timeout_ms) / 1000,
            options.value(BrokerConfig.connection_failed_authentication_delay_ms) / 1000,
        )


class ListenerGuard:
    """What a listener demands of clients, by the options and files of the moment when it was made."""

    def __init__(self, endpoint: Endpoint, broker: Broker, before: "ListenerGuard | None" = None) -> None:
        """Raise `ConfigError` if the options or the files cannot be used; `before` is the guard that is replaced."""
        options = broker.config.listener_security(endpoint)
        self.origin = Origin.of(options)  # before the files are read, so that no change is missed
        self.endpoint = endpoint
        self.limits = LoginLimits.of(options)
        self.tls = self._make_tls(options) if options.has_tls else None
        self._rules = _principal_rules(options)
        self._mechanisms: ListenerMechanisms | None = None
        if options.has_sasl:
            self._mechanisms = make_mechanisms(options, broker, None if before is None else before._mechanisms)

    def _make_tls(self, options: ListenerSecurity) -> ssl.SSLContext:
        for line in find_date_problems(options):
            log.warning("listener %s: %s", self.endpoint.name, line)
        return make_listener_context(options)

    @property
    def has_login(self) -> bool:
        """Whether clients have to log in by SASL."""
        return self._mechanisms is not None

    @property
    def is_authenticating(self) -> bool:
        """Whether each client has to show who it is, by a login or a certificate."""
        return self.has_login or (self.tls is not None and self.tls.verify_mode is ssl.CERT_REQUIRED)

    @property
    def has_bare_passwords(self) -> bool:
        """Whether clients may send their passwords without encryption."""
        return self.tls is None and self.has_login and "PLAIN" in self.mechanisms.names

    @property
    def mechanisms(self) -> Mechanisms:
        """The mechanisms of a listener with SASL."""
        invariant(self._mechanisms is not None, "only a listener with SASL has mechanisms")
        return cast("ListenerMechanisms", self._mechanisms).mechanisms

    def certificate_principal(self, tls: ssl.SSLObject) -> str:
        """Return the user that a client's certificate names, or raise `ConnectionClosed`."""
        try:
            name = peer_name(tls, self._rules)
        except (NoMatchingRule, MalformedCertificate) as error:
            raise ConnectionClosed(f"its certificate names no user: {error}") from None
        return ANONYMOUS if name is None else f"User:{name}"

    @property
    def upkeep(self) -> tuple[Run, ...]:
        """What the mechanisms need to run meanwhile."""
        keys = None if self._mechanisms is None else self._mechanisms.keys
        return () if keys is None else (keys.keep,)


def _principal_rules(options: ListenerSecurity) -> PrincipalRules:
    option = BrokerConfig.ssl_principal_mapping_rules
    try:
        return PrincipalRules(options.value(option))
    except InvalidRule as error:
        name = options.name(option)
        raise ConfigError(name, f"{name}: {error}") from None

"""How the brokers of a cluster reach each other: by which listener, and with which certificates and login."""

import logging
import ssl
from collections.abc import Callable, Mapping
from typing import TypeVar

from tailrace.client.security.login import ClientLogin, OAuthLogin
from tailrace.client.security.security import PLAINTEXT, Security, password_login
from tailrace.client.security.token_setting import TokenSettings, make_token_login
from tailrace.config.broker import BrokerConfig
from tailrace.config.error import ConfigError
from tailrace.config.listener_security import ListenerSecurity
from tailrace.config.option import Option
from tailrace.runtime.security_option import Origin, make_stores, read_login, tls_versions
from tailrace.security.tls.context import make_client_context
from tailrace.security.tls.error import TlsConfigError

T = TypeVar("T")

log = logging.getLogger("tailrace.runtime")


class PeerRoute:
    """The way to other brokers, by the options of the listener for brokers."""

    def __init__(self, config: Callable[[], BrokerConfig]) -> None:
        """Raise `ConfigError` if the options of a broker that has others beside it cannot be used."""
        self._config = config
        self._origin: Origin | None = None
        self._security = PLAINTEXT
        if config().zookeeper_connect is not None:
            self._refresh()

    @property
    def listener_name(self) -> str:
        """The listener of every broker to which the others connect."""
        return self._config().inter_broker_listener.name

    def security(self) -> Security:
        """Return the certificates and the login for a new connection, by the options and files of the moment."""
        try:
            self._refresh()
        except ConfigError as error:
            log.error("connections to other brokers go on as before: %s", error)
        return self._security

    def _refresh(self) -> None:
        options = self._config().listener_security(self._config().inter_broker_listener)
        if not (options.has_tls or options.has_sasl):
            return
        origin = Origin.of(options)
        if origin != self._origin:
            self._origin = origin
            self._security = _make_security(options)


def _make_security(options: ListenerSecurity) -> Security:
    login = _make_login(options) if options.has_sasl else None
    if not options.has_tls:
        return Security(login=login)
    context = _make_context(options)
    return Security(lambda: context, login)


def _make_context(options: ListenerSecurity) -> ssl.SSLContext:
    suites = options.value(BrokerConfig.ssl_cipher_suites)
    try:
        return make_client_context(
            make_stores(options),
            checks_hostname=bool(options.value(BrokerConfig.ssl_endpoint_identification_algorithm)),
            enabled_protocols=tls_versions(options),
            cipher_suites=suites or (),
        )
    except TlsConfigError as error:
        name = options.name(BrokerConfig.options[error.option])
        raise ConfigError(name, f"{name}: {error}") from None


def _make_login(options: ListenerSecurity) -> ClientLogin:
    choice = BrokerConfig.sasl_mechanism_inter_broker_protocol
    mechanism = options.value(choice)
    if mechanism is None:
        message = f"{options.endpoint} is the listener for brokers and requires a login; set {choice.name}"
        raise ConfigError(choice.name, message)
    login = read_login(options, mechanism)
    if mechanism == OAuthLogin.mechanism:
        return _make_token_login(options, {} if login is None else login.options)
    if login is None or not login.username or not login.password:
        name = options.name(BrokerConfig.sasl_jaas_config, mechanism)
        message = f"{name}: it needs a username and a password, with which brokers log in to each other by {mechanism}"
        raise ConfigError(name, message)
    return password_login(mechanism, login)


def _make_token_login(options: ListenerSecurity, jaas: Mapping[str, str]) -> ClientLogin:
    def value(option: Option[T]) -> T:
        return options.value(option, OAuthLogin.mechanism)

    url = BrokerConfig.sasl_oauthbearer_token_endpoint_url
    unsecured = BrokerConfig.tailrace_sasl_oauthbearer_unsecured_enable
    if value(url) is None and not value(unsecured):
        message = f"{options.endpoint} is the listener for brokers and requires a token of OAUTHBEARER"
        needed = f"set {url.name}, with clientId and clientSecret in {BrokerConfig.sasl_jaas_config.name}"
        raise ConfigError(url.name, f"{message}; {needed}, or for development {unsecured.name}=true")
    given = TokenSettings(
        url=value(url),
        client_id=value(BrokerConfig.sasl_oauthbearer_client_credentials_client_id),
        client_secret=value(BrokerConfig.sasl_oauthbearer_client_credentials_client_secret),
        scope=value(BrokerConfig.sasl_oauthbearer_scope),
        encodes_header=value(BrokerConfig.sasl_oauthbearer_header_urlencode),
    )
    return make_token_login(given, jaas)

"""The TLS context of a listener, made from its options and the files that they name."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import cast

from tailrace.config.broker import BrokerConfig
from tailrace.config.error import ConfigError, RequestError
from tailrace.config.listener_security import ListenerSecurity
from tailrace.runtime.security_option import make_stores, tls_versions
from tailrace.security.tls.context import ClientAuth, make_server_context
from tailrace.security.tls.error import TlsConfigError
from tailrace.security.tls.store import date_problems


def make_listener_context(options: ListenerSecurity) -> ssl.SSLContext:
    """Make the context of a listener with TLS, or raise `ConfigError`."""
    suites = options.value(BrokerConfig.ssl_cipher_suites)
    with _named_option(options):
        return make_server_context(
            make_stores(options),
            cast("ClientAuth", options.value(BrokerConfig.ssl_client_auth)),
            tls_versions(options),
            suites or (),
        )


def find_date_problems(options: ListenerSecurity) -> list[str]:
    """Return a line for each certificate of a listener that is not valid now or soon will not be."""
    with _named_option(options):
        return list(date_problems(make_stores(options), datetime.now(UTC)))


def check_tls_change(present: BrokerConfig, altered: BrokerConfig) -> None:
    """Raise `RequestError` if a listener could not use its keys and certificates after a change of the configs.

    As in Kafka, only the listeners are checked that the change is about: a file that has become unreadable does not
    keep other configs from being changed.
    """
    for listener in altered.broker_listeners:
        options = altered.listener_security(listener)
        if options.has_tls and options.values() != present.listener_security(listener).values():
            try:
                make_listener_context(options)
            except ConfigError as error:
                raise RequestError(error.name, error.message) from None


@contextmanager
def _named_option(options: ListenerSecurity) -> Iterator[None]:
    """Name the option of a problem as it is set for the listener."""
    try:
        yield
    except TlsConfigError as error:
        name = options.name(BrokerConfig.options[error.option])
        raise ConfigError(name, f"{name}: {error}") from None

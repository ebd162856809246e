"""TLS of a broker to the servers that it is a client of."""

import ssl

from tailrace.config.error import ConfigError
from tailrace.security.tls.context import make_client_context
from tailrace.security.tls.error import TlsConfigError
from tailrace.security.tls.store import Stores


def make_broker_context(peer: str, prefix: str, stores: Stores, *, checks_hostname: bool = True) -> ssl.SSLContext:
    """Return the context for a peer; raise `ConfigError` with the option, such as `PREFIX.truststore.location`."""
    try:
        return make_client_context(stores, checks_hostname=checks_hostname)
    except TlsConfigError as error:
        name = f"{prefix}.{error.option.removeprefix('ssl.')}"
        raise ConfigError(name, f"TLS to {peer} cannot be set up with {error}") from None

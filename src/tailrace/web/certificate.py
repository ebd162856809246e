"""The TLS of an HTTP service, whose new connections get the certificate that is in its file at the moment."""

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tailrace.client.security.renewed_tls import RenewedTls
from tailrace.config.error import ConfigError
from tailrace.security.tls.context import make_server_context
from tailrace.security.tls.error import TlsConfigError
from tailrace.security.tls.store import Stores

_OPTIONS: Final[Mapping[str, str]] = {"ssl.keystore.location": "--certificate"}


def make_service_tls(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return the context of a service, or raise `ConfigError` if a file cannot be used."""
    stores = Stores(keystore_location=str(certificate), key_location=str(key))

    def make() -> ssl.SSLContext:
        try:
            return make_server_context(stores)
        except TlsConfigError as error:
            name = _OPTIONS.get(error.option, "--key")
            raise ConfigError(name, f"{name}: {error}") from None

    renewed = RenewedTls(make, stores.files)

    def choose(tls: ssl.SSLObject | ssl.SSLSocket, _host: str | None, _context: ssl.SSLContext) -> None:
        tls.context = renewed.context()

    context = make()
    context.sni_callback = choose  # called for every client, also for one that sends no host name
    return context

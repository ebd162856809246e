"""How a client's connections are secured: the TLS context and the login, from its settings."""

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tailrace.client.security.login import ClientLogin, PlainLogin, ScramLogin
from tailrace.client.security.renewed_tls import RenewedTls
from tailrace.client.security.setting import SecuritySettings
from tailrace.client.security.token import TokenCallback
from tailrace.client.security.token_setting import TokenSettings, make_token_login
from tailrace.config.error import ConfigError
from tailrace.security.jaas import Login
from tailrace.security.oauth import MECHANISM as OAUTHBEARER
from tailrace.security.tls.context import make_client_context
from tailrace.security.tls.error import TlsConfigError


@dataclass(frozen=True, slots=True)
class Security:
    """The TLS context and the login of connections; without either, they are plain and anonymous.

    `tls` returns the context for a new connection.
    """

    tls: Callable[[], ssl.SSLContext] | None = None
    login: ClientLogin | None = None

    def transport(self, host: str) -> dict[str, Any]:
        """Return the arguments of TLS for asyncio's `create_connection`."""
        return {} if self.tls is None else {"ssl": self.tls(), "server_hostname": host}


PLAINTEXT: Final = Security()


def make_security(settings: SecuritySettings, oauth_token: TokenCallback | None = None) -> Security:
    """Return the security that checked settings say; raises `ConfigError` if a file cannot be used."""
    return Security(_tls(settings) if settings.has_tls else None, _login(settings, oauth_token))


def _tls(settings: SecuritySettings) -> Callable[[], ssl.SSLContext]:
    stores = settings.stores

    def make() -> ssl.SSLContext:
        try:
            return make_client_context(
                stores,
                checks_hostname=settings.ssl_endpoint_identification_algorithm.lower() == "https",
                enabled_protocols=settings.ssl_enabled_protocols,
                cipher_suites=settings.ssl_cipher_suites,
            )
        except TlsConfigError as error:
            raise ConfigError(error.option, f"{error.option}: {error}") from None

    return RenewedTls(make, stores.files).context


def _login(settings: SecuritySettings, oauth_token: TokenCallback | None) -> ClientLogin | None:
    mechanism = settings.mechanism
    if not settings.has_sasl or mechanism is None:
        return None
    jaas = settings.jaas
    if mechanism == OAUTHBEARER:
        return _token_login(settings, {} if jaas is None else jaas.options, oauth_token)
    if jaas is not None:
        return password_login(mechanism, jaas)
    user, secret = settings.sasl_username or "", settings.sasl_password or ""
    return PlainLogin(user, secret) if mechanism == PlainLogin.mechanism else ScramLogin(mechanism, user, secret)


def _token_login(
    settings: SecuritySettings, options: Mapping[str, str], oauth_token: TokenCallback | None
) -> ClientLogin:
    given = TokenSettings(
        url=settings.sasl_oauthbearer_token_endpoint_url,
        client_id=settings.sasl_oauthbearer_client_credentials_client_id or settings.sasl_oauthbearer_client_id,
        client_secret=(
            settings.sasl_oauthbearer_client_credentials_client_secret or settings.sasl_oauthbearer_client_secret
        ),
        scope=settings.sasl_oauthbearer_scope,
        encodes_header=settings.sasl_oauthbearer_header_urlencode,
        extensions=settings.sasl_oauthbearer_extensions,
    )
    return make_token_login(given, options, oauth_token)


def password_login(mechanism: str, jaas: Login) -> ClientLogin:
    """Return the login by PLAIN or SCRAM of a JAAS text."""
    user, secret = jaas.username or "", jaas.password or ""
    if mechanism == PlainLogin.mechanism:
        return PlainLogin(user, secret)
    return ScramLogin(mechanism, user, secret, is_token=jaas.is_token)

"""The login by a bearer token, from the settings of a client or the options of a broker."""

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from tailrace.client.security.login import ClientLogin, OAuthLogin
from tailrace.client.security.token import (
    TokenCallback,
    TokenSource,
    tokens_of_callback,
    tokens_of_file,
    unsecured_tokens,
)
from tailrace.client.security.token_endpoint import TokenEndpoint, tokens_of_endpoint
from tailrace.config.error import ConfigError
from tailrace.security.tls.context import make_client_context
from tailrace.security.tls.error import TlsConfigError
from tailrace.security.tls.store import Stores

URL_NAME: Final = "sasl.oauthbearer.token.endpoint.url"
_EXTENSION: Final = "extension_"
_UNSECURED_EXTENSION: Final = "unsecuredLoginExtension_"


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """The settings `sasl.oauthbearer.*` of a login. What they do not say, the options of a JAAS text may say."""

    url: str | None = None
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    scope: str | None = None
    encodes_header: bool = False
    extensions: Sequence[str] = ()


def make_token_login(
    given: TokenSettings, options: Mapping[str, str], oauth_token: TokenCallback | None = None
) -> ClientLogin:
    """Return the login of these settings and of the options of a JAAS text; raises `ConfigError`."""
    return OAuthLogin(_tokens(given, options, oauth_token), _extensions(given, options))


def _tokens(given: TokenSettings, options: Mapping[str, str], oauth_token: TokenCallback | None) -> TokenSource:
    if oauth_token is not None:
        return tokens_of_callback(oauth_token)
    if given.url is None:
        return unsecured_tokens(options)
    if given.url.startswith("file:"):
        return tokens_of_file(Path(unquote(urlsplit(given.url).path)))
    client_id = given.client_id or options.get("clientId")
    secret = given.client_secret or options.get("clientSecret")
    for name, value in (("id", client_id), ("secret", secret)):
        if not value:
            option = f"sasl.oauthbearer.client.credentials.client.{name}"
            raise ConfigError(option, f"{option} is missing, which {URL_NAME} needs")
    endpoint = TokenEndpoint(
        given.url,
        client_id or "",
        secret or "",
        given.scope or options.get("scope"),
        encodes_header=given.encodes_header,
    )
    try:
        return tokens_of_endpoint(endpoint, _endpoint_tls(options))
    except ValueError as error:
        raise ConfigError(URL_NAME, f"Invalid value for {URL_NAME}: {error}") from None


def _endpoint_tls(options: Mapping[str, str]) -> ssl.SSLContext | None:
    """Return the context for the token endpoint, from options `ssl.truststore.*` of the JAAS text as in Kafka."""
    names = ("type", "location", "password", "certificates")
    values = {f"truststore_{name}": options.get(f"ssl.truststore.{name}") for name in names}
    if not any(values.values()):
        return None
    try:
        return make_client_context(Stores(**values))
    except TlsConfigError as error:
        raise ConfigError("sasl.jaas.config", f"sasl.jaas.config: {error.option}: {error}") from None


def _extensions(given: TokenSettings, options: Mapping[str, str]) -> dict[str, str]:
    found = {
        name.removeprefix(prefix): text
        for prefix in (_EXTENSION, _UNSECURED_EXTENSION)
        for name, text in options.items()
        if name.startswith(prefix)
    }
    for pair in given.extensions:
        name, _, text = pair.partition("=")
        found[name.strip()] = text.strip()
    return found

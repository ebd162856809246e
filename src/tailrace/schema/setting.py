"""The configs of a client of schema registries, under the names of confluent-kafka's client."""

import ssl
from collections.abc import Mapping

from tailrace.base.registry_address import RegistryAddress
from tailrace.config.check import only
from tailrace.config.configuration import Configuration, parse_options, raise_problems, suggestion
from tailrace.config.declaration import nullable_string, password, string, string_list
from tailrace.config.error import ConfigError
from tailrace.config.schema import USER_INFO
from tailrace.security.tls.context import make_client_context
from tailrace.security.tls.error import TlsConfigError
from tailrace.security.tls.store import Stores

_NAMES = {"ssl.truststore.location": "ssl.ca.location", "ssl.keystore.location": "ssl.certificate.location"}
"""The names here of the options that Kafka names in another way."""


class RegistrySettings(Configuration):
    """Where the registries are and how to connect to them. Equal configs are equal; their text has no passwords."""

    url = string_list("url", (), "URLs of the registries, of which any that answers is used.")
    basic_auth_credentials_source = string(
        "basic.auth.credentials.source",
        "USER_INFO",
        "Source of the user and the password.",
        check=only("USER_INFO", "passwords in URLs would appear in logs; use basic.auth.user.info"),
    )
    basic_auth_user_info = password("basic.auth.user.info", "User and password, as USER:PASSWORD.", check=USER_INFO)
    ssl_ca_location = nullable_string(
        "ssl.ca.location",
        "PEM file with the certificates that verify those of the registries. If it is not set, those of the system are "
        "used.",
    )
    ssl_certificate_location = nullable_string(
        "ssl.certificate.location", "PEM file with the certificates that authenticate the client."
    )
    ssl_key_location = nullable_string(
        "ssl.key.location", "PEM file with the private key. If it is not set, it is in the file of the certificates."
    )
    ssl_key_password = password("ssl.key.password", "Password of the private key, if it has one.")

    def __init__(self, config: str | Mapping[str, str]) -> None:
        """Take the configs by name, or only the URLs. Raise `ConfigError` with all problems at once."""
        texts = {"url": config} if isinstance(config, str) else dict(config)
        unknown = [name for name in texts if name not in self.options]
        problems = [ConfigError(name, f"Unknown config {name}{suggestion(name, self.options)}") for name in unknown]
        known = {name: text for name, text in texts.items() if name in self.options}
        values = parse_options(self.options, known, problems)
        self.__dict__.update({o.attribute: values.get(name, o.default) for name, o in self.options.items()})
        self.__dict__["_texts"] = frozenset(texts.items())
        raise_problems(self._problems())

    _texts: frozenset[tuple[str, str]]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RegistrySettings) and self._texts == other._texts

    def __hash__(self) -> int:
        return hash(self._texts)

    def __str__(self) -> str:
        return ", ".join(self.url)

    def __repr__(self) -> str:
        return f"RegistrySettings({str(self)!r})"

    @property
    def credentials(self) -> tuple[str | None, str | None]:
        """The user and the password."""
        if self.basic_auth_user_info is None:
            return None, None
        user, _, secret = self.basic_auth_user_info.partition(":")
        return user, secret

    def make_tls(self) -> ssl.SSLContext | None:
        """Return the context for HTTPS, or None for the system's; raise `ConfigError` if a file cannot be used."""
        authority, certificate = self.ssl_ca_location, self.ssl_certificate_location
        if authority is None and certificate is None:
            return None
        try:
            return make_client_context(
                Stores(
                    truststore_location=authority,
                    keystore_location=certificate,
                    key_location=self.ssl_key_location,
                    key_password=self.ssl_key_password,
                )
            )
        except TlsConfigError as error:
            message = f"TLS to the schema registry cannot be set up with {error}"
            raise ConfigError(_NAMES.get(error.option, error.option), message) from None

    def _problems(self) -> list[ConfigError]:
        found = [] if self.url else [ConfigError("url", "url is missing: name at least one URL of a registry")]
        for url in self.url:
            try:
                RegistryAddress.of(url)
            except ValueError as error:
                found.append(ConfigError("url", str(error)))
        if self.ssl_key_location is not None and self.ssl_certificate_location is None:
            found.append(ConfigError("ssl.key.location", "ssl.key.location needs ssl.certificate.location"))
        return found

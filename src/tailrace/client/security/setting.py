"""The security settings of clients, under the names of Kafka's clients and of librdkafka."""

from collections.abc import Iterator
from typing import Final

from tailrace.config.check import Check, one_of
from tailrace.config.configuration import Configuration
from tailrace.config.declaration import boolean, nullable_string, password, string, string_list
from tailrace.config.error import ConfigError
from tailrace.config.option import Importance
from tailrace.security.jaas import JaasError, Login, LoginModule, parse_jaas
from tailrace.security.tls.cipher import VERSIONS
from tailrace.security.tls.store import Stores

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_STORE_TYPES: Final = ("JKS", "PEM", "PKCS12")


def _mechanism_refusal(name: str) -> str | None:
    return f"GSSAPI (Kerberos) is not supported; use {', '.join(MECHANISMS)}" if name == "GSSAPI" else None


_MECHANISM: Check[str] = Check(f"one of {', '.join(MECHANISMS)}", lambda name: name in MECHANISMS, _mechanism_refusal)
_JAVA_HANDLERS: Final = ("OAuthBearerLoginCallbackHandler", "OAuthBearerUnsecuredLoginCallbackHandler")
_HANDLER: Check[str] = Check(
    f"a class of Kafka: {' or '.join(_JAVA_HANDLERS)}; for a token from Python, pass oauth_token",
    lambda name: name.rpartition(".")[2] in _JAVA_HANDLERS,
)
_STORE: Check[str] = Check(f"one of {', '.join(_STORE_TYPES)}", lambda name: name.upper() in _STORE_TYPES)

IGNORED: Final = frozenset(
    {
        "security.providers",
        "ssl.keymanager.algorithm",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.service.name",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.login.retry.backoff.max.ms",
        "sasl.login.retry.backoff.ms",
    }
)
"""Settings of Kafka's clients that choose details of Java or of Kerberos. They are accepted and have no effect."""


class SecuritySettings(Configuration):
    """How a client connects and who it is. Passwords, keys and tokens are of type password, so they are never shown."""

    security_protocol = string(
        "security.protocol",
        "PLAINTEXT",
        "Protocol of connections to brokers: PLAINTEXT, SSL (TLS), SASL_PLAINTEXT, or SASL_SSL for both.",
        check=one_of(*PROTOCOLS),
        importance=Importance.HIGH,
    )
    ssl_truststore_type = string(
        "ssl.truststore.type",
        "JKS",
        "Format of the truststore: PEM or PKCS12; JKS: as the file is.",
        check=_STORE,
    )
    ssl_truststore_location = nullable_string(
        "ssl.truststore.location",
        "File with the certificates that verify the brokers' certificates. If it is not set, those of the system do.",
        importance=Importance.HIGH,
    )
    ssl_truststore_password = password("ssl.truststore.password", "Password of a PKCS12 truststore.")
    ssl_truststore_certificates = password("ssl.truststore.certificates", "Trusted certificates as PEM text.")
    ssl_keystore_type = string(
        "ssl.keystore.type", "JKS", "Format of the keystore: PEM or PKCS12; JKS: as the file is.", check=_STORE
    )
    ssl_keystore_location = nullable_string(
        "ssl.keystore.location", "File with the client's private key and certificates, for brokers that ask for them."
    )
    ssl_keystore_password = password("ssl.keystore.password", "Password of a PKCS12 keystore.")
    ssl_keystore_key = password("ssl.keystore.key", "The client's private key as PEM text.")
    ssl_keystore_certificate_chain = password(
        "ssl.keystore.certificate.chain", "The client's certificates as PEM text, its own first."
    )
    ssl_key_password = password("ssl.key.password", "Password of an encrypted private key.")
    ssl_enabled_protocols = string_list(
        "ssl.enabled.protocols", tuple(VERSIONS), "Versions of TLS: TLSv1.2, TLSv1.3 or both."
    )
    ssl_cipher_suites = string_list("ssl.cipher.suites", (), "Cipher suites by name; the usual ones if it is empty.")
    ssl_endpoint_identification_algorithm = string(
        "ssl.endpoint.identification.algorithm",
        "https",
        "Whether a broker's certificate must have the host name of the connection: https, or empty for no.",
        check=one_of("https", "HTTPS", "", "none"),
    )
    ssl_ca_location = nullable_string("ssl.ca.location", "librdkafka's name of ssl.truststore.location.")
    ssl_certificate_location = nullable_string(
        "ssl.certificate.location", "PEM file with the client's certificates, as in librdkafka."
    )
    ssl_key_location = nullable_string("ssl.key.location", "PEM file with the client's private key, as in librdkafka.")
    sasl_mechanism = nullable_string(
        "sasl.mechanism", f"Mechanism of the login: {', '.join(MECHANISMS)}.", check=_MECHANISM
    )
    sasl_mechanisms = nullable_string("sasl.mechanisms", "librdkafka's name of sasl.mechanism.", check=_MECHANISM)
    sasl_jaas_config = password(
        "sasl.jaas.config", 'The login in Kafka\'s form: CLASS required username="NAME" password="SECRET";'
    )
    sasl_username = nullable_string("sasl.username", "User of PLAIN and SCRAM, in place of sasl.jaas.config.")
    sasl_password = password("sasl.password", "Password of PLAIN and SCRAM, in place of sasl.jaas.config.")
    sasl_oauthbearer_token_endpoint_url = nullable_string(
        "sasl.oauthbearer.token.endpoint.url",
        "URL that gives tokens for the client's id and secret (OAuth's client credentials), or file:///PATH of a file "
        "with a token, which is read again for each login.",
    )
    sasl_oauthbearer_client_credentials_client_id = nullable_string(
        "sasl.oauthbearer.client.credentials.client.id", "Id of the client at the token endpoint."
    )
    sasl_oauthbearer_client_credentials_client_secret = password(
        "sasl.oauthbearer.client.credentials.client.secret", "Secret of the client at the token endpoint."
    )
    sasl_oauthbearer_client_id = nullable_string(
        "sasl.oauthbearer.client.id", "librdkafka's name of sasl.oauthbearer.client.credentials.client.id."
    )
    sasl_oauthbearer_client_secret = password(
        "sasl.oauthbearer.client.secret", "librdkafka's name of sasl.oauthbearer.client.credentials.client.secret."
    )
    sasl_oauthbearer_scope = nullable_string("sasl.oauthbearer.scope", "Scope to ask the token endpoint for.")
    sasl_oauthbearer_extensions = string_list(
        "sasl.oauthbearer.extensions", (), "SASL extensions, as NAME=VALUE separated by commas."
    )
    sasl_oauthbearer_header_urlencode = boolean(
        "sasl.oauthbearer.header.urlencode", False, "Whether the id and the secret are URL-encoded for the endpoint."
    )
    sasl_login_callback_handler_class = nullable_string(
        "sasl.login.callback.handler.class",
        "Kafka's class that fetches tokens; other settings say the same here.",
        check=_HANDLER,
    )

    @property
    def has_tls(self) -> bool:
        return self.security_protocol.endswith("SSL")

    @property
    def has_sasl(self) -> bool:
        return self.security_protocol.startswith("SASL")

    @property
    def mechanism(self) -> str | None:
        """The mechanism of the login, under either name."""
        return self.sasl_mechanism or self.sasl_mechanisms

    @property
    def stores(self) -> Stores:
        """The keys and certificates."""
        return Stores(
            keystore_type=self.ssl_keystore_type,
            keystore_location=self.ssl_keystore_location or self.ssl_certificate_location,
            keystore_password=self.ssl_keystore_password,
            key_password=self.ssl_key_password,
            keystore_key=self.ssl_keystore_key,
            keystore_certificate_chain=self.ssl_keystore_certificate_chain,
            key_location=self.ssl_key_location,
            truststore_type=self.ssl_truststore_type,
            truststore_location=self.ssl_truststore_location or self.ssl_ca_location,
            truststore_password=self.ssl_truststore_password,
            truststore_certificates=self.ssl_truststore_certificates,
        )

    @property
    def jaas(self) -> Login | None:
        """The parsed sasl.jaas.config; raises `JaasError`."""
        return None if self.sasl_jaas_config is None else parse_jaas(self.sasl_jaas_config)


_SASL_ONLY: Final = ("sasl.mechanism", "sasl.mechanisms", "sasl.jaas.config", "sasl.username", "sasl.password")
_TLS_ONLY: Final = (
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
)
_ALIASES: Final = {
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.certificate.location": "ssl.keystore.location",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.oauthbearer.client.id": "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "sasl.oauthbearer.client.credentials.client.secret",
}


def security_problems(
    settings: SecuritySettings, given: frozenset[str], *, has_token_source: bool
) -> Iterator[ConfigError]:
    """Yield what is missing or contradicts itself; `given` has the names that the user has set."""
    for alias, name in _ALIASES.items():
        if alias in given and name in given:
            yield ConfigError(alias, f"{alias} and {name} are two names of one setting; give one of them")
    if "ssl.certificate.location" not in given and "ssl.key.location" in given:
        yield ConfigError("ssl.key.location", "ssl.key.location needs ssl.certificate.location")
    protocol = settings.security_protocol
    if not settings.has_tls:
        for name in _TLS_ONLY:
            if name in given:
                yield ConfigError(name, f"{name} has no effect with security.protocol={protocol}; set SSL or SASL_SSL")
    if settings.has_sasl:
        yield from _login_problems(settings, has_token_source=has_token_source)
        return
    needed = "SASL_SSL" if settings.has_tls else "SASL_SSL or SASL_PLAINTEXT"
    for name in _SASL_ONLY:
        if name in given:
            yield ConfigError(name, f"{name} has no effect with security.protocol={protocol}; set {needed}")


def _login_problems(settings: SecuritySettings, *, has_token_source: bool) -> Iterator[ConfigError]:
    mechanism = settings.mechanism
    if mechanism is None:
        text = f"sasl.mechanism is missing: one of {', '.join(MECHANISMS)}; Kafka's default, GSSAPI, is not supported"
        yield ConfigError("sasl.mechanism", text)
        return
    name = "sasl.jaas.config"
    try:
        jaas = settings.jaas
    except JaasError as error:
        yield ConfigError(name, f"Invalid value for {name}: {error}")
        return
    if jaas is not None and mechanism not in jaas.module.mechanisms:
        text = f"{name} has the login module of {' and '.join(jaas.module.mechanisms)}, and sasl.mechanism={mechanism}"
        yield ConfigError(name, text)
    elif mechanism == LoginModule.OAUTHBEARER.name:
        is_unsecured = jaas is not None and any(option.startswith("unsecured") for option in jaas.options)
        if not (has_token_source or is_unsecured or settings.sasl_oauthbearer_token_endpoint_url):
            text = "OAUTHBEARER needs a source of tokens: sasl.oauthbearer.token.endpoint.url, or oauth_token in Python"
            yield ConfigError("sasl.oauthbearer.token.endpoint.url", text)
    else:
        yield from _password_problems(settings, jaas, mechanism)


def _password_problems(settings: SecuritySettings, jaas: Login | None, mechanism: str) -> Iterator[ConfigError]:
    is_here = settings.sasl_username is not None or settings.sasl_password is not None
    if jaas is not None and is_here:
        yield ConfigError("sasl.jaas.config", "the login is given twice: leave out sasl.jaas.config or sasl.username")
    elif jaas is not None:
        missing = [option for option in ("username", "password") if not jaas.options.get(option)]
        for option in missing:
            yield ConfigError("sasl.jaas.config", f"sasl.jaas.config has no option {option}, which {mechanism} needs")
    else:
        for name, value in (("sasl.username", settings.sasl_username), ("sasl.password", settings.sasl_password)):
            if not value:
                yield ConfigError(name, f"{name} is missing, which {mechanism} needs; or set sasl.jaas.config")

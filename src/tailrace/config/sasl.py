"""Broker options of SASL: the mechanisms by which clients log in, and how their credentials are checked."""

import re

from tailrace.config.check import Check, at_least
from tailrace.config.declaration import (
    boolean,
    integer,
    long,
    nullable_string,
    nullable_string_list,
    password,
    string,
)
from tailrace.config.inert import inert
from tailrace.config.option import Importance, UpdateMode
from tailrace.config.unit import HOUR_MS, KIB, SECOND_MS

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
KERBEROS = "GSSAPI (Kerberos) is not supported"


def _refusal(names: tuple[str, ...]) -> str | None:
    return f"{KERBEROS}; use {', '.join(MECHANISMS)}" if "GSSAPI" in names else None


_MECHANISMS: Check[tuple[str, ...]] = Check(
    f"a list of {', '.join(MECHANISMS)}", lambda names: bool(names) and set(names) <= set(MECHANISMS), _refusal
)
_MECHANISM: Check[str] = Check(
    f"one of {', '.join(MECHANISMS)}", lambda name: name in MECHANISMS, lambda name: _refusal((name,))
)

_URL_USER = re.compile(r"https?://[^/?#]*@")
_URL: Check[str] = Check(
    "a URL with https, http or file",
    lambda url: url.startswith(("https://", "http://", "file:/")) and not _URL_USER.match(url),
    lambda url: "it must not contain a user, whom DescribeConfigs would show" if _URL_USER.match(url) else None,
)


def _java_class(*names: str) -> Check[str]:
    """Accept the classes of Kafka whose work Tailrace does itself, from any package of Kafka."""
    known = f"Kafka's class {' or '.join(names)}"
    return Check(
        known,
        lambda name: name.startswith("org.apache.kafka.") and name.rpartition(".")[2] in names,
        lambda _: f"Tailrace does not load Java classes; it must be {known}",
    )


class SaslOptions:
    """The options of SASL. A listener may have its own, as `listener.name.NAME.sasl.…`.

    A mechanism of a listener may have its own too, as `listener.name.NAME.MECHANISM.sasl.jaas.config`.
    """

    security_inter_broker_protocol = nullable_string(
        "security.inter.broker.protocol",
        "Security protocol between brokers: they use the first listener with it. `inter.broker.listener.name` names "
        "a listener instead.",
        check=Check(
            "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL",
            lambda text: text in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        ),
    )
    sasl_enabled_mechanisms = nullable_string_list(
        "sasl.enabled.mechanisms",
        "Mechanisms by which clients may log in. A listener with SASL needs it. Kafka's default is GSSAPI, which "
        "Tailrace does not have.",
        check=_MECHANISMS,
        update_mode=UpdateMode.PER_BROKER,
    )
    sasl_mechanism_inter_broker_protocol = nullable_string(
        "sasl.mechanism.inter.broker.protocol",
        "Mechanism by which brokers log in to each other. Kafka's default is GSSAPI, which Tailrace does not have.",
        check=_MECHANISM,
        update_mode=UpdateMode.PER_BROKER,
    )
    sasl_jaas_config = password(
        "sasl.jaas.config",
        'Login in the form of Kafka\'s files, `CLASS required NAME="VALUE" …;`. For PLAIN it has the users of clients '
        'as `user_NAME="PASSWORD"`, and `username` and `password` are the login of this broker at others.',
        update_mode=UpdateMode.PER_BROKER,
    )
    sasl_server_max_receive_size = integer(
        "sasl.server.max.receive.size",
        512 * KIB,
        "Largest request of a client that has not logged in yet.",
        check=at_least(1),
    )
    connections_max_reauth_ms = long(
        "connections.max.reauth.ms",
        0,
        "Time after which a client that logged in by SASL has to log in again, or its connection is closed; 0 means "
        "never. A token that expires earlier shortens it.",
    )
    connection_failed_authentication_delay_ms = integer(
        "connection.failed.authentication.delay.ms",
        100,
        "Time that the answer to a refused login waits, so that passwords cannot be guessed quickly.",
        check=at_least(0),
        importance=Importance.LOW,
    )
    tailrace_authentication_timeout_ms = integer(
        "tailrace.authentication.timeout.ms",
        30 * SECOND_MS,
        "Time within which a client must finish the TLS handshake and its login; a slower connection is closed.",
        check=at_least(1),
    )
    tailrace_sasl_plain_users_file = nullable_string(
        "tailrace.sasl.plain.users.file",
        "File with the users of PLAIN, a line `NAME=PASSWORD` for each. A changed file is read again.",
        update_mode=UpdateMode.PER_BROKER,
    )
    tailrace_sasl_oauthbearer_unsecured_enable = boolean(
        "tailrace.sasl.oauthbearer.unsecured.enable",
        False,
        "Whether OAUTHBEARER takes tokens without a signature, which a client can make for any user. For development "
        "only. Kafka does so by default.",
    )
    sasl_login_callback_handler_class = nullable_string(
        "sasl.login.callback.handler.class",
        "Kafka's class that fetches the token of OAUTHBEARER with which this broker logs in to others. Other options "
        "say the same here.",
        check=_java_class("OAuthBearerLoginCallbackHandler", "OAuthBearerUnsecuredLoginCallbackHandler"),
    )
    sasl_server_callback_handler_class = nullable_string(
        "sasl.server.callback.handler.class",
        "Kafka's class that checks tokens of OAUTHBEARER. Other options say the same here.",
        check=_java_class("OAuthBearerValidatorCallbackHandler", "OAuthBearerUnsecuredValidatorCallbackHandler"),
    )
    sasl_oauthbearer_jwt_validator_class = nullable_string(
        "sasl.oauthbearer.jwt.validator.class",
        "Kafka's class that checks tokens of OAUTHBEARER, since 4.1. Signed tokens are always checked as by "
        "BrokerJwtValidator.",
        check=_java_class("BrokerJwtValidator", "DefaultJwtValidator"),
    )
    sasl_oauthbearer_token_endpoint_url = nullable_string(
        "sasl.oauthbearer.token.endpoint.url",
        "Address of the OAuth server that gives this broker the token with which it logs in to others, for its id "
        "and secret: https: or http:. Or the file with the token: file:.",
        check=_URL,
    )
    sasl_oauthbearer_client_credentials_client_id = nullable_string(
        "sasl.oauthbearer.client.credentials.client.id",
        "Id of this broker at the OAuth server; or the option clientId in `sasl.jaas.config`.",
    )
    sasl_oauthbearer_client_credentials_client_secret = password(
        "sasl.oauthbearer.client.credentials.client.secret",
        "Secret of this broker at the OAuth server; or the option clientSecret in `sasl.jaas.config`.",
    )
    sasl_oauthbearer_scope = nullable_string(
        "sasl.oauthbearer.scope",
        "Scope that this broker asks the OAuth server for; or the option scope in `sasl.jaas.config`.",
    )
    sasl_oauthbearer_header_urlencode = boolean(
        "sasl.oauthbearer.header.urlencode",
        False,
        "Whether the id and the secret are URL-encoded for the OAuth server, as RFC 6749 demands.",
    )
    sasl_oauthbearer_jwks_endpoint_url = nullable_string(
        "sasl.oauthbearer.jwks.endpoint.url",
        "Address of the keys (JWKS) that sign the tokens of OAUTHBEARER: https:, http: or file:.",
        check=_URL,
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms = long(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        HOUR_MS,
        "Time after which the keys are read again. An unknown key in a token has them read earlier.",
        check=at_least(1),
        importance=Importance.LOW,
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms = long(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        100,
        "First wait before the keys are asked for again after a failure.",
        check=at_least(1),
        importance=Importance.LOW,
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms = long(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        10 * SECOND_MS,
        "Longest wait before the keys are asked for again after a failure.",
        check=at_least(1),
        importance=Importance.LOW,
    )
    sasl_oauthbearer_expected_issuer = nullable_string(
        "sasl.oauthbearer.expected.issuer", "Issuer (`iss`) that a token must have.", importance=Importance.LOW
    )
    sasl_oauthbearer_expected_audience = nullable_string_list(
        "sasl.oauthbearer.expected.audience",
        "Audiences (`aud`) of which a token must have at least one.",
        importance=Importance.LOW,
    )
    sasl_oauthbearer_clock_skew_seconds = integer(
        "sasl.oauthbearer.clock.skew.seconds",
        30,
        "How far the clocks of this broker and of the issuer may differ.",
        check=at_least(0),
        importance=Importance.LOW,
    )
    sasl_oauthbearer_scope_claim_name = string(
        "sasl.oauthbearer.scope.claim.name", "scope", "Claim with the scopes of a token.", importance=Importance.LOW
    )
    sasl_oauthbearer_sub_claim_name = string(
        "sasl.oauthbearer.sub.claim.name", "sub", "Claim with the user of a token.", importance=Importance.LOW
    )


_NO_JAVA = "there are no Java classes and threads to configure"

SASL_INERT_OPTIONS = (
    *inert(
        "Tailrace has no controller listeners",
        string("sasl.mechanism.controller.protocol", "GSSAPI", "Mechanism of Kafka's controllers."),
    ),
    *inert(
        _NO_JAVA,
        nullable_string("ssl.provider", "Java's provider of TLS."),
        string("ssl.keymanager.algorithm", "SunX509", "Java's algorithm for keys."),
        string("ssl.trustmanager.algorithm", "PKIX", "Java's algorithm for trust."),
        nullable_string("ssl.secure.random.implementation", "Java's source of random numbers."),
    ),
    *inert(
        "a changed certificate is taken as it is",
        boolean("ssl.allow.dn.changes", False, "Whether the subject of a renewed certificate may change."),
        boolean("ssl.allow.san.changes", False, "Whether the names in a renewed certificate may change."),
    ),
    *inert(
        "the broker logs in with its password or token when it connects",
        *(
            nullable_string(f"sasl.login.{name}", "A detail of Kafka's logins.")
            for name in (
                "connect.timeout.ms",
                "read.timeout.ms",
                "refresh.buffer.seconds",
                "refresh.min.period.seconds",
                "refresh.window.factor",
                "refresh.window.jitter",
                "retry.backoff.max.ms",
                "retry.backoff.ms",
            )
        ),
    ),
)

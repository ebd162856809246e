"""The SASL mechanisms of a listener, made from its options."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tailrace.client.backoff import Backoff
from tailrace.config.broker import BrokerConfig
from tailrace.config.error import ConfigError
from tailrace.config.listener_security import ListenerSecurity
from tailrace.runtime.broker import Broker
from tailrace.runtime.security_option import read_login
from tailrace.security.bearer_token import Token, TokenRules
from tailrace.security.jaas import Login, LoginModule
from tailrace.security.plain import PlainUsers, users_of_login, users_of_properties
from tailrace.security.scram.credential import Decoys
from tailrace.security.scram.mechanism import SCRAM_MECHANISMS
from tailrace.security.unsecured_token import check_unsecured, unsecured_rules
from tailrace.server.security.credential_store import ImageCredentials
from tailrace.server.security.key_source import KeySource
from tailrace.server.security.mechanism import Mechanisms, MechanismSource, OAuthSource, PlainSource, ScramSource

_FILE_REFRESH_MS = 1000


class ListenerMechanisms(NamedTuple):
    """The mechanisms, and the source of the keys for OAUTHBEARER, which has to be kept."""

    mechanisms: Mechanisms
    keys: KeySource | None


def make_mechanisms(
    options: ListenerSecurity, broker: Broker, before: ListenerMechanisms | None = None
) -> ListenerMechanisms:
    """Make the mechanisms of a listener with SASL, or raise `ConfigError`.

    Those that the listener had before hand over their keys, so that a change does not lock out users of OAUTHBEARER
    while the server of the keys cannot be reached.
    """
    names = options.value(BrokerConfig.sasl_enabled_mechanisms) or ()  # without one the options are refused
    sources: dict[str, MechanismSource] = {}
    keys: KeySource | None = None
    for name in names:
        if name == "PLAIN":
            sources[name] = PlainSource(_plain_users(options))
        elif name == "OAUTHBEARER":
            keys = _key_source(options, broker)
            sources[name] = _oauth(options, broker, keys)
        else:
            sources[name] = _scram(name, broker)
    lifetimes = {name: options.value(BrokerConfig.connections_max_reauth_ms, name) for name in names}
    if keys is not None and before is not None and before.keys is not None:
        keys.take_over(before.keys)
    return ListenerMechanisms(Mechanisms(sources, lifetimes), keys)


# --- PLAIN


def _plain_users(options: ListenerSecurity) -> PlainUsers:
    option = BrokerConfig.tailrace_sasl_plain_users_file
    file = options.value(option, "PLAIN")
    name = options.name(option, "PLAIN")
    login = read_login(options, "PLAIN")
    try:
        if file is not None:
            return users_of_properties(Path(file).read_text(encoding="utf-8"))
        name = options.name(BrokerConfig.sasl_jaas_config, "PLAIN")
        if login is not None:
            return users_of_login(login)
    except OSError as error:
        raise ConfigError(name, f"{name}: {file} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(name, f"{name}: {error}") from None
    message = f"{options.endpoint} has the mechanism PLAIN and no users; set {option.name}, or {name} with user_NAME"
    raise ConfigError(name, message)


# --- SCRAM


def _scram(name: str, broker: Broker) -> ScramSource:
    mechanism = SCRAM_MECHANISMS[name]
    key = broker.config.delegation_token_secret_key
    credentials = ImageCredentials(mechanism, broker.image, broker.clock, key)
    return ScramSource(mechanism, credentials, Decoys(broker.decoy_secret))


# --- OAUTHBEARER


def _oauth(options: ListenerSecurity, broker: Broker, keys: KeySource | None) -> OAuthSource:
    if keys is None:
        return OAuthSource(_unsecured_check(options, broker), _no_refresh)
    return OAuthSource(keys.check, keys.refresh)


def _key_source(options: ListenerSecurity, broker: Broker) -> KeySource | None:
    """Return the source of the keys; None if the options name none."""
    option = BrokerConfig.sasl_oauthbearer_jwks_endpoint_url
    url = options.value(option, "OAUTHBEARER")
    if url is None:
        return None
    try:
        import joserfc  # noqa: F401
    except ImportError:
        raise ConfigError(option.name, f"{option.name} needs the extra tailrace[security]") from None
    refresh_ms = options.value(BrokerConfig.sasl_oauthbearer_jwks_endpoint_refresh_ms, "OAUTHBEARER")
    return KeySource(
        url,
        _rules(options),
        broker.clock,
        min(refresh_ms, _FILE_REFRESH_MS) if url.startswith("file:") else refresh_ms,
        Backoff(
            options.value(BrokerConfig.sasl_oauthbearer_jwks_endpoint_retry_backoff_ms, "OAUTHBEARER"),
            options.value(BrokerConfig.sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms, "OAUTHBEARER"),
        ),
    )


def _rules(options: ListenerSecurity) -> TokenRules:
    audiences = options.value(BrokerConfig.sasl_oauthbearer_expected_audience, "OAUTHBEARER")
    return TokenRules(
        expected_issuer=options.value(BrokerConfig.sasl_oauthbearer_expected_issuer, "OAUTHBEARER"),
        expected_audiences=frozenset(audiences or ()),
        clock_skew_s=options.value(BrokerConfig.sasl_oauthbearer_clock_skew_seconds, "OAUTHBEARER"),
        scope_claim_name=options.value(BrokerConfig.sasl_oauthbearer_scope_claim_name, "OAUTHBEARER"),
        sub_claim_name=options.value(BrokerConfig.sasl_oauthbearer_sub_claim_name, "OAUTHBEARER"),
    )


def _unsecured_check(options: ListenerSecurity, broker: Broker) -> Callable[[str], Token]:
    allowing = BrokerConfig.tailrace_sasl_oauthbearer_unsecured_enable
    if not options.value(allowing, "OAUTHBEARER"):
        name = BrokerConfig.sasl_oauthbearer_jwks_endpoint_url.name
        message = f"{options.endpoint} has the mechanism OAUTHBEARER and no keys for its tokens; set {name}"
        raise ConfigError(name, f"{message}, or for development {allowing.name}=true")
    login = read_login(options, "OAUTHBEARER") or Login(LoginModule.OAUTHBEARER, {})
    try:
        rules = unsecured_rules(login.options)
    except ValueError as error:
        name = options.name(BrokerConfig.sasl_jaas_config, "OAUTHBEARER")
        raise ConfigError(name, f"{name}: {error}") from None
    return lambda token: check_unsecured(token, rules, broker.clock.now_ms() / 1000)


async def _no_refresh() -> bool:
    return False

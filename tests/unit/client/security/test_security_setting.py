"""Security settings: what is missing, what contradicts itself, and that no secret is shown."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.client.security.secure_broker import JAAS, PASSWORD
from tests.unit.security.tls.tls_files import Authority

import tailrace
from tailrace.client.security.login import OAuthLogin, PlainLogin, ScramLogin
from tailrace.client.security.security import PLAINTEXT
from tailrace.client.setting import ClientSettings
from tailrace.config.error import ConfigError

SASL = {"security.protocol": "SASL_PLAINTEXT"}
TLS = {"security.protocol": "SSL"}


def made(config: dict[str, Any]) -> ClientSettings:
    return ClientSettings(None, config, {})


def test_without_settings_connections_are_plain() -> None:
    assert made({}).make_security() == PLAINTEXT


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (SASL, "sasl.mechanism is missing: one of PLAIN, .*; Kafka's default, GSSAPI, is not supported"),
        (SASL | {"sasl.mechanism": "GSSAPI"}, r"GSSAPI \(Kerberos\) is not supported; use PLAIN"),
        (SASL | {"sasl.mechanism": "PLAIN"}, "sasl.username is missing, which PLAIN needs"),
        (SASL | {"sasl.mechanism": "PLAIN", "sasl.username": "a"}, "sasl.password is missing"),
        (
            SASL | {"sasl.mechanism": "PLAIN", "sasl.jaas.config": JAAS["SCRAM-SHA-256"]},
            "sasl.jaas.config has the login module of SCRAM-SHA-256 and SCRAM-SHA-512, and sasl.mechanism=PLAIN",
        ),
        (
            SASL | {"sasl.mechanism": "PLAIN", "sasl.jaas.config": JAAS["PLAIN"], "sasl.username": "a"},
            "the login is given twice",
        ),
        (
            SASL | {"sasl.mechanism": "PLAIN", "sasl.jaas.config": f'x required password="{PASSWORD}";'},
            "sasl.jaas.config: JAAS config, line 1 column 1: this is not a known login module",
        ),
        (SASL | {"sasl.mechanism": "OAUTHBEARER"}, "OAUTHBEARER needs a source of tokens"),
        (
            SASL | {"sasl.mechanism": "OAUTHBEARER", "oauth_token": "abc"},
            "oauth_token must be a function that returns a token",
        ),
        (
            SASL | {"sasl.mechanism": "OAUTHBEARER", "sasl.login.callback.handler.class": "com.example.Mine"},
            "for a token from Python, pass oauth_token",
        ),
        ({"sasl.username": "a"}, "sasl.username has no effect with security.protocol=PLAINTEXT; set SASL_SSL or"),
        (SASL | {"ssl.ca.location": "ca.pem"}, "ssl.ca.location has no effect with security.protocol=SASL_PLAINTEXT"),
        (TLS | {"ssl.ca.location": "a", "ssl.truststore.location": "b"}, "are two names of one setting"),
        (TLS | {"ssl.key.location": "a"}, "ssl.key.location needs ssl.certificate.location"),
        (TLS | {"ssl.keystore.type": "DKS"}, "must be one of JKS, PEM, PKCS12"),
        (TLS | {"ssl.endpoint.identification.algorithm": "dns"}, "must be one of https"),
    ],
)
def test_what_is_wrong_is_named(config: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        made(config)
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"ssl.truststore.location": "missing.pem"}, "ssl.truststore.location: missing.pem: the file does not exist"),
        ({"ssl.enabled.protocols": "TLSv1.1"}, "ssl.enabled.protocols: TLSv1.1 is not supported"),
    ],
)
def test_files_that_cannot_be_used_are_refused_when_a_client_is_made(config: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        tailrace.Producer("localhost:9092", config=TLS | config)


def test_the_login_of_each_mechanism() -> None:
    for mechanism, kind in {"PLAIN": PlainLogin, "SCRAM-SHA-512": ScramLogin, "OAUTHBEARER": OAuthLogin}.items():
        login = made(SASL | {"sasl.mechanism": mechanism, "sasl.jaas.config": JAAS[mechanism]}).make_security().login
        assert isinstance(login, kind)
        assert login is not None
        assert login.mechanism == mechanism


def test_settings_of_java_and_kerberos_have_no_effect(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text(Authority().pem)
    ignored = {"ssl.provider": "SunJSSE", "sasl.kerberos.service.name": "kafka", "ssl.protocol": "TLSv1.3"}
    assert made(TLS | ignored | {"ssl.ca.location": str(tmp_path / "ca.pem")}).make_security().tls is not None


def test_secrets_are_not_shown() -> None:
    config = SASL | {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "alice", "sasl.password": PASSWORD}
    settings = made(config)
    security = settings.make_security()
    for shown in (repr(settings), str(settings), repr(security), repr(security.login), repr(settings.stores)):
        assert PASSWORD not in shown

"""How brokers reach each other: by which listener, and with which certificates and login."""

from pathlib import Path

import pytest
from tests.certificate import make_certificate
from tests.logged import logged

from tailrace.client.security.security import PLAINTEXT
from tailrace.client.security.token import TokenSource, tokens_of_callback
from tailrace.client.security.token_endpoint import TokenEndpoint
from tailrace.config.broker import BrokerConfig
from tailrace.config.error import ConfigError
from tailrace.runtime.peer_route import PeerRoute

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
CLUSTER = {"zookeeper.connect": "localhost:2181"}
SASL = {
    **CLUSTER,
    "listeners": "SASL_PLAINTEXT://:1",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.jaas.config": f'{PLAIN} required username="broker" password="b";',
}


def route(options: dict[str, str]) -> PeerRoute:
    config = BrokerConfig(options)
    return PeerRoute(lambda: config)


def test_by_default_brokers_use_no_login() -> None:
    plain = route(CLUSTER)
    assert (plain.listener_name, plain.security()) == ("PLAINTEXT", PLAINTEXT)


def test_a_login_comes_from_the_options() -> None:
    security = route(SASL).security()
    assert security.login is not None
    assert (security.tls, security.login.mechanism) == (None, "PLAIN")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("sasl.mechanism.inter.broker.protocol", None, "is the listener for brokers and requires a login"),
        ("sasl.jaas.config", None, "it needs a username and a password, with which"),
        ("sasl.jaas.config", f"{PLAIN} required;", "it needs a username and a password, with which"),
        ("sasl.jaas.config", "nonsense", "not a known login module"),
    ],
)
def test_a_broker_that_cannot_log_in_does_not_start(name: str, value: str | None, message: str) -> None:
    options = {**SASL, name: value or ""}
    if value is None:
        del options[name]
    with pytest.raises(ConfigError, match=message) as caught:
        route(options)
    assert caught.value.name == name


TOKENS = {
    **CLUSTER,
    "listeners": "SASL_PLAINTEXT://:1",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
    "sasl.jaas.config": f'{OAUTH} required clientId="broker" clientSecret="hush" scope="kafka";',
}


async def test_a_token_comes_from_the_oauth_server_of_the_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers could send unsigned tokens alone, which they themselves refuse."""
    asked: list[TokenEndpoint] = []

    def tokens(endpoint: TokenEndpoint, _context: object) -> TokenSource:
        asked.append(endpoint)
        return tokens_of_callback(lambda: "signed")

    monkeypatch.setattr("tailrace.client.security.token_setting.tokens_of_endpoint", tokens)
    handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
    own = "listener.name.sasl_plaintext.oauthbearer.sasl."
    endpoint = {f"{own}oauthbearer.token.endpoint.url": "https://issuer.example/token"}
    security = route(TOKENS | endpoint | {f"{own}login.callback.handler.class": handler}).security()
    assert security.login is not None
    assert b"auth=Bearer signed" in (await security.login.begin()).start()
    assert asked == [TokenEndpoint("https://issuer.example/token", "broker", "hush", "kafka")]


async def test_a_token_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("signed\n")
    file = {"sasl.oauthbearer.token.endpoint.url": (tmp_path / "token").as_uri()}
    login = route(TOKENS | file).security().login
    assert login is not None
    assert b"auth=Bearer signed" in (await login.begin()).start()


def test_brokers_send_unsigned_tokens_only_if_an_option_says_so() -> None:
    with pytest.raises(ConfigError, match="requires a token of OAUTHBEARER; set ") as caught:
        route(TOKENS)
    assert caught.value.name == "sasl.oauthbearer.token.endpoint.url"
    unsigned = {
        "tailrace.sasl.oauthbearer.unsecured.enable": "true",
        "sasl.jaas.config": f'{OAUTH} required unsecuredLoginStringClaim_sub="broker";',
    }
    login = route(TOKENS | unsigned).security().login
    assert login is not None
    assert login.mechanism == "OAUTHBEARER"


def test_an_oauth_server_needs_an_id_and_a_secret() -> None:
    options = {
        "sasl.oauthbearer.token.endpoint.url": "https://issuer.example/token",
        "sasl.jaas.config": f"{OAUTH} required;",
    }
    with pytest.raises(ConfigError, match=r"client\.credentials\.client\.id is missing"):
        route(TOKENS | options)


def test_a_single_broker_needs_no_login() -> None:
    options = {name: value for name, value in SASL.items() if name != "sasl.mechanism.inter.broker.protocol"}
    del options["zookeeper.connect"]
    assert route(options).listener_name == "SASL_PLAINTEXT"


def test_changed_certificates_are_used_for_the_next_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("old", "new"):
        make_certificate(tmp_path, name, "DNS:localhost")
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes((tmp_path / "old-ca.pem").read_bytes())
    options = {
        **CLUSTER,
        "listeners": "SSL://:1",
        "ssl.keystore.location": str(tmp_path / "old.pem"),
        "ssl.truststore.location": str(trusted),
    }
    peers = route(options)
    first = peers.security()
    assert first.tls is not None
    assert peers.security() is first
    trusted.write_bytes((tmp_path / "new-ca.pem").read_bytes())
    second = peers.security()
    assert second is not first
    trusted.write_bytes(b"rubbish")
    assert peers.security() is second
    assert "connections to other brokers go on as before: ssl.truststore.location: " in logged(caplog)

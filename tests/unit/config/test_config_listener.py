"""Listener options: addresses, names, security protocols, and what clients are told."""

import pytest

from tailrace.config import BrokerConfig, ConfigError
from tailrace.config.listener import Endpoint, parse_listeners, parse_protocol_map

PROTOCOLS = parse_protocol_map("map", "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT")


def refusal(**options: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig({name.replace("_", "."): text for name, text in options.items()})
    return caught.value


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("PLAINTEXT://localhost:9092", "localhost", 9092),
        ("PLAINTEXT://127.0.0.1:0", "127.0.0.1", 0),
        ("PLAINTEXT://:9092", "", 9092),
        ("PLAINTEXT://0.0.0.0:9092", "0.0.0.0", 9092),
        ("PLAINTEXT://[::1]:9092", "::1", 9092),
        ("PLAINTEXT://[::]:9092", "::", 9092),
        ("PLAINTEXT://[fe80::1%eth0]:9092", "fe80::1%eth0", 9092),
        ("plaintext://my-host_1.example.com:65535", "my-host_1.example.com", 65535),
    ],
)
def test_a_listener_is_read_and_written(text: str, host: str, port: int) -> None:
    (endpoint,) = parse_listeners("listeners", [text], PROTOCOLS)
    assert endpoint == Endpoint("PLAINTEXT", host, port, "PLAINTEXT")
    assert str(endpoint).lower() == text.lower()


@pytest.mark.parametrize(
    "text",
    [
        "localhost:9092",
        "PLAINTEXT://localhost",
        "PLAINTEXT://localhost:",
        "PLAINTEXT://localhost:-1",
        "PLAINTEXT://localhost:65536",
        "PLAINTEXT://localhost:٣",
        "PLAINTEXT://local host:9092",
        "PLAINTEXT://localhost:9092/path",
        "PLAINTEXT://::1:9092",
        "PLAINTEXT://[::1:9092",
        "PLAINTEXT://[localhost]:9092",
        "PLAINTEXT://[1::2::3]:9092",
        "://localhost:9092",
        "PLAIN TEXT://localhost:9092",
    ],
)
def test_what_is_not_a_listener_is_refused(text: str) -> None:
    error = refusal(listeners=text)
    assert error.name == "listeners"
    assert repr(text) in error.message


def test_a_listener_name_needs_a_protocol() -> None:
    assert "no security protocol is defined for listener INSIDE" in refusal(listeners="INSIDE://:9092").message


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_a_listener_with_tls_needs_a_key(protocol: str) -> None:
    options = {"listeners": f"{protocol}://:9092", "sasl.enabled.mechanisms": "PLAIN"}
    with pytest.raises(ConfigError, match=f"{protocol}://:9092 uses TLS and has no key; set ssl.keystore.location"):
        BrokerConfig(options)
    BrokerConfig({**options, "ssl.keystore.location": "/keys.pem"})
    BrokerConfig({**options, f"listener.name.{protocol.lower()}.ssl.keystore.key": "a key"})


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_listener_with_sasl_needs_a_mechanism(protocol: str) -> None:
    options = {"listeners": f"{protocol}://:9092", "ssl.keystore.location": "/keys.pem"}
    with pytest.raises(ConfigError, match=f"{protocol}://:9092 uses SASL and has no mechanism"):
        BrokerConfig(options)
    BrokerConfig({**options, "sasl.enabled.mechanisms": "SCRAM-SHA-512"})


def test_a_protocol_is_judged_after_the_map() -> None:
    options = {"listeners": "INSIDE://:9092", "listener.security.protocol.map": "INSIDE:SSL"}
    with pytest.raises(ConfigError, match="INSIDE://:9092 uses TLS"):
        BrokerConfig(options)


def test_kerberos_is_refused_by_name() -> None:
    assert "GSSAPI (Kerberos) is not supported; use PLAIN" in refusal(sasl_enabled_mechanisms="GSSAPI,PLAIN").message
    assert "GSSAPI (Kerberos) is not supported" in refusal(sasl_kerberos_service_name="kafka").message


def test_the_validator_of_tokens_may_be_named() -> None:
    """A server.properties that names it, as the advice on CVE-2026-33557 has it, did not start a broker."""
    option, package = "listener.name.inside.oauthbearer.sasl.oauthbearer.jwt.validator.class", "org.apache.kafka.common"
    BrokerConfig({**SECURE, option: f"{package}.security.oauthbearer.BrokerJwtValidator"})
    with pytest.raises(ConfigError, match="does not load Java classes"):
        BrokerConfig({**SECURE, option: "com.example.Validator"})


@pytest.mark.parametrize("name", ["jwks.endpoint.url", "token.endpoint.url"])
def test_urls_of_oauth_have_no_users(name: str) -> None:
    """Python's HTTP client does not use them, and DescribeConfigs would show the password."""
    option = f"sasl.oauthbearer.{name}"
    with pytest.raises(ConfigError, match="must not contain a user") as refused:
        BrokerConfig({option: "https://bob:secret@id.example/x"})
    assert "secret" not in refused.value.message
    BrokerConfig({option: "https://id.example/x?mail=bob@example.com"})


# --- options of one listener

TWO = {"listeners": "INSIDE://:1,OUTSIDE://:2", "listener.security.protocol.map": "INSIDE:SASL_SSL,OUTSIDE:SASL_SSL"}
SECURE = {**TWO, "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256", "ssl.keystore.location": "/all.pem"}


def test_a_listener_may_have_an_option_for_itself() -> None:
    config = BrokerConfig({**SECURE, "listener.name.outside.ssl.keystore.location": "/outside.pem"})
    inside, outside = (config.listener_security(listener) for listener in config.broker_listeners)
    assert inside.value(BrokerConfig.ssl_keystore_location) == "/all.pem"
    assert outside.value(BrokerConfig.ssl_keystore_location) == "/outside.pem"
    assert outside.name(BrokerConfig.ssl_keystore_location) == "listener.name.outside.ssl.keystore.location"
    assert inside.values() != outside.values()


def test_a_mechanism_of_a_listener_may_have_an_option_for_itself() -> None:
    name = "listener.name.inside.scram-sha-256.connections.max.reauth.ms"
    config = BrokerConfig({**SECURE, "connections.max.reauth.ms": "5", name: "7"})
    inside, outside = (config.listener_security(listener) for listener in config.broker_listeners)
    option = BrokerConfig.connections_max_reauth_ms
    assert inside.value(option, "SCRAM-SHA-256") == 7
    assert [inside.value(option, "PLAIN"), inside.value(option), outside.value(option, "SCRAM-SHA-256")] == [5, 5, 5]


def test_a_secret_of_a_listener_is_not_shown() -> None:
    name = "listener.name.inside.plain.sasl.jaas.config"
    config = BrokerConfig({**SECURE, name: "hunter2"})
    (entry,) = [entry for entry in config.entries() if entry.name == name]
    assert (entry.value, entry.is_sensitive) == (None, True)
    assert "hunter2" not in repr([*config.entries()])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("listener.name.elsewhere.ssl.client.auth", "elsewhere is not one of the listeners INSIDE, OUTSIDE"),
        ("listener.name.inside.num.partitions", "not among the options that a listener may have for itself"),
        ("listener.name.inside.ssl.client.auth", "must be one of none, requested, required"),
        ("listener.name.ssl.client.auth", "not among the options that a listener may have for itself"),
    ],
)
def test_a_bad_option_of_a_listener_is_refused_by_name(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        BrokerConfig({**SECURE, name: "maybe" if "inside.ssl" in name else "none"})
    assert caught.value.name == name


def test_an_option_of_a_listener_can_change_while_the_broker_runs() -> None:
    name = "listener.name.inside.ssl.keystore.location"
    config = BrokerConfig(SECURE).with_dynamic({name: "/new.pem"}, {})
    inside, _ = (config.listener_security(listener) for listener in config.broker_listeners)
    assert inside.value(BrokerConfig.ssl_keystore_location) == "/new.pem"


# --- protocols


@pytest.mark.parametrize("text", ["INSIDE", "INSIDE:", ":SSL", "INSIDE:TLS", "A:SSL,A:SSL"])
def test_a_bad_protocol_map_is_refused(text: str) -> None:
    assert refusal(listener_security_protocol_map=text).name == "listener.security.protocol.map"


def test_names_and_addresses_must_differ() -> None:
    assert "used more than once" in refusal(listeners="PLAINTEXT://:1,PLAINTEXT://:2").message
    protocols = {"listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT"}
    with pytest.raises(ConfigError, match="have the same address"):
        BrokerConfig({"listeners": "A://h:9092,B://h:9092", **protocols})
    config = BrokerConfig({"listeners": "A://h:0,B://h:0", **protocols})
    assert [endpoint.name for endpoint in config.broker_listeners] == ["A", "B"]


def test_controller_listeners_are_not_opened_and_it_is_said() -> None:
    config = BrokerConfig(
        {
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "controller.listener.names": "CONTROLLER",
            "advertised.listeners": "PLAINTEXT://me:9092,CONTROLLER://me:9093",
        }
    )
    assert config.broker_listeners == (Endpoint("PLAINTEXT", "", 9092),)
    assert config.notices == ("listener CONTROLLER://:9093 is not opened: Tailrace has no controller listeners",)


def test_some_listener_must_be_left_for_clients() -> None:
    error = refusal(listeners="CONTROLLER://:9093", controller_listener_names="CONTROLLER")
    assert "none is left for clients" in error.message


@pytest.mark.parametrize(
    ("listeners", "advertised", "told"),
    [
        ("PLAINTEXT://h:9092", None, "PLAINTEXT://h:9092"),
        ("PLAINTEXT://h:0", None, "PLAINTEXT://h:40000"),
        ("PLAINTEXT://:0", None, "PLAINTEXT://default:40000"),
        ("PLAINTEXT://0.0.0.0:9092", None, "PLAINTEXT://default:9092"),
        ("PLAINTEXT://[::]:9092", None, "PLAINTEXT://default:9092"),
        ("PLAINTEXT://:9092", "PLAINTEXT://broker.example.com:19092", "PLAINTEXT://broker.example.com:19092"),
        ("PLAINTEXT://:0", "PLAINTEXT://broker.example.com:0", "PLAINTEXT://broker.example.com:40000"),
        ("PLAINTEXT://:0", "PLAINTEXT://:19092", "PLAINTEXT://default:19092"),
    ],
)
def test_clients_are_told_an_address_they_can_use(listeners: str, advertised: str | None, told: str) -> None:
    config = BrokerConfig({"listeners": listeners, **({"advertised.listeners": advertised} if advertised else {})})
    bound_port = config.broker_listeners[0].port or 40000
    assert str(config.advertised_listener("PLAINTEXT", bound_port, "default")) == told


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]"])
def test_every_interface_cannot_be_advertised(host: str) -> None:
    error = refusal(advertised_listeners=f"PLAINTEXT://{host}:9092")
    assert error.name == "advertised.listeners"
    assert "which no client can connect to" in error.message


def test_what_is_advertised_must_be_opened() -> None:
    with pytest.raises(ConfigError, match="B is not one of the listeners PLAINTEXT"):
        BrokerConfig({"advertised.listeners": "B://h:1", "listener.security.protocol.map": "B:PLAINTEXT"})


def test_the_inter_broker_listener_must_be_opened() -> None:
    assert "INSIDE is not one of the listeners" in refusal(inter_broker_listener_name="INSIDE").message
    options = {"listeners": "A://:1,B://:2", "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT"}
    assert BrokerConfig(options).inter_broker_listener.name == "A"
    assert BrokerConfig({**options, "inter.broker.listener.name": "b"}).inter_broker_listener.name == "B"


def test_brokers_use_the_first_listener_with_their_protocol() -> None:
    options = {**SECURE, "listeners": "PLAINTEXT://:1,INSIDE://:2,OUTSIDE://:3"}
    assert BrokerConfig(options).inter_broker_listener.name == "PLAINTEXT"
    assert (
        BrokerConfig({**options, "security.inter.broker.protocol": "SASL_SSL"}).inter_broker_listener.name == "INSIDE"
    )
    named = {**options, "inter.broker.listener.name": "OUTSIDE"}
    assert BrokerConfig(named).inter_broker_listener.name == "OUTSIDE"

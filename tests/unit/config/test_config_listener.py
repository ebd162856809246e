"""Listener options: addresses, names, security protocols, and what clients are told."""

import pytest

from runnel.config import BrokerConfig, ConfigError
from runnel.config.listener import Endpoint, parse_listeners, parse_protocol_map

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


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_security_protocols_are_refused_by_name(protocol: str) -> None:
    message = refusal(listeners=f"{protocol}://:9092").message
    assert f"uses {protocol}, which Runnel does not support yet" in message


def test_a_protocol_is_judged_after_the_map() -> None:
    options = {"listeners": "INSIDE://:9092", "listener.security.protocol.map": "INSIDE:SSL"}
    with pytest.raises(ConfigError, match="INSIDE://:9092 uses SSL"):
        BrokerConfig(options)


@pytest.mark.parametrize("text", ["INSIDE", "INSIDE:", ":SSL", "INSIDE:TLS", "A:SSL,A:SSL"])
def test_a_bad_protocol_map_is_refused(text: str) -> None:
    assert refusal(listener_security_protocol_map=text).name == "listener.security.protocol.map"


def test_names_and_addresses_must_differ() -> None:
    assert "used more than once" in refusal(listeners="PLAINTEXT://:1,PLAINTEXT://:2").message
    protocols = {"listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT"}
    with pytest.raises(ConfigError, match="want the same address"):
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
    assert config.notices == ("listener CONTROLLER://:9093 is not opened: Runnel has no controller listeners",)


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


def test_brokers_speak_only_plaintext_to_each_other() -> None:
    options = {"listeners": "PLAINTEXT://:1,INSIDE://:2", "listener.security.protocol.map": "INSIDE:SASL_SSL"}
    with pytest.raises(ConfigError) as caught:
        BrokerConfig({**options, "inter.broker.listener.name": "INSIDE"})
    assert caught.value.name == "inter.broker.listener.name"
    assert "INSIDE uses SASL_SSL, but brokers speak only PLAINTEXT to each other yet" in caught.value.message
    assert "name a PLAINTEXT listener that only brokers can reach" in caught.value.message

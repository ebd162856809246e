"""The configs of schema validation: which registries a broker may have, and what a topic asks for."""

import pytest

from tailrace.config.broker import BrokerConfig
from tailrace.config.error import ConfigError
from tailrace.config.schema import TOPIC_NAME_STRATEGY
from tailrace.config.topic import TopicConfig, validate_topic_overrides

URL = "confluent.schema.registry.url"
PACKAGE = "io.confluent.kafka.serializers.subject"
CREDENTIALS = "user:secret"
RECORD_NAME_STRATEGY = f"{PACKAGE}.RecordNameStrategy"


def test_a_broker_has_any_number_of_registries() -> None:
    assert BrokerConfig().confluent_schema_registry_url == ()
    config = BrokerConfig({URL: "http://one.example:8081, https://two.example/path"})
    assert config.confluent_schema_registry_url == ("http://one.example:8081", "https://two.example/path")


@pytest.mark.parametrize(
    "url",
    [
        "one.example:8081",
        "ftp://one.example",
        "http://",
        "http://one.example:x",
        "http://[::1",
        f"http://{CREDENTIALS}@one.example",
    ],
)
def test_other_texts_are_not_registries(url: str) -> None:
    with pytest.raises(ConfigError, match="must be a list of URLs"):
        BrokerConfig({URL: f"http://one.example,{url}"})


@pytest.mark.parametrize("secret", ["secret", "sec/ret", "sec@ret"])
def test_the_error_for_a_url_does_not_show_its_password(secret: str) -> None:
    """Brokers printed the whole value, and AlterConfigs returned it."""
    with pytest.raises(ConfigError, match="must be a list of URLs") as refused:
        BrokerConfig({URL: f"http://one.example:8081,http://user:{secret}@two.example"})
    assert (secret in refused.value.message, "two.example" in refused.value.message) == (False, True)


def test_the_password_is_not_shown() -> None:
    config = BrokerConfig({"confluent.basic.auth.user.info": CREDENTIALS})
    assert config.confluent_basic_auth_user_info == CREDENTIALS
    entry = next(entry for entry in config.entries() if entry.name == "confluent.basic.auth.user.info")
    assert (entry.value, entry.is_sensitive) == (None, True)


def test_the_password_never_comes_from_a_url() -> None:
    BrokerConfig({"confluent.basic.auth.credentials.source": "USER_INFO"})
    with pytest.raises(ConfigError, match=r"use confluent.basic.auth.user.info"):
        BrokerConfig({"confluent.basic.auth.credentials.source": "URL"})


@pytest.mark.parametrize(
    ("overrides", "parts"),
    [
        ({}, ()),
        ({"confluent.key.schema.validation": "true"}, ("key",)),
        ({"confluent.value.schema.validation": "TRUE"}, ("value",)),
        ({"confluent.key.schema.validation": "true", "confluent.value.schema.validation": "true"}, ("key", "value")),
        ({"confluent.key.schema.validation": "false", "confluent.value.schema.validation": "true"}, ("value",)),
    ],
)
def test_keys_and_values_are_validated_apart(overrides: dict[str, str], parts: tuple[str, ...]) -> None:
    assert TopicConfig.resolve(overrides, BrokerConfig()).schema_parts == parts


def test_the_strategy_decides_the_subject() -> None:
    config = TopicConfig.resolve({"confluent.key.subject.name.strategy": RECORD_NAME_STRATEGY}, BrokerConfig())
    assert config.confluent_value_subject_name_strategy == TOPIC_NAME_STRATEGY == f"{PACKAGE}.TopicNameStrategy"
    assert (config.schema_subject("t", "key"), config.schema_subject("t", "value")) == (None, "t-value")


def test_a_topic_with_validation_needs_a_broker_with_a_registry() -> None:
    overrides = {"confluent.value.schema.validation": "true"}
    validate_topic_overrides(overrides, BrokerConfig({URL: "http://one.example"}))
    with pytest.raises(ConfigError, match=r"set confluent.schema.registry.url on every broker"):
        validate_topic_overrides(overrides, BrokerConfig())


def test_the_configs_are_listed_where_they_are_set() -> None:
    """Apache Kafka has none of them, and tools compare the configs of topics."""
    names = {"confluent.value.schema.validation": "true", "confluent.value.subject.name.strategy": RECORD_NAME_STRATEGY}
    for overrides in ({}, names):
        entries = TopicConfig.resolve(overrides, BrokerConfig()).entries()
        assert {entry.name: entry.value for entry in entries if entry.name.startswith("confluent.")} == overrides


@pytest.mark.parametrize("store", ["truststore", "keystore"])
def test_certificates_are_pem_files(store: str) -> None:
    BrokerConfig({f"confluent.ssl.{store}.location": "file.pem", f"confluent.ssl.{store}.type": "PEM"})
    with pytest.raises(ConfigError, match="openssl pkcs12 converts"):
        BrokerConfig({f"confluent.ssl.{store}.type": "JKS"})
    with pytest.raises(ConfigError, match=r"confluent\.ssl\.key\.password is that of the private key"):
        BrokerConfig({f"confluent.ssl.{store}.password": "x"})


def test_a_user_has_a_password() -> None:
    with pytest.raises(ConfigError, match="must be USER:PASSWORD") as caught:
        BrokerConfig({"confluent.basic.auth.user.info": "only-a-secret"})
    assert "only-a-secret" not in str(caught.value)

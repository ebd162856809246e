"""Options of schema validation: the registry that a broker asks, and the subjects that a topic's ids belong to.

The names are those of Confluent Server, so that its tools and files work unchanged.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tailrace.base.registry_address import RegistryAddress
from tailrace.config.check import PEM_ONLY, Check, one_of, only
from tailrace.config.declaration import nullable_string, password, string, string_list
from tailrace.config.error import ConfigError

_STRATEGIES = "io.confluent.kafka.serializers.subject"
TOPIC_NAME_STRATEGY = f"{_STRATEGIES}.TopicNameStrategy"
SUBJECT_NAME_STRATEGY = one_of(
    TOPIC_NAME_STRATEGY, f"{_STRATEGIES}.RecordNameStrategy", f"{_STRATEGIES}.TopicRecordNameStrategy"
)
RECORD_NAME_STRATEGIES = (
    "With RecordNameStrategy and TopicRecordNameStrategy the subject depends on the schema, which the broker does not "
    "read: it only checks that the id is registered under some subject."
)

VALIDATION_NAMES = ("confluent.key.schema.validation", "confluent.value.schema.validation")


def _is_registry_url(text: str) -> bool:
    try:
        RegistryAddress.of(text)
    except ValueError:
        return False
    return True


REGISTRY_URLS: Check[tuple[str, ...]] = Check(
    "a list of URLs such as http://localhost:8081, without user and password",
    lambda urls: all(_is_registry_url(url) for url in urls),
)
USER_INFO: Check[str] = Check("USER:PASSWORD", lambda text: text.find(":") > 0)


class SchemaOptions:
    """The options of a broker for schema validation."""

    confluent_schema_registry_url = string_list(
        "confluent.schema.registry.url",
        (),
        "URLs of the schema registries that the broker asks about schema ids, in order of preference. Topics with "
        "`confluent.key.schema.validation` or `confluent.value.schema.validation` need it.",
        check=REGISTRY_URLS,
    )
    confluent_basic_auth_credentials_source = string(
        "confluent.basic.auth.credentials.source",
        "USER_INFO",
        "Source of the user and the password for the schema registries. Confluent Server can also take them from the "
        "URLs.",
        check=only("USER_INFO", "passwords in URLs would be visible to clients; use confluent.basic.auth.user.info"),
    )
    confluent_basic_auth_user_info = password(
        "confluent.basic.auth.user.info",
        "User and password for the schema registries, as USER:PASSWORD.",
        check=USER_INFO,
    )
    confluent_ssl_truststore_location = nullable_string(
        "confluent.ssl.truststore.location",
        "PEM file with the certificates that verify those of the schema registries. If it is not set, those of the "
        "system are used.",
    )
    confluent_ssl_truststore_type = string(
        "confluent.ssl.truststore.type", "PEM", "Format of the truststore.", check=PEM_ONLY
    )
    confluent_ssl_keystore_location = nullable_string(
        "confluent.ssl.keystore.location",
        "PEM file with the private key and certificates that authenticate the broker to the schema registries.",
    )
    confluent_ssl_keystore_type = string(
        "confluent.ssl.keystore.type", "PEM", "Format of the keystore.", check=PEM_ONLY
    )
    confluent_ssl_key_password = password("confluent.ssl.key.password", "Password of the private key, if it has one.")


def check_registry_url(topic_values: Mapping[str, Any], urls: Sequence[str]) -> None:
    """Raise `ConfigError` if a topic asks for schema validation and the broker has no registry."""
    name = next((name for name in VALIDATION_NAMES if topic_values.get(name)), None)
    if name is not None and not urls:
        message = f"{name} needs a schema registry: set confluent.schema.registry.url on every broker and restart it"
        raise ConfigError(name, message)

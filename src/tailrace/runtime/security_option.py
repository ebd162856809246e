"""The security options of a listener, in the form in which TLS and logins take them."""

from pathlib import Path
from typing import NamedTuple, Self

from tailrace.base.file_stamp import Stamp, take_stamps
from tailrace.config.broker import BrokerConfig
from tailrace.config.error import ConfigError
from tailrace.config.listener_security import ListenerSecurity
from tailrace.security.jaas import JaasError, Login, parse_jaas
from tailrace.security.tls.store import Stores


class Origin(NamedTuple):
    """What the security of a listener is made from: its options, and the files that they name, as they are now."""

    values: tuple[object, ...]
    stamps: dict[Path, Stamp | None]

    @classmethod
    def of(cls, options: ListenerSecurity) -> Self:
        """Return the present origin; another one means that the security has to be made again."""
        users = options.value(BrokerConfig.tailrace_sasl_plain_users_file, "PLAIN")
        files = [*make_stores(options).files, *([] if users is None else [Path(users)])]
        return cls(options.values(), take_stamps(files))

    def __repr__(self) -> str:
        return f"Origin({[str(file) for file in self.stamps]})"


def make_stores(options: ListenerSecurity) -> Stores:
    """Return where the keys and certificates of a listener are."""
    value = options.value
    return Stores(
        keystore_type=value(BrokerConfig.ssl_keystore_type),
        keystore_location=value(BrokerConfig.ssl_keystore_location),
        keystore_password=value(BrokerConfig.ssl_keystore_password),
        key_password=value(BrokerConfig.ssl_key_password),
        keystore_key=value(BrokerConfig.ssl_keystore_key),
        keystore_certificate_chain=value(BrokerConfig.ssl_keystore_certificate_chain),
        truststore_type=value(BrokerConfig.ssl_truststore_type),
        truststore_location=value(BrokerConfig.ssl_truststore_location),
        truststore_password=value(BrokerConfig.ssl_truststore_password),
        truststore_certificates=value(BrokerConfig.ssl_truststore_certificates),
    )


def tls_versions(options: ListenerSecurity) -> list[str]:
    """Return the versions of TLS that a listener allows."""
    highest = options.value(BrokerConfig.ssl_protocol)
    enabled = options.value(BrokerConfig.ssl_enabled_protocols)
    return [version for version in enabled if highest == "TLS" or version <= highest]


def read_login(options: ListenerSecurity, mechanism: str) -> Login | None:
    """Return the login that the options have for a mechanism; None if there is none, or one of another mechanism."""
    option = BrokerConfig.sasl_jaas_config
    text = options.value(option, mechanism)
    if text is None:
        return None
    try:
        login = parse_jaas(text)
    except JaasError as error:
        name = options.name(option, mechanism)
        raise ConfigError(name, f"{name}: {error}") from None
    return login if mechanism in login.module.mechanisms else None

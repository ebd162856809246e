"""The settings of clients under Kafka's names, each declared once.

A name is written as in Kafka's files (`{"linger.ms": 5}`) or as a Python keyword (`linger_ms=5`).
Values are Python values or text. An unknown name is an error that suggests a similar one.
"""

import os
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from tailrace.base.limits import PRODUCE_BUFFER_BYTES_MAX, PRODUCE_REQUEST_BYTES_MAX
from tailrace.base.sentinel import INT32_MAX
from tailrace.base.variable import BOOTSTRAP_VARIABLE
from tailrace.client.address import parse_addresses
from tailrace.client.security.security import Security, make_security
from tailrace.client.security.setting import IGNORED, SecuritySettings, security_problems
from tailrace.client.security.token import TokenCallback
from tailrace.config.check import Check, at_least, between, one_of
from tailrace.config.configuration import parse_options, raise_problems, suggestion
from tailrace.config.declaration import boolean, integer, long, nullable_string, string
from tailrace.config.error import ConfigError
from tailrace.config.option import Importance, render_value
from tailrace.config.unit import KIB, MINUTE_MS, SECOND_MS
from tailrace.records.compression import Compression

SettingValue: TypeAlias = str | int | float | bool | Sequence[str] | TokenCallback | None

_TOKEN_CALLBACK = "oauth_token"  # noqa: S105 - the name of a setting

_ADDRESSES = "Addresses of some brokers, as HOST:PORT separated by commas; the client gets the others from them."


def _is_address_list(text: str) -> bool:
    try:
        parse_addresses(text)
    except ValueError:
        return False
    return True


class ClientSettings(SecuritySettings):
    """The settings of every client."""

    bootstrap_servers = string(
        "bootstrap.servers",
        "localhost:9092",
        _ADDRESSES,
        check=Check("HOST:PORT, with commas between several", _is_address_list),
        importance=Importance.HIGH,
    )
    client_id = string("client.id", "tailrace", "Name of this client in the brokers' logs and quotas.")
    request_timeout_ms = integer(
        "request.timeout.ms", 30 * SECOND_MS, "How long the client waits for an answer of a broker.", check=at_least(1)
    )
    retry_backoff_ms = long("retry.backoff.ms", 100, "Wait before the first retry.", check=at_least(0))
    retry_backoff_max_ms = long("retry.backoff.max.ms", SECOND_MS, "Longest wait before a retry.", check=at_least(0))
    metadata_max_age_ms = long(
        "metadata.max.age.ms", 5 * MINUTE_MS, "Age at which metadata is refreshed.", check=at_least(1)
    )

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None,
        config: Mapping[str, SettingValue] | None,
        keywords: Mapping[str, SettingValue],
    ) -> None:
        """Raise `ConfigError` with all problems at once.

        `oauth_token` is a function that returns a token for OAUTHBEARER; it may be among the keywords or in `config`.
        """
        config, keywords = dict(config or {}), dict(keywords)
        callback = keywords.pop(_TOKEN_CALLBACK, None) or config.pop(_TOKEN_CALLBACK, None)
        texts, problems = _collect(type(self), bootstrap_servers, config, keywords)
        if callback is not None and not callable(callback):
            problems.append(ConfigError(_TOKEN_CALLBACK, "oauth_token must be a function that returns a token"))
        values = parse_options(self.options, texts, problems)
        self.__dict__.update({o.attribute: values.get(name, o.default) for name, o in self.options.items()})
        self.__dict__["given"] = frozenset(texts)
        self.__dict__["_oauth_token"] = callback
        found = security_problems(self, self.given, has_token_source=callback is not None)
        raise_problems([*found, *self._complaints()])

    given: frozenset[str]
    """The names of the settings that the user has set."""
    _oauth_token: TokenCallback | None

    def make_security(self) -> Security:
        """Return how connections are secured; raises `ConfigError` if a file of keys or certificates cannot be used."""
        return make_security(self, self._oauth_token)

    def _complaints(self) -> list[ConfigError]:
        """Return the problems of settings that contradict each other."""
        return []


class AdminSettings(ClientSettings):
    """The settings of an admin client."""

    default_api_timeout_ms = integer(
        "default.api.timeout.ms", MINUTE_MS, "How long a call may take, with its retries.", check=at_least(1)
    )


class ProducerSettings(ClientSettings):
    """The settings of a producer."""

    acks = string(
        "acks",
        "all",
        "Replicas that must have a record before it is acknowledged: none (0), the leader (1), all in-sync ones (all).",
        check=one_of("all", "-1", "0", "1"),
    )
    batch_size = integer(
        "batch.size",
        512 * KIB,
        "Size at which a batch is sent, before compression. Kafka's default is 16384, because it reserves the memory"
        " in advance.",
        check=at_least(1),
    )
    linger_ms = long("linger.ms", 5, "How long a batch waits for more records before it is sent.", check=at_least(0))
    buffer_memory = long(
        "buffer.memory",
        PRODUCE_BUFFER_BYTES_MAX,
        "Memory for records that are not acknowledged.",
        check=at_least(1),
    )
    max_block_ms = long(
        "max.block.ms",
        MINUTE_MS,
        "How long send waits for metadata or memory before it raises an error.",
        check=at_least(0),
    )
    max_request_size = integer(
        "max.request.size",
        PRODUCE_REQUEST_BYTES_MAX,
        "Largest record, and largest request with more than one batch. Kafka's default is 1048576.",
        check=at_least(1),
    )
    delivery_timeout_ms = integer(
        "delivery.timeout.ms", 2 * MINUTE_MS, "How long a record may wait for its acknowledgement.", check=at_least(1)
    )
    retries = integer("retries", INT32_MAX, "Largest number of retries of a batch.", check=at_least(0))
    max_in_flight_requests_per_connection = integer(
        "max.in.flight.requests.per.connection",
        5,
        "Largest number of requests in flight to one broker.",
        check=at_least(1),
    )
    enable_idempotence = boolean(
        "enable.idempotence",
        True,
        "Whether brokers recognise retries, so that each record is written once. It needs acks=all.",
    )
    compression_type = string(
        "compression.type",
        "none",
        "Codec of batches.",
        check=one_of(*(codec.config_name for codec in Compression)),
    )
    compression_gzip_level = integer("compression.gzip.level", -1, "Compression level of gzip.", check=between(-1, 9))
    compression_lz4_level = integer("compression.lz4.level", 9, "Compression level of lz4.", check=between(1, 17))
    compression_zstd_level = integer(
        "compression.zstd.level", 3, "Compression level of zstd.", check=between(-131072, 22)
    )
    partitioner_ignore_keys = boolean(
        "partitioner.ignore.keys", False, "Whether records with keys get their partitions like those without."
    )
    transactional_id = nullable_string(
        "transactional.id",
        "Id of a producer's transactions, which survives restarts. A new producer of the id fences older ones.",
        check=Check("a name of at least one character", bool),
    )
    transaction_timeout_ms = integer(
        "transaction.timeout.ms",
        MINUTE_MS,
        "How long a transaction may be open before its coordinator aborts it.",
        check=at_least(1),
    )
    transaction_two_phase_commit_enable = boolean(
        "transaction.two.phase.commit.enable",
        False,
        "Whether transactions may be prepared, and then have no timeout (KIP-939).",
    )

    @property
    def is_idempotent(self) -> bool:
        """Whether the producer is idempotent; as in Kafka, other settings can turn off the default."""
        return self.enable_idempotence and self.acks in ("all", "-1") and self._in_flight_allows

    @property
    def _in_flight_allows(self) -> bool:
        return self.max_in_flight_requests_per_connection <= IDEMPOTENT_IN_FLIGHT_MAX

    @property
    def required_acks(self) -> int:
        """The value of acks in requests."""
        return -1 if self.acks == "all" else int(self.acks)

    @property
    def compression(self) -> Compression:
        """The codec."""
        return Compression[self.compression_type.upper()]

    @property
    def compression_level(self) -> int | None:
        """The level of the codec; None for the default of the library."""
        name = f"compression.{self.compression_type}.level"
        return self.__dict__[name.replace(".", "_")] if name in self.given else None

    def _complaints(self) -> list[ConfigError]:
        found = []
        if "enable.idempotence" in self.given and self.enable_idempotence and not self.is_idempotent:
            needs = f"acks=all and max.in.flight.requests.per.connection up to {IDEMPOTENT_IN_FLIGHT_MAX}"
            found.append(ConfigError("enable.idempotence", f"enable.idempotence=true needs {needs}"))
        found += self._transaction_complaints()
        least_ms = self.linger_ms + self.request_timeout_ms
        if self.delivery_timeout_ms < least_ms:
            name = "delivery.timeout.ms"
            found.append(ConfigError(name, f"{name} must be at least linger.ms + request.timeout.ms ({least_ms})"))
        return found

    def _transaction_complaints(self) -> list[ConfigError]:
        if self.transactional_id is None:
            alone = [name for name in _TRANSACTION_ONLY if name in self.given]
            return [ConfigError(name, f"{name} has no effect without transactional.id") for name in alone]
        found = []
        if not self.is_idempotent:
            text = "transactional.id needs enable.idempotence=true, acks=all and max.in.flight.requests.per.connection"
            found.append(ConfigError("transactional.id", f"{text} up to {IDEMPOTENT_IN_FLIGHT_MAX}"))
        if self.transaction_two_phase_commit_enable and "transaction.timeout.ms" in self.given:
            name = "transaction.timeout.ms"
            found.append(ConfigError(name, f"{name} has no effect with transaction.two.phase.commit.enable=true"))
        return found


_TRANSACTION_ONLY = ("transaction.timeout.ms", "transaction.two.phase.commit.enable")

IDEMPOTENT_IN_FLIGHT_MAX = 5
"""Brokers remember the last five batches of a producer."""


def _collect(
    kind: type[ClientSettings],
    bootstrap_servers: str | Sequence[str] | None,
    config: Mapping[str, SettingValue],
    keywords: Mapping[str, SettingValue],
) -> tuple[dict[str, str], list[ConfigError]]:
    """Return all settings as text under Kafka's names."""
    keyword_names = {option.attribute: name for name, option in kind.options.items()}
    given: list[tuple[str, str | None, SettingValue]] = []
    if bootstrap_servers is not None:
        given.append(("bootstrap.servers", "bootstrap.servers", bootstrap_servers))
    given += [(name, name if name in kind.options else None, value) for name, value in config.items()]
    given += [(name, keyword_names.get(name), value) for name, value in keywords.items()]
    texts: dict[str, str] = {}
    problems: list[ConfigError] = []
    for written, name, value in given:
        if written.replace("_", ".") in IGNORED:
            continue
        if name is None:
            known = keyword_names if written in keywords else kind.options
            problems.append(ConfigError(written, f"Unknown setting {written}{suggestion(written, known)}"))
        elif name in texts:
            problems.append(ConfigError(name, f"{name} is given twice"))
        elif value is not None:
            texts[name] = _text(value)
    if (variable := os.environ.get(BOOTSTRAP_VARIABLE)) and "bootstrap.servers" not in texts:
        texts["bootstrap.servers"] = variable
    return texts, problems


def _text(value: SettingValue) -> str:
    if callable(value):
        return ""  # no setting but oauth_token is a function; this one is refused by the check of its value
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(value)
    return render_value(value) or ""

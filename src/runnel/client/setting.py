"""The settings of clients, in Kafka's names, each declared once.

A name is written as in Kafka's files (`{"linger.ms": 5}`) or as a Python keyword (`linger_ms=5`).
Values may be Python's or text. What is not known is refused, with the name that may have been meant.
"""

import os
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from runnel.base.variable import BOOTSTRAP_VARIABLE
from runnel.client.address import parse_addresses
from runnel.config.check import Check, at_least, between, one_of, only
from runnel.config.configuration import Configuration, parse_options, raise_problems, suggestion
from runnel.config.declaration import boolean, integer, long, nullable_string, string
from runnel.config.error import ConfigError
from runnel.config.option import INT32_MAX, Importance, render_value
from runnel.config.unit import KIB, MIB, MINUTE_MS, SECOND_MS
from runnel.records.compression import Compression

SettingValue: TypeAlias = str | int | float | bool | Sequence[str] | None

_ADDRESSES = "The addresses of some brokers, HOST:PORT with commas between; the others are learned from them."


def _is_address_list(text: str) -> bool:
    try:
        parse_addresses(text)
    except ValueError:
        return False
    return True


class ClientSettings(Configuration):
    """What every client has."""

    bootstrap_servers = string(
        "bootstrap.servers",
        "localhost:9092",
        _ADDRESSES,
        check=Check("HOST:PORT, with commas between several", _is_address_list),
        importance=Importance.HIGH,
    )
    client_id = string("client.id", "runnel", "A name for this client in the brokers' logs and quotas.")
    request_timeout_ms = integer(
        "request.timeout.ms", 30 * SECOND_MS, "How long a broker may take to answer.", check=at_least(1)
    )
    retry_backoff_ms = long(
        "retry.backoff.ms", 100, "The wait before the first attempt to do something again.", check=at_least(0)
    )
    retry_backoff_max_ms = long(
        "retry.backoff.max.ms", SECOND_MS, "The longest wait before doing something again.", check=at_least(0)
    )
    metadata_max_age_ms = long(
        "metadata.max.age.ms", 5 * MINUTE_MS, "How often leaders and partitions are asked for anew.", check=at_least(1)
    )
    security_protocol = string(
        "security.protocol",
        "PLAINTEXT",
        "How brokers are talked to.",
        check=only("PLAINTEXT", "this client has no TLS and no SASL yet"),
    )

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None,
        config: Mapping[str, SettingValue] | None,
        keywords: Mapping[str, SettingValue],
    ) -> None:
        """Raises `ConfigError` with everything that is wrong."""
        texts, problems = _collect(type(self), bootstrap_servers, config or {}, keywords)
        values = parse_options(self.options, texts, problems)
        self.__dict__.update({o.attribute: values.get(name, o.default) for name, o in self.options.items()})
        self.__dict__["given"] = frozenset(texts)
        raise_problems(self._complaints())

    given: frozenset[str]
    """The names of the settings that were not left to their defaults."""

    def _complaints(self) -> list[ConfigError]:
        """What is wrong with settings that are each right by themselves."""
        return []


class AdminSettings(ClientSettings):
    """What an admin client has."""

    default_api_timeout_ms = integer(
        "default.api.timeout.ms", MINUTE_MS, "How long a call may take, attempts included.", check=at_least(1)
    )


class ProducerSettings(ClientSettings):
    """What a producer has."""

    acks = string(
        "acks",
        "all",
        "Who must have a record before it counts as written: nobody (0), the leader (1), all in-sync replicas (all).",
        check=one_of("all", "-1", "0", "1"),
    )
    batch_size = integer(
        "batch.size",
        512 * KIB,
        "The size at which a batch leaves, before compression. Kafka's default is 16384, because it sets the memory"
        " aside in advance.",
        check=at_least(1),
    )
    linger_ms = long("linger.ms", 5, "How long a batch waits for more records.", check=at_least(0))
    buffer_memory = long(
        "buffer.memory", 32 * MIB, "The memory for records that are not acknowledged.", check=at_least(1)
    )
    max_block_ms = long(
        "max.block.ms", MINUTE_MS, "How long send waits for metadata or memory before it raises.", check=at_least(0)
    )
    max_request_size = integer(
        "max.request.size",
        4 * MIB,
        "The largest record, and the size of a request with more than one batch. Kafka's default is 1048576.",
        check=at_least(1),
    )
    delivery_timeout_ms = integer(
        "delivery.timeout.ms", 2 * MINUTE_MS, "How long a record may wait for its acknowledgement.", check=at_least(1)
    )
    retries = integer("retries", INT32_MAX, "How often a batch is sent again at most.", check=at_least(0))
    max_in_flight_requests_per_connection = integer(
        "max.in.flight.requests.per.connection", 5, "How many requests to one broker are under way.", check=at_least(1)
    )
    enable_idempotence = boolean(
        "enable.idempotence", True, "Whether brokers recognise what is sent a second time. It needs acks=all."
    )
    compression_type = string(
        "compression.type",
        "none",
        "The codec of batches.",
        check=one_of(*(codec.config_name for codec in Compression)),
    )
    compression_gzip_level = integer("compression.gzip.level", -1, "How hard gzip tries.", check=between(-1, 9))
    compression_lz4_level = integer("compression.lz4.level", 9, "How hard lz4 tries.", check=between(1, 17))
    compression_zstd_level = integer("compression.zstd.level", 3, "How hard zstd tries.", check=between(-131072, 22))
    partitioner_ignore_keys = boolean(
        "partitioner.ignore.keys", False, "Whether records with keys are spread like those without."
    )
    transactional_id = nullable_string(
        "transactional.id",
        "The name of a producer's transactions, which lasts over restarts. A new producer of the name fences the old.",
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
        "Whether transactions may be prepared, and then wait for their end for as long as it takes (KIP-939).",
    )

    @property
    def is_idempotent(self) -> bool:
        """Idempotence, unless it was only a default and other settings rule it out, as in Kafka."""
        return self.enable_idempotence and self.acks in ("all", "-1") and self._in_flight_allows

    @property
    def _in_flight_allows(self) -> bool:
        return self.max_in_flight_requests_per_connection <= IDEMPOTENT_IN_FLIGHT_MAX

    @property
    def required_acks(self) -> int:
        """The number that goes on the wire."""
        return -1 if self.acks == "all" else int(self.acks)

    @property
    def compression(self) -> Compression:
        """The codec."""
        return Compression[self.compression_type.upper()]

    @property
    def compression_level(self) -> int | None:
        """The level of the codec, None for its own default."""
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
            return [ConfigError(name, f"{name} means nothing without transactional.id") for name in alone]
        found = []
        if not self.is_idempotent:
            text = "transactional.id needs enable.idempotence=true, acks=all and max.in.flight.requests.per.connection"
            found.append(ConfigError("transactional.id", f"{text} up to {IDEMPOTENT_IN_FLIGHT_MAX}"))
        if self.transaction_two_phase_commit_enable and "transaction.timeout.ms" in self.given:
            name = "transaction.timeout.ms"
            found.append(ConfigError(name, f"{name} means nothing with transaction.two.phase.commit.enable=true"))
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
    """Everything that was given, as texts under Kafka's names."""
    keyword_names = {option.attribute: name for name, option in kind.options.items()}
    given: list[tuple[str, str | None, SettingValue]] = []
    if bootstrap_servers is not None:
        given.append(("bootstrap.servers", "bootstrap.servers", bootstrap_servers))
    given += [(name, name if name in kind.options else None, value) for name, value in config.items()]
    given += [(name, keyword_names.get(name), value) for name, value in keywords.items()]
    texts: dict[str, str] = {}
    problems: list[ConfigError] = []
    for written, name, value in given:
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
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(value)
    return render_value(value) or ""

"""Settings in Kafka's names, and what is refused."""

import pytest

import tailrace
from tailrace.base.variable import BOOTSTRAP_VARIABLE
from tailrace.client.fetch.setting import ConsumerSettings
from tailrace.client.setting import ProducerSettings
from tailrace.config.error import ConfigError, InvalidConfigError
from tailrace.records.compression import Compression


def producer(config: dict[str, object] | None = None, **keywords: object) -> ProducerSettings:
    return ProducerSettings("localhost:9092", config, keywords)  # type: ignore[arg-type]


def test_a_setting_is_a_keyword_or_a_line_of_kafkas_files() -> None:
    keyword = producer(linger_ms=7, compression_type="zstd", enable_idempotence=False)
    line = producer({"linger.ms": "7", "compression.type": "zstd", "enable.idempotence": "false"})
    for settings in (keyword, line):
        assert (settings.linger_ms, settings.compression, settings.is_idempotent) == (7, Compression.ZSTD, False)


def test_addresses_may_be_a_list() -> None:
    settings = ProducerSettings(["a:1", "b:2"], None, {})
    assert settings.bootstrap_servers == "a:1,b:2"


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"linger_m": 1}, r"Unknown setting linger_m \(did you mean linger_ms\?\)"),
        ({"config": {"bach.size": 1}}, r"Unknown setting bach.size \(did you mean batch.size\?\)"),
        ({"config": {"linger_ms": 1}}, r"Unknown setting linger_ms \(did you mean linger.ms\?\)"),
        ({"acks": 2}, "acks: must be one of all, -1, 0, 1"),
        ({"linger_ms": 0.5}, "linger.ms: must be a 64-bit whole number"),
        ({"linger_ms": 5, "config": {"linger.ms": 5}}, "linger.ms is given twice"),
        ({"enable_idempotence": True, "acks": 1}, "enable.idempotence=true needs acks=all"),
        ({"enable_idempotence": True, "max_in_flight_requests_per_connection": 6}, "enable.idempotence=true needs"),
        ({"transactional_id": ""}, "at least one character"),
        ({"transactional_id": "t", "acks": 1}, "transactional.id needs .*acks=all"),
        ({"transactional_id": "t", "enable_idempotence": False}, "transactional.id needs enable.idempotence=true"),
        ({"transaction_timeout_ms": 5}, "transaction.timeout.ms has no effect without transactional.id"),
        (
            {"transactional_id": "t", "transaction_timeout_ms": 5, "transaction_two_phase_commit_enable": True},
            "transaction.timeout.ms has no effect with transaction.two.phase.commit.enable=true",
        ),
        ({"security_protocol": "TLS"}, "must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"delivery_timeout_ms": 1000}, r"delivery.timeout.ms must be at least linger.ms \+ request.timeout.ms"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(keywords: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        tailrace.Producer("localhost:9092", **keywords)  # type: ignore[arg-type]


def test_everything_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(InvalidConfigError) as caught:
        producer({"acks": "maybe", "wrong": 1})
    assert {problem.name for problem in caught.value.problems} == {"acks", "wrong"}


def test_idempotence_gives_way_to_other_settings_unless_it_was_asked_for() -> None:
    assert producer().is_idempotent
    assert not producer(acks=1).is_idempotent
    assert not producer(acks=0).is_idempotent
    assert not producer(max_in_flight_requests_per_connection=6).is_idempotent


def test_a_level_counts_only_for_its_own_codec() -> None:
    assert producer(compression_type="zstd", compression_zstd_level=9).compression_level == 9
    assert producer(compression_type="gzip", compression_zstd_level=9).compression_level is None


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"group_id": ""}, "group.id: must be a name of at least one character"),
        ({"session_timeout_ms": 9000}, "session.timeout.ms has no effect without group.id"),
        ({"enable_auto_commit": True}, "enable.auto.commit has no effect without group.id"),
        ({"group_id": "g", "group_protocol": "newest"}, "group.protocol: must be one of classic, consumer"),
        (
            {"group_id": "g", "group_protocol": "consumer", "session_timeout_ms": 9000},
            "session.timeout.ms has no effect with group.protocol=consumer, where the coordinator decides",
        ),
        (
            {"group_id": "g", "partition_assignment_strategy": "range", "group_remote_assignor": "uniform"},
            "group.remote.assignor has no effect with group.protocol=classic, where the members decide",
        ),
        (
            {"group_id": "g", "partition_assignment_strategy": "range,fair"},
            "a list of different ones of range, roundrobin, sticky, cooperative-sticky",
        ),
        (
            {"group_id": "g", "heartbeat_interval_ms": 9000, "session_timeout_ms": 9000},
            r"heartbeat.interval.ms must be less than session.timeout.ms \(9000\)",
        ),
    ],
)
def test_half_made_groups_are_refused(settings: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        ConsumerSettings("localhost:9092", None, settings)  # type: ignore[arg-type]


def test_settings_choose_the_protocol_that_obeys_them() -> None:
    def chosen(**settings: str) -> str | None:
        return ConsumerSettings(None, None, {"group_id": "g", **settings}).chosen_protocol

    assert chosen() is None
    assert chosen(session_timeout_ms="9000") == "classic"
    assert chosen(group_remote_assignor="uniform") == "consumer"
    assert chosen(group_protocol="classic") == "classic"


def test_assignors_have_kafkas_names_and_those_of_its_classes() -> None:
    text = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor,roundrobin,sticky"
    found = ConsumerSettings(None, None, {"group_id": "g", "partition_assignment_strategy": text}).assignors
    assert [assignor.name for assignor in found] == ["cooperative-sticky", "roundrobin", "sticky"]


def test_an_address_that_is_none_is_refused() -> None:
    for text in ("", "localhost:", "::1:9092"):
        with pytest.raises(ConfigError, match=r"bootstrap\.servers"):
            ConsumerSettings(text, None, {})


def test_a_client_that_is_told_no_brokers_obeys_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line obeyed the variable, and the Python client connected to localhost."""
    monkeypatch.setenv(BOOTSTRAP_VARIABLE, "env:1")
    assert ConsumerSettings(None, None, {}).bootstrap_servers == "env:1"
    assert ConsumerSettings("given:1", None, {}).bootstrap_servers == "given:1"
    assert ConsumerSettings(None, {"bootstrap.servers": "given:2"}, {}).bootstrap_servers == "given:2"

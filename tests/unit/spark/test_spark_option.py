"""Every option of Spark's Kafka connector, and what is wrong with options said by their names."""

import logging

import pytest
from tests.logged import logged, own_records

from tailrace.client.fetch.isolation import Isolation
from tailrace.client.topic_partition import TopicPartition
from tailrace.spark.bound import AtOffsets, AtTime, AtTimes, Edge, NoMatch
from tailrace.spark.error import OptionError
from tailrace.spark.option import (
    AdmissionOptions,
    Retry,
    SinkOptions,
    SourceOptions,
    SplitOptions,
    parse_sink_options,
    parse_source_options,
)
from tailrace.spark.subscription import Assigned, Matching, Named

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}


def source(**given: str) -> SourceOptions:
    """The options of a source that subscribes to a topic, unless told otherwise."""
    options = {name.replace("__", "."): text for name, text in given.items()}
    if not {"assign", "subscribe", "subscribePattern"} & options.keys():
        options["subscribe"] = "a"
    return parse_source_options(SERVERS | options)


def sink(**given: str) -> SinkOptions:
    return parse_sink_options(SERVERS | {name.replace("__", "."): text for name, text in given.items()})


def test_a_source_needs_little() -> None:
    options = source()
    assert options.subscription == Named(("a",))
    assert options.client.bootstrap_servers == "localhost:9092"
    assert options.columns == ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
    assert options.fail_on_data_loss is True
    assert options.poll_timeout_ms == 120_000
    assert options.retry == Retry(3, 10)
    assert options.metadata_ttl_ms == -1
    assert options.admission == AdmissionOptions(None, None, 900_000)
    assert options.split == SplitOptions(None, None)
    assert options.no_match is NoMatch.ERROR
    assert options.pushdown is None


def test_every_option_of_a_source_is_read() -> None:
    options = source(
        failOnDataLoss="false",
        kafkaConsumer__pollTimeoutMs="500",
        fetchOffset__numRetries="5",
        fetchOffset__retryIntervalMs="20",
        partition__metadata__cache__ttl__ms="1000",
        maxOffsetsPerTrigger="100",
        minOffsetsPerTrigger="10",
        maxTriggerDelay="10s",
        minPartitions="8",
        maxRecordsPerPartition="1000",
        groupIdPrefix="mine",
        includeHeaders="true",
        startingOffsetsByTimestampStrategy="latest",
        pushdown="false",
    )
    assert options.fail_on_data_loss is False
    assert options.poll_timeout_ms == 500
    assert options.retry == Retry(5, 20)
    assert options.metadata_ttl_ms == 1000
    assert options.admission == AdmissionOptions(100, 10, 10_000)
    assert options.split == SplitOptions(8, 1000)
    assert options.columns[-1] == "headers"
    assert options.no_match is NoMatch.LATEST
    assert options.pushdown is False


def test_names_are_read_in_any_case() -> None:
    """Spark hands them over in lower case."""
    options = parse_source_options(
        {"KAFKA.BOOTSTRAP.SERVERS": "h:1", "SUBSCRIBE": "a", "maxoffsetspertrigger": "7", "failOnDATALOSS": "FALSE"}
    )
    assert (options.client.bootstrap_servers, options.admission.offsets_max) == ("h:1", 7)
    assert options.fail_on_data_loss is False


# --- what to read


def test_topics_are_named_with_commas() -> None:
    assert source(subscribe=" a, b ,,a").subscription == Named(("a", "b"))


def test_a_pattern_and_single_partitions_are_read() -> None:
    assert source(subscribePattern="page.*").subscription == Matching("page.*")
    assert source(assign='{"a":[1,0]}').subscription == Assigned((TopicPartition("a", 0), TopicPartition("a", 1)))


def test_one_way_to_say_what_to_read_is_needed() -> None:
    with pytest.raises(OptionError, match="one of assign, subscribe and subscribePattern"):
        parse_source_options(SERVERS)
    with pytest.raises(OptionError, match=r"option subscribePattern: only one of .* and subscribe is set"):
        source(subscribe="a", subscribePattern="b")


@pytest.mark.parametrize(
    ("option", "text"),
    [("subscribe", " , "), ("subscribePattern", "  "), ("subscribePattern", "page[")],
)
def test_an_empty_or_broken_way_is_refused(option: str, text: str) -> None:
    with pytest.raises(OptionError, match=f"option {option}: "):
        source(**{option: text})


# --- where to start and end


def test_a_time_for_all_goes_before_times_and_these_before_offsets() -> None:
    all_of_them = {
        "startingTimestamp": "5",
        "startingOffsetsByTimestamp": '{"a":{"0":6}}',
        "startingOffsets": '{"a":{"0":7}}',
    }
    options = source(**all_of_them)
    assert (options.start, options.start_option) == (AtTime(5), "startingTimestamp")
    del all_of_them["startingTimestamp"]
    options = source(**all_of_them)
    assert (options.start, options.start_option) == (
        AtTimes({TopicPartition("a", 0): 6}),
        "startingOffsetsByTimestamp",
    )
    del all_of_them["startingOffsetsByTimestamp"]
    assert source(**all_of_them).start == AtOffsets({TopicPartition("a", 0): 7})


def test_ends_have_the_same_order() -> None:
    options = source(endingTimestamp="5", endingOffsetsByTimestamp='{"a":{"0":6}}', endingOffsets="latest")
    assert (options.end, options.end_option) == (AtTime(5), "endingTimestamp")


@pytest.mark.parametrize("text", ["earliest", " EARLIEST ", "Earliest"])
def test_edges_are_read_in_any_case(text: str) -> None:
    assert source(startingOffsets=text).start is Edge.EARLIEST


def test_a_batch_starts_at_the_beginning_and_a_stream_now() -> None:
    assert source().for_batch().start is Edge.EARLIEST
    assert source().for_stream().start is Edge.LATEST
    assert source().for_batch().end is Edge.LATEST


@pytest.mark.parametrize("text", ["latest", '{"a":{"0":-1}}'])
def test_a_batch_cannot_start_at_the_end(text: str) -> None:
    with pytest.raises(OptionError, match="option startingOffsets: a batch query cannot start at latest"):
        source(startingOffsets=text).for_batch()


@pytest.mark.parametrize("text", ["earliest", '{"a":{"0":-2}}'])
def test_a_batch_cannot_end_at_the_beginning(text: str) -> None:
    with pytest.raises(OptionError, match="option endingOffsets: a query cannot end at earliest"):
        source(endingOffsets=text).for_batch()


@pytest.mark.parametrize(
    ("option", "text"),
    [("endingOffsets", "latest"), ("endingTimestamp", "5"), ("endingOffsetsByTimestamp", '{"a":{"0":5}}')],
)
def test_a_stream_has_no_end(option: str, text: str) -> None:
    with pytest.raises(OptionError, match=f"option {option}: a stream has no end"):
        source(**{option: text}).for_stream()


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("startingTimestamp", "soon"),
        ("startingTimestamp", "-1"),
        ("startingOffsetsByTimestamp", '{"a":{"0":-1}}'),
        ("startingOffsets", '{"a":{"0":-3}}'),
        ("endingOffsets", '{"a":{"0":9223372036854775808}}'),
        ("startingOffsetsByTimestampStrategy", "newest"),
    ],
)
def test_a_place_that_cannot_be_is_refused(option: str, text: str) -> None:
    with pytest.raises(OptionError, match=f"option {option}: "):
        source(**{option: text})


def test_limits_of_streams_make_no_difference_to_a_batch_and_say_so(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        source(maxOffsetsPerTrigger="5").for_batch()
    assert "option maxOffsetsPerTrigger has no effect in a batch query" in logged(caplog)


# --- numbers


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("minPartitions", "0"),
        ("minPartitions", "2147483648"),
        ("maxRecordsPerPartition", "0"),
        ("maxOffsetsPerTrigger", "0"),
        ("maxOffsetsPerTrigger", "1e3"),
        ("maxOffsetsPerTrigger", ""),
        ("minOffsetsPerTrigger", "many"),
        ("maxTriggerDelay", "15 parsecs"),
        ("maxTriggerDelay", "-1s"),
        ("failOnDataLoss", "yes"),
        ("includeHeaders", "1"),
        ("kafkaConsumer.pollTimeoutMs", "0"),
        ("fetchOffset.numRetries", "0"),
        ("fetchOffset.retryIntervalMs", "-1"),
        ("partition.metadata.cache.ttl.ms", "0"),
        ("partition.metadata.cache.ttl.ms", "-2"),
        ("pushdown", "maybe"),
        ("columns", ""),
        ("columns", "key,colour"),
        ("columns", "key,KEY"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_the_option_as_people_write_it(option: str, text: str) -> None:
    with pytest.raises(OptionError, match=f"option {option}: ") as caught:
        parse_source_options(SERVERS | {"subscribe": "a", option.lower(): text})
    assert caught.value.name == option


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [("500", 500), ("500ms", 500), ("10s", 10_000), ("15m", 900_000), ("2min", 120_000), ("1h", 3_600_000)],
)
def test_times_are_read_as_spark_writes_them(text: str, expected_ms: int) -> None:
    assert source(maxTriggerDelay=text).admission.delay_max_ms == expected_ms


def test_the_least_is_not_more_than_the_most() -> None:
    with pytest.raises(OptionError, match="option minOffsetsPerTrigger: 11 is more than maxOffsetsPerTrigger"):
        source(minOffsetsPerTrigger="11", maxOffsetsPerTrigger="10")


# --- columns


def test_columns_are_chosen_in_any_order_and_case() -> None:
    assert source(columns="offset, VALUE,headers").columns == ("offset", "value", "headers")


# --- names that are of no use


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("subcribe", "it is unknown; a source takes assign, subscribe"),
        ("path", "topics have no path; use option subscribe"),
        ("delivery", "it belongs to a sink, and this is a source"),
        ("bootstrap.servers", "the name is kafka.bootstrap.servers"),
    ],
)
def test_an_unknown_option_of_a_source_is_refused_by_name(option: str, reason: str) -> None:
    with pytest.raises(OptionError, match=f"option {option}: {reason}"):
        source(**{option: "x"})


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("columns", "it belongs to a source, and this is a sink"),
        ("path", "topics have no path; use option topic"),
        ("topics", "it is unknown; a sink takes topic, includeHeaders, delivery and kafka"),
    ],
)
def test_an_unknown_option_of_a_sink_is_refused_by_name(option: str, reason: str) -> None:
    with pytest.raises(OptionError, match=f"option {option}: {reason}"):
        sink(**{option: "x"})


@pytest.mark.parametrize(
    "option",
    [
        "groupIdPrefix",
        "useDeprecatedOffsetFetching",
        "spark.sql.streaming.kafka.useDeprecatedOffsetFetching",
        "spark.kafka.consumer.cache.capacity",
        "kafka.group.id",
        "kafka.auto.include.jmx.reporter",
        "kafka.config.providers",
    ],
)
def test_what_has_no_effect_is_accepted_and_named_once_in_the_log(
    option: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query that ran with format("kafka") stopped at useDeprecatedOffsetFetching."""
    monkeypatch.setattr("tailrace.spark.client_setting._logged", set())
    for _ in range(3):
        source(**{option: "true"})
        sink(**{option: "true"})
    assert [record.getMessage() for record in own_records(caplog)] == [f"option {option} has no effect here"]


def test_options_of_the_other_side_are_accepted(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's connector ignores them, and programs give one set of options to reader and writer."""
    monkeypatch.setattr("tailrace.spark.client_setting._logged", set())
    assert source(topic="x", checkpointLocation="/x") == source()
    assert sink(topic="a", subscribe="b", startingOffsets="earliest").topic == "a"
    told = [record.getMessage() for record in caplog.records]
    named = ("topic", "checkpointLocation", "subscribe", "startingOffsets")
    assert told == [f"option {name} has no effect here" for name in named]


def test_a_sink_takes_a_topic_and_what_spark_keeps_among_the_options() -> None:
    options = sink(topic=" a ", checkpointLocation="/x", queryName="q", includeHeaders="true")
    assert options.topic == "a"
    assert sink().topic is None
    with pytest.raises(OptionError, match="option topic: it is empty"):
        sink(topic=" ")


# --- the client


def test_settings_of_the_client_are_honoured() -> None:
    options = source(kafka__isolation__level="read_committed", kafka__max__partition__fetch__bytes="1000")
    assert options.client.isolation is Isolation.READ_COMMITTED
    assert options.client.consumer.max_partition_fetch_bytes == 1000
    producer = sink(kafka__acks="1", kafka__compression__type="zstd", kafka__linger__ms="7").client.producer
    assert (producer["acks"], producer["compression.type"], producer["linger.ms"]) == ("1", "zstd", "7")


def test_settings_of_the_other_side_do_no_harm() -> None:
    """One set of options often serves the source and the sink of a program."""
    assert "isolation.level" not in sink(kafka__isolation__level="read_committed").client.producer
    assert source(kafka__acks="1").client.consumer.check_crcs is True


def test_settings_that_make_no_difference_are_taken() -> None:
    options = source(**{"kafka.group.id": "g", "kafka.max.poll.records": "5", "kafka.session.timeout.ms": "1"})
    assert options.client == source().client


def test_equal_settings_share_connections_whatever_their_order() -> None:
    one = parse_sink_options({"kafka.acks": "1", "kafka.bootstrap.servers": "h:1"})
    other = parse_sink_options({"kafka.bootstrap.servers": "h:1", "kafka.acks": "1"})
    assert hash(one.client) == hash(other.client)
    assert one.client == other.client


@pytest.mark.parametrize(
    "name",
    [
        "auto.offset.reset",
        "key.deserializer",
        "value.deserializer",
        "key.serializer",
        "value.serializer",
        "enable.auto.commit",
        "interceptor.classes",
        "transactional.id",
        "partitioner.class",
    ],
)
def test_forbidden_settings_are_refused_with_what_to_do(name: str) -> None:
    with pytest.raises(OptionError, match=f"option kafka.{name}: it is not allowed; ."):
        source(**{f"kafka.{name}": "x"})
    with pytest.raises(OptionError, match=f"option kafka.{name}: it is not allowed; ."):
        sink(**{f"kafka.{name}": "x"})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("isolation.level", "read_everything"),
        ("acks", "2"),
        ("compression.type", "rar"),
        ("bootstrap.servers", "host:port"),
        ("security.protocol", "TLS"),
        ("sasl.mechanism", "PLAIN"),
        ("ssl.truststore.location", "/x"),
        ("fetch.min.byte", "1"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(name: str, text: str) -> None:
    with pytest.raises(OptionError, match=f"option kafka.{name}: "):
        parse_source_options(SERVERS | {"subscribe": "a", f"kafka.{name}": text})


def test_brokers_must_be_named() -> None:
    with pytest.raises(OptionError, match=r"option kafka.bootstrap.servers: it is missing"):
        parse_source_options({"subscribe": "a"})
    with pytest.raises(OptionError, match=r"option kafka.bootstrap.servers: it is missing"):
        parse_sink_options({"topic": "a", "kafka.bootstrap.servers": " "})


SECURE = {
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.username": "alice",
    "kafka.sasl.password": "hidden-pw",
    "kafka.ssl.provider": "SunJSSE",
}


def test_security_settings_reach_the_clients_and_are_not_shown() -> None:
    parsed = parse_source_options(SERVERS | {"subscribe": "a"} | SECURE)
    assert parsed.client.consumer.make_security().login is not None
    assert parsed.client.admin["sasl.password"] == "hidden-pw"
    assert "hidden-pw" not in repr(parsed) + str(parsed.client)


def test_security_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(OptionError, match=r"option kafka.sasl.password: sasl.password is missing") as caught:
        parse_source_options(SERVERS | {"subscribe": "a"} | SECURE | {"kafka.sasl.password": ""})
    assert "hidden-pw" not in str(caught.value)

"""`tailrace.testing.Broker` as people use it without pytest's fixture."""

import socket
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from tests.started_thread import started_threads

from tailrace.config import ConfigError
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.testing import Broker


def test_a_broker_keeps_its_data_over_a_restart_and_then_leaves_nothing() -> None:
    with started_threads() as threads:
        with Broker({"num.partitions": 2, "auto.create.topics.enable": False}) as broker:
            folder, address = broker.data, broker.bootstrap_servers
            broker.create_topic("kept", partitions=2)
            broker.produce("kept", [(b"key", b"value"), b"second"])
            broker.restart()
            assert broker.bootstrap_servers == address
            assert sorted(record.value or b"" for record in broker.consume("kept")) == [b"second", b"value"]
            assert (broker.config.num_partitions, broker.config.auto_create_topics_enable) == (2, False)
        assert not folder.exists()
        assert not threads.running()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])))


def test_a_folder_of_ones_own_is_kept(tmp_path: Path) -> None:
    with Broker(data=tmp_path) as broker:
        broker.produce("auto", [b"1"])
    with Broker(data=tmp_path) as broker:
        assert [record.value for record in broker.consume("auto")] == [b"1"]


def test_old_records_are_not_looked_for_while_a_test_runs() -> None:
    """A test that wrote records of another year lost them if it was running when the broker looked."""
    with Broker() as broker, Broker({"log.retention.check.interval.ms": 50}) as strict:
        assert broker.config.log_retention_check_interval_ms >= 24 * 60 * 60 * 1000
        assert strict.config.log_retention_check_interval_ms == 50


def test_two_brokers_do_not_meet() -> None:
    with Broker() as one, Broker() as other:
        one.create_topic("mine")
        with pytest.raises(ApiError) as caught:
            other.consume("mine")
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_what_keeps_a_broker_from_starting_is_raised(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no\\.such\\.option"):
        Broker({"no.such.option": "1"}).start()
    with Broker(data=tmp_path):
        second = Broker(data=tmp_path)
        with pytest.raises(Exception, match=str(tmp_path)):
            second.start()
        assert not second.is_running


def test_a_stopped_broker_says_so() -> None:
    broker = Broker()
    broker.stop()
    with pytest.raises(RuntimeError, match="not running"):
        _ = broker.bootstrap_servers
    with pytest.raises(RuntimeError, match="not running"):
        broker.create_topic("never")
    with broker, pytest.raises(RuntimeError, match="already"):
        broker.start()


def test_creating_a_topic_twice_is_an_error() -> None:
    with Broker() as broker:
        broker.create_topic("once", config={"retention.ms": "1000"})
        with pytest.raises(ApiError) as caught:
            broker.create_topic("once")
    assert caught.value.code is ErrorCode.TOPIC_ALREADY_EXISTS


def test_a_foreign_client_sees_what_the_helpers_wrote(tailrace_broker: Broker) -> None:
    tailrace_broker.create_topic("helpers")
    tailrace_broker.produce("helpers", [(b"k", b"v"), (None, None)])
    consumer = Consumer({"bootstrap.servers": tailrace_broker.bootstrap_servers, "group.id": "unused"})
    try:
        from confluent_kafka import TopicPartition

        consumer.assign([TopicPartition("helpers", 0, 0)])
        messages = [consumer.poll(60), consumer.poll(60)]
    finally:
        consumer.close()
    assert [(message.key(), message.value()) for message in messages if message is not None] == [
        (b"k", b"v"),
        (None, None),
    ]

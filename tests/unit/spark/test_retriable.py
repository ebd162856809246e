"""Which errors of the client let a stream go on later."""

import traceback

import pytest

from tailrace.client.error import (
    BootstrapError,
    BrokerUnavailable,
    ClientError,
    DeliveryTimeout,
    ProducerFenced,
    RecordTooLarge,
    RequestTimeout,
    TransactionFailed,
)
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.spark.client_setting import parse_client_settings
from tailrace.spark.error import BrokerError, OptionError, RetriableBrokerError, RetriableWriteError, WriteError
from tailrace.spark.retriable import broker_error, is_retriable, names_retriable, write_error
from tailrace.spark.topic_io import topic_io
from tailrace.spark.topic_writer import explain
from tailrace.testing import Broker


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


RETRIABLE = [
    BrokerUnavailable("gone"),
    RequestTimeout("late"),
    BootstrapError("none answers"),
    DeliveryTimeout("late"),
    ProducerFenced("another producer has taken the transactional id"),
    ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ApiError(ErrorCode.INVALID_PRODUCER_EPOCH),
    TransactionFailed("aborted before the record was written"),
    caused(TransactionFailed("has to be aborted"), ApiError(ErrorCode.INVALID_TXN_STATE)),
    caused(TransactionFailed("has to be aborted"), DeliveryTimeout("late")),
    caused(ClientError("the producer cannot go on"), BrokerUnavailable("gone")),
]
FINAL = [
    RecordTooLarge("2 MiB"),
    ClientError("the producer cannot go on"),
    ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ApiError(ErrorCode.UNSUPPORTED_VERSION),
    ApiError(ErrorCode.INVALID_TXN_STATE),  # a prepared transaction was ended the other way
    caused(TransactionFailed("has to be aborted"), ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)),
    ValueError("no such column"),
]


@pytest.mark.parametrize("error", RETRIABLE, ids=repr)
def test_brokers_and_ids_may_be_there_again_later(error: Exception) -> None:
    assert is_retriable(error)
    assert type(write_error("rows", error)) is RetriableWriteError
    assert type(broker_error("rows", error)) is RetriableBrokerError


@pytest.mark.parametrize("error", FINAL, ids=repr)
def test_what_was_refused_is_refused_again(error: Exception) -> None:
    assert not is_retriable(error)
    assert type(write_error("rows", error)) is WriteError
    assert type(broker_error("rows", error)) is BrokerError


def test_a_traceback_names_the_kind() -> None:
    name, _, message = traceback.format_exception_only(write_error("not now", RETRIABLE[0]))[0].partition(": ")
    assert (names_retriable(name), message) == (True, "not now\n")
    assert not names_retriable(traceback.format_exception_only(WriteError("never"))[0].partition(": ")[0])
    assert not names_retriable("other.RetriableWriteError")


def test_a_source_without_its_brokers_can_go_on_later() -> None:
    topics = topic_io(parse_client_settings({"kafka.bootstrap.servers": "127.0.0.1:1"}))
    with pytest.raises(RetriableBrokerError, match="no broker answers"):
        topics.partition_counts(None)


def test_a_topic_that_has_no_leader_yet_is_no_wrong_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailrace.spark.topic_io._NEW_TOPIC_TIMEOUT_MS", 100)
    with Broker({"auto.create.topics.enable": False}) as broker:
        broker.create_topic("t")
        topics = topic_io(parse_client_settings({"kafka.bootstrap.servers": broker.bootstrap_servers}))
        with pytest.raises(OptionError, match="topic missing cannot be written"):
            topics.require_topic("missing")
        broker.inject("Metadata", error="LEADER_NOT_AVAILABLE", count=100)
        with pytest.raises(RetriableBrokerError, match="LEADER_NOT_AVAILABLE"):
            topics.require_topic("t")


def test_rows_that_were_not_written_in_time_may_be_later() -> None:
    assert type(explain(DeliveryTimeout("late"), "t")) is RetriableWriteError
    assert type(explain(RecordTooLarge("2 MiB"), "t")) is WriteError
    # Kafka calls this code retriable, but here column partition names a partition that is not there.
    assert type(explain(ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), "t")) is WriteError

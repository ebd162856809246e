"""Which errors of the client let a stream go on later."""

import traceback

import pytest

from runnel.client.error import (
    BootstrapError,
    BrokerUnavailable,
    ClientError,
    DeliveryTimeout,
    ProducerFenced,
    RecordTooLarge,
    RequestTimeout,
    TransactionFailed,
)
from runnel.protocol.errors import ApiError, ErrorCode
from runnel.spark.error import BrokerError, RetriableBrokerError, RetriableWriteError, WriteError
from runnel.spark.retriable import broker_error, is_retriable, names_retriable, write_error


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

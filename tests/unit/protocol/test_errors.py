"""Error codes and the exceptions that carry them."""

import pytest

from tailrace.protocol.errors import ApiError, ErrorCode


def test_codes_are_kafkas() -> None:
    assert [int(code) for code in ErrorCode] == list(range(-1, 137))
    assert int(ErrorCode.NONE) == 0
    assert int(ErrorCode.UNKNOWN_SERVER_ERROR) == -1
    assert int(ErrorCode.NOT_LEADER_OR_FOLLOWER) == 6
    assert int(ErrorCode.INVALID_RECORD) == 87
    assert int(ErrorCode.REBOOTSTRAP_REQUIRED) == 129


def test_which_codes_may_be_tried_again() -> None:
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER.retriable
    assert ErrorCode.KAFKA_STORAGE_ERROR.retriable
    assert not ErrorCode.NONE.retriable
    assert not ErrorCode.OFFSET_OUT_OF_RANGE.retriable
    assert not ErrorCode.INVALID_REQUEST.retriable
    assert sum(code.retriable for code in ErrorCode) == 32


def test_an_outcome_says_its_code_and_its_reason() -> None:
    assert str(ApiError(ErrorCode.INVALID_REQUEST, "twice")) == "INVALID_REQUEST: twice"
    assert str(ApiError(ErrorCode.INVALID_REQUEST)) == "INVALID_REQUEST"
    assert ErrorCode.INVALID_REQUEST.message == "Invalid request"


@pytest.mark.parametrize("code", [137, 9999, -7])
def test_a_code_of_a_later_version_is_an_error_all_the_same(code: int) -> None:
    assert ErrorCode(code) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_what_is_no_number_is_no_code() -> None:
    with pytest.raises(ValueError, match="x"):
        ErrorCode("x")  # type: ignore[arg-type]  # that is the point

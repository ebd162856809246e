"""Lines about rejected batches: one each, and not more than a flooding client should cause."""

import logging

import pytest
from tests.logged import logged, own_records

from tailrace.base.limits import REJECTION_LINES_MAX, REJECTION_WINDOW_MS
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.server.rejection_log import RejectionLog

CORRUPT = ApiError(ErrorCode.CORRUPT_MESSAGE, "the checksum of the batch is wrong")


@pytest.fixture(autouse=True)
def _all_warnings(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "tailrace.server")


def test_a_line_names_client_partition_and_reason(caplog: pytest.LogCaptureFixture) -> None:
    RejectionLog().add(0, "10.0.0.1:5000", "t-3", CORRUPT)
    expected = "rejected a batch from 10.0.0.1:5000 to t-3: the checksum of the batch is wrong (CORRUPT_MESSAGE)"
    assert logged(caplog) == expected


def test_a_flood_is_counted_and_told_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    rejections = RejectionLog()
    for _ in range(REJECTION_LINES_MAX + 1000):
        rejections.add(5, "c", "t-0", CORRUPT)
    assert len(own_records(caplog)) == REJECTION_LINES_MAX
    rejections.add(5 + REJECTION_WINDOW_MS, "c", "t-0", CORRUPT)
    told, last = logged(caplog).splitlines()[REJECTION_LINES_MAX:]
    assert told == "rejected 1000 more batches, which are not logged one by one"
    assert last.startswith("rejected a batch from c to t-0")


def test_a_client_cannot_forge_a_line(caplog: pytest.LogCaptureFixture) -> None:
    RejectionLog().add(0, "c", "t-0", ApiError(ErrorCode.INVALID_RECORD, "a\nb"))
    assert logged(caplog) == "rejected a batch from c to t-0: a\\nb (INVALID_RECORD)"

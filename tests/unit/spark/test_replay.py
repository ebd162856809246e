"""Batches that come again."""

import pytest

from tailrace.spark.connector.replay import is_repeated
from tailrace.spark.error import ConnectorError


def test_only_the_last_batch_comes_again() -> None:
    assert not is_repeated(None, 0, "orders", "a sink")
    assert not is_repeated(6, 7, "orders", "a sink")
    assert is_repeated(7, 7, "orders", "a sink")


def test_a_checkpoint_that_was_put_back_is_an_error() -> None:
    """All batches up to the newest one of the sink were left out in silence, with whatever rows they had then."""
    with pytest.raises(
        ConnectorError, match=r"it goes on with batch 6, and table a has batch 7\. Batches 6 to 7 would"
    ):
        is_repeated(7, 6, "orders", "table a")


def test_a_checkpoint_that_is_older_by_one_batch_is_an_error() -> None:
    """The batch was planned anew with the rows that had come since, and was left out as a repeated one."""
    assert is_repeated(7, 7, "orders", "table a", "7:a", "7:a")
    with pytest.raises(
        ConnectorError, match=r"orders is older .* batch 7 anew, and table a has another batch 7\. This batch would"
    ):
        is_repeated(7, 7, "orders", "table a", "7:a", "7:b")
    assert not is_repeated(6, 7, "orders", "table a", "6:a", "7:a")


def test_a_note_without_a_plan_is_that_of_a_repeated_batch() -> None:
    assert is_repeated(7, 7, "orders", "table a", None, "7:a")
    assert is_repeated(7, 7, "orders", "table a", "7:a", None)

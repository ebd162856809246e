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
    with pytest.raises(ConnectorError, match="it goes on with batch 6, and table a has batch 7"):
        is_repeated(7, 6, "orders", "table a")

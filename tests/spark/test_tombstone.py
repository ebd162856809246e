"""Records without a value, where values are decoded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark.conftest import require_spark

from tailrace.spark.connector.base import FlowPlace, FlowStart
from tailrace.spark.connector.error_policy import STOP, ErrorPolicy, OnError
from tailrace.spark.connector.topic.frame import decode
from tailrace.spark.connector.topic.tombstone import NO_VALUE, TombstoneReject
from tailrace.spark.connector.topic.topic import topic
from tailrace.spark.error import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

require_spark()
SCHEMA = "id int, value int"


def test_a_record_without_a_value_is_null_or_left_out_or_rejected(spark: SparkSession, tmp_path: Path) -> None:
    records = spark.createDataFrame(
        [(b'{"id": 1, "value": 2}', "t", 0, 7), (None, "t", 0, 8)],
        "value binary, topic string, partition int, offset bigint",
    )

    def rows(tombstones: str | None, policy: ErrorPolicy = STOP) -> list[tuple[int | None, int | None]]:
        start = FlowStart(spark, FlowPlace("flow", tmp_path, tmp_path, errors=policy))
        source = topic("t", schema=SCHEMA, tombstones=tombstones)
        return [tuple(row) for row in decode(records, source, start, start.place.rejects).collect()]

    assert rows(None) == rows("null") == [(1, 2), (None, None)]
    assert rows("drop") == [(1, 2)]
    assert rows("reject", ErrorPolicy(OnError.SKIP)) == [(1, 2)]
    with pytest.raises(Exception, match=f"t-0 offset 8: {NO_VALUE}"):
        rows("reject")


def test_a_dead_letter_has_the_key_and_the_place() -> None:
    rejected = TombstoneReject()('{"topic": "t", "partition": 0, "offset": 8, "key": "aw=="}')
    assert (rejected.key, rejected.value, rejected.topic, rejected.offset) == (b"k", None, "t", 8)


def test_only_decoded_values_can_be_missing() -> None:
    with pytest.raises(PipelineError, match="topic t has no schema, so tombstones= does not apply"):
        topic("t", tombstones="drop").check_source()
    with pytest.raises(PipelineError, match="topic t is a sink, and tombstones= is for a source"):
        topic("t", tombstones="drop").check_sink()
    with pytest.raises(PipelineError, match="tombstones='no' is not one of null, drop, reject"):
        topic("t", schema=SCHEMA, tombstones="no")

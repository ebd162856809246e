"""The flows of a run: what each one makes of the numbers in the source, as a Spark query and as plain Python.

They differ where the sink does. Every other one keeps state and writes behind a shuffle, and the rest write row by row
as they read. Two in four write in `foreachBatch`, where Spark commits through its batch writer and not through its
stream writer. Spark has other Python workers for that, so it takes two flows of each kind for workers to take turns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MINUTE = 60
TICK = "tick"  # the key of records that keep queries going and belong to no output
FIRST_SECOND = 1_700_000_100  # a full window of every flow
LATENESS = "60 minutes"  # of the time in the records; partitions are far less apart, also while a broker is down


@dataclass(frozen=True)
class Windows:
    """Counts and sums by key and window. Record number n is from second n and has the key n % `key_count`."""

    name: str
    window_s: int
    key_count: int
    is_in_foreach_batch: bool

    def rows(self, records: DataFrame) -> DataFrame:
        """What the query writes."""
        number = f.col("number")
        at = f.timestamp_seconds(number + FIRST_SECOND).alias("at")
        keyed = records.select(number, at, (number % self.key_count).alias("key")).withWatermark("at", LATENESS)
        groups = keyed.groupBy(f.window("at", f"{self.window_s} seconds"), "key")
        sums = groups.agg(f.count("*").alias("count"), f.sum("number").alias("sum"))
        first = f.unix_timestamp("window.start") - FIRST_SECOND
        value = f.concat_ws(
            " ", *(column.cast("string") for column in (first, f.col("key"), f.col("count"), f.col("sum")))
        )
        return sums.select(f.col("key").cast("string").alias("key"), value.alias("value"))

    def truth(self, record_count: int) -> Iterator[str]:
        """What there must be in the end; the count is a multiple of `ROUND`."""
        for first in range(0, record_count, self.window_s):
            for key in range(self.key_count):
                numbers = [number for number in range(first, first + self.window_s) if number % self.key_count == key]
                yield f"{first} {key} {len(numbers)} {sum(numbers)}"


@dataclass(frozen=True)
class Squares:
    """Squares of every so manieth number, row by row."""

    name: str
    step: int
    remainder: int
    is_in_foreach_batch: bool

    def rows(self, records: DataFrame) -> DataFrame:
        """What the query writes."""
        number = f.col("number")
        chosen = records.where((number % self.step == self.remainder) & (f.col("key").cast("string") != TICK))
        value = f.concat_ws(" ", number.cast("string"), (number * number).cast("string"))
        return chosen.select("key", value.alias("value"))

    def truth(self, record_count: int) -> Iterator[str]:
        """What there must be in the end."""
        for number in range(self.remainder, record_count, self.step):
            yield f"{number} {number * number}"


Flow = Windows | Squares

_WINDOWS_S = (MINUTE, 5 * MINUTE)
ROUND = math.lcm(*_WINDOWS_S)  # so many records are whole windows of every flow


def make_flows(count: int) -> list[Flow]:
    """So many flows, each with the name of its topic. The steps are odd, so rows come from both partitions."""
    found: list[Flow] = []
    for number in range(count):
        turn = number // 4
        suffix = f"-{turn + 1}" if turn else ""
        found.append(
            (
                Windows(f"minutes{suffix}", _WINDOWS_S[0], 5 + turn, is_in_foreach_batch=False),
                Squares(f"squares{suffix}", 7, turn % 7, is_in_foreach_batch=False),
                Windows(f"batch-windows{suffix}", _WINDOWS_S[1], 3 + turn, is_in_foreach_batch=True),
                Squares(f"batch-squares{suffix}", 11, turn % 11, is_in_foreach_batch=True),
            )[number % 4]
        )
    return found

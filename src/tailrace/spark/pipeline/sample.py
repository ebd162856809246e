"""A sample of a flow's output: its function over the newest rows of its sources, as a batch.

Nothing is started, written or remembered. A batch has no state of earlier batches, so counts and joins cover only the
rows that were read.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tailrace.spark.connector.base import FlowStart, Source
from tailrace.spark.pipeline.plan import FlowPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Sample:
    """The columns of a flow's output, and some rows of it."""

    columns: dict[str, str]
    rows: list[dict[str, Any]]
    missing: tuple[str, ...] = ()
    """The topics that do not exist yet, because another flow of the file writes them. There are no rows then."""


def sample_flow(spark: "SparkSession", plan: FlowPlan, row_count: int) -> Sample:
    """Read the newest rows of a flow's sources and return the first rows that its function makes of them."""
    start = FlowStart(spark, plan.place)
    sources = plan.flow.sources
    missing = tuple(name for source in sources for name in source.missing(plan.place))
    result = plan.flow(*(_none(source, start) if missing else source.sample(start) for source in sources))
    return Sample(
        dict(result.dtypes), [] if missing else [row.asDict(recursive=True) for row in result.take(row_count)], missing
    )


def _none(source: Source, start: FlowStart) -> "DataFrame":
    """Return the columns of a source without rows; its topic, or that of another source, does not exist yet."""
    return start.spark.createDataFrame([], source.read(start).schema)

"""The column `ORIGIN`, carried through the function of a flow to its sink.

A source has the column below the last projection, so the function does not see it. Here Spark's analyzed plan of the
result is changed so that each projection above it keeps it. That is possible only where every row is made of one
record, by operators that are known here; the result of an aggregation or a join stays as it is.

The plan is not part of Spark's public interface. If another version of Spark has it in another form, rows have no
origin, and a test fails.
"""

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from tailrace.spark.pipeline.query_plan import inlined_plan
from tailrace.spark.record_place import ORIGIN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger("tailrace.spark.pipeline")

_PROJECT = "Project"
_KEEPS_COLUMNS = frozenset(
    (
        "CollectMetrics",
        "EventTimeWatermark",
        "Filter",
        "Generate",
        "PipeOperator",
        "Repartition",
        "RepartitionByExpression",
        "ResolvedHint",
        "SubqueryAlias",
        "View",
    )
)
"""Spark's operators that make their rows of single rows, with all columns of these."""


class _Carried(NamedTuple):
    """A plan with the column, and the column, which need not be the last one."""

    plan: Any
    column: Any


def carry_origin(rows: "DataFrame", flow: str) -> "DataFrame":
    """Return the rows of a flow with a last column `ORIGIN`, or unchanged if Spark's plan does not allow it."""
    from pyspark.sql.classic.dataframe import DataFrame

    session: Any = rows.sparkSession
    try:
        carried = _carry(session._jvm, inlined_plan(rows))
        if carried is None:
            return rows
        datasets = getattr(getattr(session._jvm.org.apache.spark.sql.classic, "Dataset$"), "MODULE$")
        wide = DataFrame(datasets.ofRows(session._jsparkSession, carried.plan), session)
        return wide.select(*(f"`{name.replace('`', '``')}`" for name in (*rows.columns, ORIGIN)))
    except Exception as error:  # a flow runs without origins, too
        log.warning("errors of flow %s will not name records: cannot add a column to Spark's plan: %s", flow, error)
        return rows


def _carry(jvm: Any, plan: Any) -> _Carried | None:
    """Return a plan with the column of its leaf; None if it has an operator that is not known here."""
    index = plan.schema().getFieldIndex(ORIGIN)
    if index.isDefined():
        return _Carried(plan, plan.output().apply(index.get()))
    children, kind = plan.children(), plan.nodeName()
    if children.size() != 1 or (kind != _PROJECT and kind not in _KEEPS_COLUMNS):
        return None
    below = _carry(jvm, children.apply(0))
    if below is None:
        return None
    if kind != _PROJECT:
        return _Carried(plan.withNewChildren(jvm.PythonUtils.toSeq([below.plan])), below.column)
    columns = plan.projectList().appended(below.column)
    return _Carried(jvm.org.apache.spark.sql.catalyst.plans.logical.Project(columns, below.plan), below.column)

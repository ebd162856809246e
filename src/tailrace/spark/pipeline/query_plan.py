"""Spark's analyzed plans of queries, with each common table expression (`WITH`) in the place where it is used.

The plan is not part of Spark's public interface. Spark's optimizer has the rule that does this; the number of its
arguments differs between versions.
"""

from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WITH = "WithCTE"


def inlined_plan(rows: "DataFrame") -> Any:
    """Return the plan of a query. An expression that is used several times and is not deterministic stays apart."""
    plan = rows._jdf.queryExecution().analyzed()
    if _WITH not in str(plan.toString()):
        return plan
    jvm: Any = rows.sparkSession._jvm
    rule = jvm.org.apache.spark.sql.catalyst.optimizer.InlineCTE
    return rule(*_defaults(rule)).apply(plan)


def _defaults(rule: Any) -> Iterator[Any]:
    """Yield the defaults of the arguments of a rule."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    for number in count(1):
        try:
            yield getattr(rule, f"apply$default${number}")()
        except Py4JError:
            return

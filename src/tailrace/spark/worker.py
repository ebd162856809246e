"""The kind of Spark's Python worker in which the code runs.

Spark uses a different process for each step: planning reads, planning reads with filters, planning writes. Each kind
loads its own module, which no other kind loads.
"""

import sys


def is_pushing_filters() -> bool:
    """Return whether this worker plans filters, which needs spark.sql.python.filterPushdown.enabled."""
    return _runs("data_source_pushdown_filters")


def is_planning_write() -> bool:
    """Return whether this worker plans a write, and does not commit it."""
    return _runs("write_into_data_source")


def _runs(step: str) -> bool:
    module = f"pyspark.sql.worker.{step}"
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return module in sys.modules or getattr(spec, "name", None) == module

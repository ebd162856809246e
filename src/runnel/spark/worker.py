"""Which of Spark's Python workers this code runs in.

Spark starts a process of another kind for each step: one plans reads, another one plans them with
filters, a third plans writes. Each kind has its module loaded, and no other kind has it.
"""

import sys


def is_pushing_filters() -> bool:
    """Whether filters are being planned, which Spark does where spark.sql.python.filterPushdown.enabled is true."""
    return _runs("data_source_pushdown_filters")


def is_planning_write() -> bool:
    """Whether a write is being planned, as opposed to being committed."""
    return _runs("write_into_data_source")


def _runs(step: str) -> bool:
    module = f"pyspark.sql.worker.{step}"
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return module in sys.modules or getattr(spec, "name", None) == module

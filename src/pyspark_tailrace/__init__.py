"""Where Spark finds the data source: it imports every package whose name begins with `pyspark_`.

It does so for each source in Python that a program uses, so this must not fail if Tailrace is
installed without what the source needs: pyarrow, and a pyspark that knows how to limit a batch.
"""

try:
    from tailrace.spark.source import TailraceDataSource as DefaultSource
except ImportError:
    pass
else:
    __all__ = ["DefaultSource"]

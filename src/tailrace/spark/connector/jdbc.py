"""Tables of databases with a JDBC driver as sources and sinks of flows, by Spark's own data source."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from tailrace.spark.connector.argument import check_duration_s, check_options
from tailrace.spark.connector.base import FlowPlace, FlowStart, Sink, Source
from tailrace.spark.connector.error_policy import OnError
from tailrace.spark.error import PipelineError
from tailrace.spark.message import clean, shorten
from tailrace.spark.record_place import ORIGIN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tailrace.spark.connector.cursor_watch import CursorWatch

_SAMPLE_ROWS = 100
_ALL = "all"  # the bound of a source without a cursor
_NO_DRIVER = ("No suitable driver", "ClassNotFoundException")
_OPTIONS = re.compile(r"[?;].*$")


@dataclass(frozen=True, slots=True)
class Jdbc(Source, Sink):
    """A table or a query to read, or a table to write; created by `jdbc`."""

    takes_origin: ClassVar[bool] = True

    url: str = field(repr=False)
    table: str | None = None
    query: str | None = None
    driver: str | None = None
    cursor: str | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    poll_s: float | None = None

    def __str__(self) -> str:
        return f"jdbc {self.table or 'query'} in {_without_secrets(self.url)}"

    # --- as a source

    def check_source(self) -> None:
        if self.poll_s is not None and self.cursor is None:
            raise PipelineError(f"{self}: poll= needs cursor=, the column that tells which rows are new")

    def read_place(self, place: FlowPlace) -> str:
        ordered = "" if self.cursor is None else f" by {self.cursor}"
        return f"{'a query' if self.table is None else f'table {self.table}'}{ordered}"

    def read(self, start: FlowStart) -> "DataFrame":
        from pyspark.sql.functions import col, lit

        from tailrace.spark.connector.poll import Poller, start_poller
        from tailrace.spark.connector.range_stream import HIGH, LOW, range_source

        rows = self._load(start)
        high = _ALL if self.cursor is None else self._newest(rows)
        name = self._name(start.place)
        path = None if self.poll_s is None else start.place.checkpoint / f"{name}_high"
        start.spark.dataSource.register(range_source(name, high, path, self._watch(rows)))
        ranges = start.spark.readStream.format(name).load()
        if self.cursor is None:
            return ranges.crossJoin(rows).select(*(rows[column] for column in rows.columns))
        cursor, kind = rows[self.cursor], rows.schema[self.cursor].dataType
        is_new = (col(LOW).isNull() | (cursor > col(LOW).cast(kind))) & (cursor <= col(HIGH).cast(kind))
        if path is not None and self.poll_s is not None:
            poller = Poller(name, path, lambda: self._newest(rows), self.poll_s)
            start.before_start(lambda: start_poller(poller, high))
            known = rows
        else:  # the upper bound is a literal, so that the database does not send rows above it
            known = rows.where(cursor <= lit(high).cast(kind)) if high else rows
        return ranges.join(known, is_new, "inner").select(*(rows[column] for column in rows.columns))

    def stop_source(self, place: FlowPlace) -> None:
        from tailrace.spark.connector.poll import stop_poller

        stop_poller(self._name(place))

    def sample(self, start: FlowStart) -> "DataFrame":
        return self._load(start).limit(_SAMPLE_ROWS)

    def _name(self, place: FlowPlace) -> str:
        return f"jdbc_{hashlib.sha256(f'{place.flow} {self} {self.query}'.encode()).hexdigest()[:12]}"

    def _load(self, start: FlowStart) -> "DataFrame":
        what = {"dbtable": self.table} if self.table is not None else {"query": str(self.query)}
        try:
            rows = start.spark.read.format("jdbc").options(**self._options, **what).load()
        except Exception as error:  # of any driver
            raise self._explained(error) from None
        if self.cursor is not None and self.cursor not in rows.columns:
            raise PipelineError(f"{self} has no column {self.cursor}; it has {', '.join(rows.columns)}")
        return rows

    def _watch(self, rows: "DataFrame") -> "CursorWatch | None":
        from pyspark.sql.types import NumericType

        from tailrace.spark.connector.cursor_watch import CursorWatch

        if self.cursor is None:
            return None
        return CursorWatch(f"{self.cursor} of {self}", isinstance(rows.schema[self.cursor].dataType, NumericType))

    def _newest(self, rows: "DataFrame") -> str:
        from pyspark.sql.functions import max as newest

        try:
            found = rows.select(newest(rows[str(self.cursor)]).cast("string")).collect()[0][0]
        except Exception as error:  # of any driver
            raise self._explained(error) from None
        return "" if found is None else str(found)

    # --- as a sink

    def check_sink(self) -> None:
        if self.table is None:
            raise PipelineError(f"{self} is a sink, and needs table=")
        for name, value in (("cursor", self.cursor), ("poll", self.poll_s)):
            if value is not None:
                raise PipelineError(f"{self} is a sink, and {name}= is for a source")

    def connect_sink(self, place: FlowPlace) -> None:
        if place.errors.action is not OnError.STOP and (self._option("isolationLevel") or "").upper() == "NONE":
            raise PipelineError(f'{self}: errors= other than "stop" needs transactions, and isolationLevel is NONE')

    def write_batch(self, batch: "DataFrame", batch_id: int, place: FlowPlace) -> None:
        from tailrace.spark.connector.jdbc_search import find_refused
        from tailrace.spark.connector.jdbc_write import write_without_refused

        if place.errors.action is not OnError.STOP:
            write_without_refused(batch, self._save, str(self), place)
            return
        try:
            self._save(batch.drop(ORIGIN))
        except Exception as error:  # of any driver
            refused = find_refused(error, batch, self, self._save)
            if refused is None:
                raise
        else:
            return
        place.rejects.refuse([refused])

    def has_transactions(self, spark: "SparkSession") -> bool:
        """Return whether the rows of a failed write are rolled back, as far as the driver knows."""
        if (self._option("isolationLevel") or "").upper() == "NONE":
            return False
        jvm: Any = spark._jvm
        given = jvm.PythonUtils.toScalaMap({**self._options, "dbtable": str(self.table)})
        options = jvm.org.apache.spark.sql.execution.datasources.jdbc.JDBCOptions(given)
        connection = jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(self.url).createConnectionFactory(options).apply(-1)
        try:
            return bool(connection.getMetaData().supportsTransactions())
        finally:
            connection.close()

    @property
    def task_count_max(self) -> int | None:
        """The option numPartitions: the most tasks that write a batch."""
        given = self._option("numPartitions")
        return None if given is None else int(given)

    def _save(self, rows: "DataFrame", **options: str) -> None:
        given = {**self._options, **options, "dbtable": str(self.table)}
        try:
            rows.write.format("jdbc").options(**given).mode("append").save()
        except Exception as error:  # of any driver
            if any(words in str(error) for words in _NO_DRIVER):
                raise self._explained(error) from None
            raise

    def _option(self, name: str) -> str | None:
        return next((text for key, text in self.options.items() if key.lower() == name.lower()), None)

    @property
    def _options(self) -> dict[str, str]:
        return {**self.options, "url": self.url, **({} if self.driver is None else {"driver": self.driver})}

    def _explained(self, error: Exception) -> PipelineError:
        text = str(error)
        if any(words in text for words in _NO_DRIVER):
            return PipelineError(
                f"{self}: the JDBC driver {self.driver or 'for this URL'} is not on Spark's class path; "
                "--conf spark.jars=FILE.jar or --conf spark.jars.packages=GROUP:NAME:VERSION brings it"
            )
        java = getattr(error, "java_exception", None)
        reason = text if java is None else str(java.getMessage())
        return PipelineError(f"{self} cannot be read: {shorten(clean(reason.replace(self.url, str(self))))}")


def jdbc(
    url: str,
    *,
    table: str | None = None,
    query: str | None = None,
    driver: str | None = None,
    cursor: str | None = None,
    poll: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Jdbc:
    """A table or a query of a database with a JDBC driver as the source of a flow, or a table as its sink.

    A source is read when the flow starts, in one batch. With a `cursor`, a column that increases, each start of the
    flow reads the rows above the last one that was read, and with `poll`, such as "5 seconds", a flow that runs looks
    for such rows in that interval. A sink inserts rows at least once; if errors= leaves out the rows that the database
    refuses, it inserts each batch over one connection, in one transaction. `driver` is the class of the driver.
    `options` are those of Spark's format jdbc, such as user, password and numPartitions.
    """
    if not isinstance(url, str) or not url.startswith("jdbc:"):
        raise PipelineError("jdbc() needs a URL such as jdbc:postgresql://host:5432/database")
    if (table is None) == (query is None):
        raise PipelineError("jdbc() needs either table= or query=")
    place = f"jdbc(table={table!r})" if table is not None else "jdbc(query=…)"
    poll_s = None if poll is None else check_duration_s(place, "poll", poll)
    return Jdbc(url, table, query, driver, cursor, check_options(place, options), poll_s)


def _without_secrets(url: str) -> str:
    """Return a URL without the user and the password, which drivers take before the host or after the database."""
    before, at, after = url.rpartition("@")
    kind = ":".join(before.split(":")[:2])  # such as jdbc:oracle
    return _OPTIONS.sub("", f"{kind}:…@{after}" if at else url)

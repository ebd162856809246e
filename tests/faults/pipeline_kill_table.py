"""A compacted topic whose keys change and vanish at random, as tables, while everything is killed.

Two flows keep a Delta and an Iceberg table equal to the topic, by key. DuckDB and Polars read them back. A third one
adds every change to a Delta table, where a batch that is written twice is seen.
"""

from __future__ import annotations

import threading
from collections import Counter
from random import Random

from tests.faults.pipeline_kill_loop import PipelineLoop, Setting
from tests.faults.spark_kill_feed import CLOSE_TIMEOUT_S, PARTITION_COUNT, TICK_S
from tests.faults.spark_kill_flow import TICK
from tests.table_reader import duckdb_rows, polars_rows

import tailrace
from tailrace.spark.connector.base import FlowPlace
from tailrace.spark.connector.delta.delta import delta
from tailrace.spark.connector.iceberg.iceberg import iceberg
from tailrace.spark.connector.lake.endpoint import LakeEndpoint
from tailrace.spark.connector.lake.lake_table import LakeTable
from tailrace.spark.error import ConnectorError

TOPIC = "rows"
CHANGES_A_SECOND = 500
DELETED = 0.3
_SINK = 'key="id", delete_when="value IS NULL", exclude="value", compact="20 seconds", keep="2 minutes"'
_FLOWS = f"""
rows = topic(
    "{TOPIC}",
    schema="n bigint",
    include=("key", "value"),
    options={{{{"maxOffsetsPerTrigger": "{{limit}}", "minPartitions": "{PARTITION_COUNT}"}}}},
)


def counted(rows):
    return rows.where("string(key) <> '{TICK}'").selectExpr("bigint(string(key)) AS id", "n", "value")


@flow(source=rows, sink=delta("rows", {_SINK}))
def to_delta(rows):
    return counted(rows)


@flow(source=rows, sink=iceberg("rows", {_SINK}))
def to_iceberg(rows):
    return counted(rows)


@flow(source=rows, sink=delta("added", compact="20 seconds", keep="2 minutes"))
def added(rows):
    return counted(rows).selectExpr("id", "n")
"""


class TableFeed(threading.Thread):
    """Writes every key once, and then changes and deletes keys until it is told to end."""

    def __init__(self, address: str, seed: int, key_count: int) -> None:
        super().__init__(name="table feed", daemon=True)
        self.count = 0
        self.newest: dict[int, int] = {}
        self.written: Counter[str] = Counter()
        self._address = address
        self._dice = Random(f"{seed} tables")
        self._key_count = key_count
        self._ending = threading.Event()
        self._complete = threading.Event()
        self._closing = threading.Event()
        self._failure: BaseException | None = None

    def run(self) -> None:
        try:
            with tailrace.Producer(self._address, linger_ms=20, delivery_timeout_ms=600_000) as producer:
                for key in range(self._key_count):
                    self._change(producer, key, is_deleted=False)
                while not self._ending.wait(0.05):
                    for _ in range(CHANGES_A_SECOND // 20):
                        self._change(
                            producer, self._dice.randrange(self._key_count), is_deleted=self._dice.random() < DELETED
                        )
                producer.flush()
                self._complete.set()
                while not self._closing.wait(TICK_S):
                    for partition in range(PARTITION_COUNT):
                        producer.send(TOPIC, b'{"n": -1}', TICK.encode(), partition=partition)
        except BaseException as error:
            self._failure = error
            self._complete.set()

    def _change(self, producer: tailrace.Producer, key: int, *, is_deleted: bool) -> None:
        value = None if is_deleted else b'{"n": %d}' % self.count
        producer.send(TOPIC, value, b"%d" % key, partition=key % PARTITION_COUNT)
        self.written[f"{key} {None if is_deleted else self.count}"] += 1
        if is_deleted:
            self.newest.pop(key, None)
        else:
            self.newest[key] = self.count
        self.count += 1

    def end(self) -> int:
        """Change no more keys; returns how many changes there were."""
        self._ending.set()
        self._complete.wait()
        self.check()
        return self.count

    def check(self) -> None:
        """Raise what went wrong, if anything."""
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Write nothing any more."""
        self._ending.set()
        self._closing.set()
        if self.ident is not None:
            self.join(CLOSE_TIMEOUT_S)


class TablesLoop(PipelineLoop):
    """A compacted topic to tables."""

    flows = ("to_delta", "to_iceberg", "added")
    ablated = "added"

    def __init__(self, setting: Setting, seed: int, key_count: int) -> None:
        self._feed = TableFeed(setting.address, seed, key_count)
        text = _FLOWS.format(limit=max(5_000, key_count // 4))
        super().__init__(setting, text, self._feed, {})
        self._place = FlowPlace("check", setting.folder, setting.folder)

    def prepare(self) -> None:
        with tailrace.Admin(self.address) as admin:
            admin.create_topics([tailrace.NewTopic(TOPIC, PARTITION_COUNT, 1, configs={"cleanup.policy": "compact"})])

    def truth(self, record_count: int) -> dict[str, Counter[str]]:
        newest = Counter(f"{key} {number}" for key, number in self._feed.newest.items())
        return {
            "to_delta": newest,
            "to_iceberg": newest,
            "added": self._feed.written,
        }

    def output(self, name: str) -> Counter[str]:
        """Return the rows that DuckDB reads; Polars must read the same. None while the table changes under both."""
        sink = iceberg("rows") if name == "to_iceberg" else delta("rows" if name == "to_delta" else "added")
        table = self._open(sink)
        if table is None:
            return Counter()
        rows, others = duckdb_rows(table, "id, n"), polars_rows(table, "id", "n")
        again = self._open(sink)
        if again is None or again.version != table.version:
            return Counter()
        if rows != others:
            raise AssertionError(f"{table}: DuckDB and Polars read different rows of version {table.version}")
        return Counter(f"{key} {number}" for key, number in rows)

    def _open(self, sink: LakeEndpoint) -> LakeTable | None:
        try:
            return sink.open_table(self._place)
        except ConnectorError:
            return None  # it is being created

    def is_complete(self, name: str, expected: Counter[str], found: Counter[str]) -> bool:
        return found == expected if name != "added" else super().is_complete(name, expected, found)

    def file_counts(self) -> dict[str, int]:
        """Return the number of files in the folder of each table."""
        root = self._place.output
        folders = {"rows": root / "rows", "added": root / "added", "warehouse": root / "warehouse"}
        return {name: sum(1 for path in folder.rglob("*") if path.is_file()) for name, folder in folders.items()}

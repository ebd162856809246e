"""Pipeline files that are run by `tailrace pipeline run` and killed, with what they read and write.

Each chain is one file with the shipped connectors. Its first lines install places where kills meet the sinks
(`pipeline_kill_sink`). The program is started again when it is killed or ends by itself, as a service manager does.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

import psycopg
import pyarrow as pa
from tests.faults.killable import Killable, running_brokers
from tests.faults.pipeline_kill_storm import FIRST_ROWS, Storm, create_tables, read_rows
from tests.faults.spark_kill_feed import PARTITION_COUNT, SOURCE, Feed, output
from tests.faults.spark_kill_flow import TICK
from tests.faults.spark_kill_halt import HALT_FOLDER
from tests.faults.spark_kill_loop import Feeder, KillLoop, Processes
from tests.faults.spark_kill_plan import Kill, Moment, plan_kills
from tests.faults.spark_kill_process import Driver, LocalSpark, StandaloneSpark, config_for, kill_session
from tests.postgres_server import PostgresServer
from tests.s3_server import S3Server

import tailrace
from tailrace.client.error import ClientError
from tailrace.spark.connector.s3.listing import list_committed
from tailrace.spark.connector.s3.object_format import ObjectFormat
from tailrace.spark.connector.s3.object_read import read_object
from tailrace.spark.connector.s3.position import Found as FoundObject
from tailrace.spark.connector.s3.store import check_settings, open_store
from tailrace.spark.pipeline.checkpoint import read_progress
from tailrace.spark.pipeline.plan import checkpoints_of

MOMENTS = (
    *(Moment.COMMITTED, Moment.ANYWHERE),
    *(Moment.PREPARED, Moment.ANYWHERE),
    *(Moment.UNDECIDED, Moment.ANYWHERE),
)
REVIVE_PAUSE_S = 1.0
_FAILED = re.compile(r"^tailrace: flow (\S+) failed and restarts in \S+ s: (.*)$", re.MULTILINE)

_HEAD = """\
from tests.faults.pipeline_kill_sink import install

from tailrace.pipeline import delta, flow, iceberg, postgres, postgres_changes, s3, topic

install(is_safe={is_safe})
"""
# Two tasks in each batch, so that one is done while the other is not.
_SQUARES = f"""
numbers = topic("{SOURCE}", options={{{{"maxOffsetsPerTrigger": "3000", "minPartitions": "{PARTITION_COUNT}"}}}})


@flow(source=numbers, sink={{sink}})
def squares(records):
    counted = records.where("CAST(key AS STRING) <> '{TICK}'")
    numbers = counted.selectExpr("CAST(CAST(value AS STRING) AS BIGINT) AS number")
    return numbers.selectExpr("number", "number * number AS square")
"""
_CHANGES = """
URL = "{url}"
COLUMNS = ("id", "balance", "change")


@flow(
    source=postgres_changes(URL, tables="accounts", schema="id int, balance bigint, change bigint"),
    sink=topic("changes", key="id"),
)
def changes(rows):
    return rows.selectExpr("op", *(f"coalesce(after.{{name}}, before.{{name}}) AS {{name}}" for name in COLUMNS))


@flow(
    source=topic("changes", schema="op string, id int, balance bigint, change bigint"),
    sink=postgres(URL, table="copies", key="id", delete_when="op = 'd'", exclude="op"),
)
def copies(rows):
    return rows
"""


@dataclass(frozen=True, slots=True)
class Setting:
    """Where a chain runs."""

    folder: Path
    address: str
    brokers: Sequence[Killable]
    on_cluster: bool
    is_safe: bool


class PipelineLoop(KillLoop):
    """A pipeline file that is killed."""

    flows: ClassVar[tuple[str, ...]]
    ablated: ClassVar[str]
    """The flow whose output differs without its safeguard, if the driver is killed where a batch is committed."""

    def __init__(self, setting: Setting, text: str, feed: Feeder, servers: Mapping[str, Sequence[Killable]]) -> None:
        folder = setting.folder
        self.address = setting.address
        self.endings: list[str] = []
        self._replica_count = len(setting.brokers)
        self._file = folder / "chain.py"
        self._file.write_text(_HEAD.format(is_safe=setting.is_safe) + text)
        self.targets = ("driver", *servers, "worker", "broker", *(("executor",) if setting.on_cluster else ()))
        environment = {HALT_FOLDER: str(folder)}
        spark = StandaloneSpark(folder, environment) if setting.on_cluster else LocalSpark()
        program = ["tailrace", "pipeline", "run", str(self._file)]
        program += ["--master", spark.master, "--bootstrap-server", setting.address]
        for name, value in config_for(spark.master).items():
            program += ["--conf", f"{name}={value}"]
        driver = Driver(program, environment, folder / "pipeline.txt")
        super().__init__(folder, self.flows, feed, Processes(driver, spark, {"broker": setting.brokers, **servers}))

    def plan(self, seed: int, count: int, *, is_ablated: bool) -> list[Kill]:
        """Return the kills of a run."""
        return plan_kills(seed, count, self.targets, (self.ablated,) if is_ablated else self.flows, MOMENTS)

    def create_topics(self, *names: str) -> None:
        with tailrace.Admin(self.address) as admin:
            admin.create_topics([tailrace.NewTopic(name, PARTITION_COUNT, self._replica_count) for name in names])

    @contextmanager
    def watched(self, flow: str) -> Iterator[Callable[[], int]]:
        """Provide the number of batches that a flow has finished."""
        checkpoint = checkpoints_of(self._file) / flow

        def count() -> int:
            progress = read_progress(checkpoint)
            return 0 if progress is None else progress.batch_id + 1

        yield count

    def revive(self, problem: str) -> None:
        """Start the program again when it has ended by itself, as a service manager does."""
        lines = self.driver.errors.read_text().strip().splitlines()
        self.endings.append(lines[-1] if lines else "")
        kill_session(self.driver.session)
        time.sleep(REVIVE_PAUSE_S)
        self.driver.start()

    def failures(self) -> Counter[str]:
        """Return how often flows failed and were restarted by the program, by cause."""
        return Counter(f"{flow}: {cause}" for flow, cause in _FAILED.findall(self.driver.errors.read_text()))


class PostgresLoop(PipelineLoop):
    """Topic to PostgreSQL: a table to which rows are appended, so that a row that comes twice is there twice."""

    flows = ("squares",)
    ablated = "squares"

    def __init__(self, setting: Setting, database: PostgresServer) -> None:
        self._url = database.url
        text = _SQUARES.format(sink=f'postgres("{database.url}", table="squares", mode="append")')
        super().__init__(setting, text, Feed(setting.address), {"database": [database]})

    def prepare(self) -> None:
        self.create_topics(SOURCE)

    def truth(self, record_count: int) -> dict[str, Counter[str]]:
        return {"squares": squares(record_count)}

    def output(self, name: str) -> Counter[str]:
        with psycopg.connect(self._url) as connection:
            return Counter(f"{number} {square}" for number, square in connection.execute("SELECT * FROM squares"))


class S3Loop(PipelineLoop):
    """Topic to S3. The server keeps its objects in memory, so it is not killed."""

    flows = ("squares",)
    ablated = "squares"

    def __init__(self, setting: Setting, server: S3Server) -> None:
        url = f"s3://{server.create_bucket()}/squares"
        text = _SQUARES.format(sink=f's3("{url}", options={server.options!r})')
        super().__init__(setting, text, Feed(setting.address), {})
        self._settings = check_settings("s3()", url, server.options)
        self._read = cache(self._read_object)

    def prepare(self) -> None:
        self.create_topics(SOURCE)

    def truth(self, record_count: int) -> dict[str, Counter[str]]:
        return {"squares": squares(record_count)}

    def output(self, name: str) -> Counter[str]:
        """Return the rows of all objects that a manifest lists."""
        found: Counter[str] = Counter()
        for each in list_committed(self._settings, open_store(self._settings)):
            found.update(self._read(each))
        return found

    def _read_object(self, each: FoundObject) -> tuple[str, ...]:
        schema = pa.schema([("number", pa.int64()), ("square", pa.int64())])
        batches = read_object(self._settings, open_store(self._settings), each, ObjectFormat.PARQUET, schema)
        columns = [(batch.column("number").to_pylist(), batch.column("square").to_pylist()) for batch in batches]
        return tuple(f"{number} {square}" for pair in columns for number, square in zip(*pair, strict=True))


class ChangesLoop(PipelineLoop):
    """PostgreSQL changes to a topic, and the topic to PostgreSQL.

    The topic must have each change once. The table at the end must be equal to the first one.
    """

    flows = ("changes", "copies")
    ablated = "changes"

    def __init__(self, setting: Setting, database: PostgresServer, seed: int) -> None:
        self._url = database.url
        storm = Storm(database.url, seed, self._has_snapshot)
        super().__init__(setting, _CHANGES.format(url=database.url), storm, {"database": [database]})

    def _has_snapshot(self) -> bool:
        try:
            return len(output(self.address, "changes")) >= FIRST_ROWS
        except ClientError:
            return False  # the broker is away

    def prepare(self) -> None:
        self.create_topics("changes")
        create_tables(self._url)

    def truth(self, record_count: int) -> dict[str, Counter[str]]:
        return {
            "changes": read_rows(self._url, "audit", "op, id, balance, change"),
            "copies": read_rows(self._url, "accounts", "id, balance, change"),
        }

    def output(self, name: str) -> Counter[str]:
        if name == "copies":
            return read_rows(self._url, "copies", "id, balance, change")
        records = map(json.loads, output(self.address, "changes"))
        return Counter(f"{row['op']} {row['id']} {row['balance']} {row['change']}" for row in records if row["id"])

    def is_complete(self, name: str, expected: Counter[str], found: Counter[str]) -> bool:
        return found == expected if name == "copies" else super().is_complete(name, expected, found)


def squares(record_count: int) -> Counter[str]:
    """Return the rows of the first two chains."""
    return Counter(f"{number} {number * number}" for number in range(record_count))


CHAINS = ("postgres", "changes", "s3", "tables")
KEY_COUNT = 20_000


@contextmanager
def open_chain(
    name: str, folder: Path, *, seed: int, on_cluster: bool = False, is_safe: bool = True, key_count: int = KEY_COUNT
) -> Iterator[PipelineLoop]:
    """Provide a chain with its servers running. `key_count` is for the chain of tables."""
    with ExitStack() as stack:
        address, brokers = stack.enter_context(running_brokers(1, folder))
        setting = Setting(folder, address, brokers, on_cluster, is_safe)
        if name == "s3":
            yield S3Loop(setting, stack.enter_context(S3Server()))
            return
        if name == "tables":
            from tests.faults.pipeline_kill_table import TablesLoop

            yield TablesLoop(setting, seed, key_count)
            return
        database = stack.enter_context(PostgresServer())
        yield PostgresLoop(setting, database) if name == "postgres" else ChangesLoop(setting, database, seed)

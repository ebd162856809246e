"""A flow from one store to another whose driver is killed with -9: each row is in the store once."""

from __future__ import annotations

import io
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.s3_server import S3Server
from tests.spark.conftest import require_spark
from tests.spark.waiting import wait_until

from tailrace.spark.connector.s3.listing import list_committed
from tailrace.spark.connector.s3.name import is_object_of_batch
from tailrace.spark.connector.s3.object_format import ObjectFormat
from tailrace.spark.connector.s3.object_read import read_object
from tailrace.spark.connector.s3.store import check_settings, open_store
from tailrace.testing import Broker

obstore = pytest.importorskip("obstore", reason="obstore is not installed")
pytestmark = [pytest.mark.exact, pytest.mark.slow]

CHECKOUT = Path(__file__).resolve().parents[2]
OBJECT_COUNT = 12
ROWS_OF_AN_OBJECT = 50
KILL_COUNT = 2
SCHEMA = pa.schema([("n", pa.int64())])
FLOW = """\
name: copy
source: {{connector: s3, url: "file://{folder}/in", max_objects: 2, schema: "n bigint"}}
sql: SELECT /*+ REPARTITION(3) */ n FROM source
sink: {{connector: s3, url: "{url}", options: {options}}}
"""


def test_each_row_is_written_once_while_the_driver_is_killed(broker: Broker, tmp_path: Path) -> None:
    """The driver is killed after a random number of objects and manifests; batches are repeated with another split."""
    require_spark()
    seed = random.randrange(2**32)
    dice = random.Random(seed)
    fill(tmp_path)
    with S3Server() as server:
        url = f"s3://{server.create_bucket()}/out"
        settings = check_settings("s3()", url, server.options)
        store = open_store(settings)
        path = tmp_path / "copy.yaml"
        path.write_text(FLOW.format(folder=tmp_path, url=url, options=json.dumps(server.options)))
        for _ in range(KILL_COUNT):
            least = len(names(store)) + dice.randrange(1, 10)
            kill_when(path, broker, partial(has_names, store, least))
        done = start(path, broker)
        assert done.wait(300) == 0, f"seed {seed}"
        committed = list_committed(settings, store)
        rows = [
            number
            for each in committed
            for batch in read_object(settings, store, each, ObjectFormat.PARQUET, SCHEMA)
            for number in batch.column("n").to_pylist()
        ]
        assert sorted(rows) == list(range(OBJECT_COUNT * ROWS_OF_AN_OBJECT)), f"seed {seed}"
        found = {name for name in names(store) if is_object_of_batch(name)}
        assert found == {each.name for each in committed}, f"seed {seed}"


def fill(folder: Path) -> None:
    store = open_store(check_settings("s3()", f"file://{folder}/in", None))
    for number in range(OBJECT_COUNT):
        output = io.BytesIO()
        first = number * ROWS_OF_AN_OBJECT
        pq.write_table(pa.table({"n": range(first, first + ROWS_OF_AN_OBJECT)}), output)
        obstore.put(store, f"{number:03d}.parquet", output.getvalue())


def names(store: Any) -> list[str]:
    return [each["path"] for each in obstore.list(store).collect()]


def has_names(store: Any, least: int) -> bool:
    return len(names(store)) >= least


def start(path: Path, broker: Broker) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tailrace", "pipeline", "run", str(path), "--once", "--master", "local[2]"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(CHECKOUT / "src"), str(CHECKOUT)])}
    return subprocess.Popen(
        [*command, "--bootstrap-server", broker.bootstrap_servers],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def kill_when(path: Path, broker: Broker, is_time: Callable[[], bool]) -> None:
    """Run the flow until a moment comes, and kill the driver, its JVM and its Python workers."""
    driver = start(path, broker)
    try:
        wait_until(lambda: is_time() or driver.poll() is not None, timeout_s=300)
    finally:
        with suppress(ProcessLookupError):  # it was done before anybody looked
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()

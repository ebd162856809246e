"""Several pipeline files in one Spark application."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.spark.conftest import CHECKOUT, require_spark

from tailrace.testing import Broker

pytestmark = pytest.mark.slow

WRONG = """
from tailrace.pipeline import flow, topic

@flow(source=topic({source!r}, schema="n int"), sink=topic({sink!r}))
def copied(rows):
    return rows.selectExpr("n", "raise_error('no such luck') AS text")
"""

RIGHT = """
name: copied
source: {{connector: topic, name: {source}, schema: "n int"}}
sql: SELECT n + 1 AS n FROM source
sink: {{connector: topic, name: {sink}}}
"""


def test_a_file_that_fails_leaves_the_others_alone(
    broker: Broker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """The flows have one name, which only one query of a session can have."""
    require_spark()
    source, wrong, right = new_topic(), new_topic(), new_topic()
    (tmp_path / "wrong.py").write_text(WRONG.format(source=source, sink=wrong))
    (tmp_path / "right.yaml").write_text(RIGHT.format(source=source, sink=right))
    broker.produce(source, [json.dumps({"n": number}).encode() for number in range(5)])
    command = [sys.executable, "-m", "tailrace.cli.main", "pipeline", "run", "wrong.py", "right.yaml", "--once"]
    command += ["--bootstrap-server", broker.bootstrap_servers, "--master", "local[2]"]
    environment = os.environ | {"PYTHONPATH": str(CHECKOUT / "src")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "tailrace: 1 of 2 files failed: wrong.py" in done.stderr.splitlines()
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith("tailrace: wrong.py stopped: flow copied: ")]
    assert "tailrace: flow right/copied finished: 5 rows in, 5 rows out, 1 batch" in lines
    assert sorted(json.loads(record.value or b"")["n"] for record in broker.consume(right)) == [1, 2, 3, 4, 5]
    assert broker.consume(wrong) == []
    for name, commit_count in (("wrong", 0), ("right", 1)):
        checkpoint = tmp_path / ".tailrace" / "checkpoints" / name / "copied"
        assert len([*(checkpoint / "commits").glob("[0-9]*")]) == commit_count

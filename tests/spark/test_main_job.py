"""The main job, as `make demo FOR=…` runs it: broker, publisher, Spark and the checks at its end."""

import re
import subprocess
import sys

import pytest
from tests.spark.conftest import CHECKOUT, require_spark

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(600)]


def test_the_demo_runs_its_pipeline_and_finds_every_event_in_the_results() -> None:
    require_spark()
    done = subprocess.run(
        [sys.executable, "-m", "runnel.cli.demo", "--for", "3s", "--master", "local[2]"],
        capture_output=True,
        text=True,
        timeout=500,
        cwd=CHECKOUT / "src",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("runnel demo: every acknowledged event was read\n")
    counts = dict(re.findall(r"flow (\w+): ([\d,]+) rows in", done.stdout))
    assert counts.keys() == {"page_counts", "sessions", "order_searches", "activity"}
    events = re.search(r"([\d,]+) events in", done.stdout)
    assert events is not None
    assert counts["activity"] == events[1] != "0"
    assert f"parquet activity: {events[1]} rows read back" in done.stdout

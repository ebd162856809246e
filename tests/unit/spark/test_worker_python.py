"""The program that Spark's workers are started with."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tailrace.spark.worker_python import find_worker_python


def folder(site: Path) -> Path:
    """pyspark as pip installs it, with its zips."""
    library = site / "pyspark" / "python" / "lib"
    library.mkdir(parents=True)
    for name in ("py4j-0.10-src.zip", "pyspark.zip"):
        (library / name).write_text("")
    return site / "pyspark"


def test_the_zips_of_pyspark_are_left_out_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "a 'site'"
    pyspark = folder(site)
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(site))
    (tmp_path / "link").symlink_to(site)
    program = find_worker_python(tmp_path / "link" / "pyspark", tmp_path / "cache")
    zips = [str(folder / "pyspark" / "python" / "lib" / "pyspark.zip") for folder in (site, tmp_path / "link")]
    zips.append(str(pyspark / "python" / "lib" / "py4j-0.10-src.zip"))
    path = os.pathsep.join([*zips, f"{tmp_path}/*", "/other/pyspark.zip"])
    done = subprocess.run(
        [program, "-c", "import os, sys; print(os.environ['PYTHONPATH'], sys.argv[1:])", "a b", "$c"],
        env={"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{tmp_path}/*:/other/pyspark.zip ['a b', '$c']\n"


def test_a_pyspark_that_is_not_installed_keeps_its_zips(tmp_path: Path) -> None:
    assert find_worker_python(folder(tmp_path), tmp_path / "cache") == Path(sys.executable)
    assert not (tmp_path / "cache").exists()

"""The archive of packages for executors."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tailrace.spark.shipment import NOT_SHIPPED, _parse, needed_distributions, pack

pytestmark = pytest.mark.slow


def test_requirements_of_wanted_extras_count() -> None:
    extras = frozenset({"postgres"})
    assert _parse("click>=8.1", extras) == ("click", frozenset())
    assert _parse('psycopg[binary]>=3.2; extra == "postgres"', extras) == ("psycopg", frozenset({"binary"}))
    assert _parse("pytest>=8; extra == 'dev'", extras) is None
    assert _parse('Google_Re2 (>=1.1) ; sys_platform != "win32"', extras) == ("google-re2", frozenset())


def test_what_spark_needs_itself_is_not_shipped() -> None:
    found = needed_distributions()
    assert {"click", "cramjam", "zstandard"} <= found.keys()
    assert not found.keys() & NOT_SHIPPED
    assert "pytest" not in found


def test_a_python_without_packages_can_import_tailrace_from_the_archive(tmp_path: Path) -> None:
    archive = pack(tmp_path)
    assert pack(tmp_path) == archive, "it is written once"
    with zipfile.ZipFile(archive) as zipped:
        zipped.extractall(tmp_path / "unpacked")
    code = "import tailrace, tailrace.records.batch; print(tailrace.__file__)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={"PYTHONPATH": str(tmp_path / "unpacked")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(tmp_path / "unpacked" / "tailrace" / "__init__.py")

"""Pyspark in the same process changes no line that Tailrace logs."""

import logging
import subprocess
import sys
from pathlib import Path

import pytest
from tests.logged import logged

pytest.importorskip("pyspark", reason="pyspark is not installed")


def test_a_formatter_of_pyspark_does_not_matter_to_a_test(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query that fails leaves a logger that does not propagate. Pytest gave it the handler behind `caplog`, which
    wrote JSON in every later test, with exceptions that were not in their usual form."""
    from pyspark.logger import PySparkLogger

    monkeypatch.setattr(caplog.handler, "formatter", caplog.handler.formatter)
    PySparkLogger("a query that failed").addHandler(caplog.handler)
    try:
        raise ValueError("a bug")
    except ValueError:
        logging.getLogger("tailrace.runtime").exception("the markers could not be sent")
    assert logged(caplog).startswith("the markers could not be sent\nTraceback")
    assert logged(caplog).endswith("ValueError: a bug")


_ALL_MODULES = """
import logging, pkgutil, tailrace
from importlib import import_module
from pyspark.logger import PySparkLogger

logging.setLoggerClass(PySparkLogger)
for module in pkgutil.walk_packages(tailrace.__path__, "tailrace."):
    if not module.name.endswith("__main__"):
        import_module(module.name)
loggers = logging.root.manager.loggerDict.items()
print(*sorted(name for name, logger in loggers if name.startswith("tailrace") and isinstance(logger, PySparkLogger)))
"""


def test_no_logger_of_tailrace_is_made_by_pyspark() -> None:
    """Pyspark sets its own class of loggers, for all threads, while it makes one. A module of Tailrace that another
    thread imported just then got such a logger: nothing below a warning, and the rest as JSON on stderr."""
    done = subprocess.run([sys.executable, "-c", _ALL_MODULES], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [], "these are missing in tailrace/__init__.py"


_START_AFTER_PYSPARK = """
import logging, sys
from pyspark.logger import PySparkLogger
from tailrace.cli.main import main

handler = logging.StreamHandler()
logging.getLogger().addHandler(handler)
PySparkLogger.getLogger("a query").addHandler(handler)
sys.exit(main(["start", *sys.argv[1:]]))
"""


def test_a_broker_logs_its_own_lines_beside_pyspark(tmp_path: Path) -> None:
    """The handler that was there first was taken for the broker's, with its formatter and its level."""
    process = subprocess.Popen(
        [sys.executable, "-c", _START_AFTER_PYSPARK, "--data", str(tmp_path), "--listen", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert "ready" in process.stdout.readline()
    finally:
        process.terminate()
        _, log = process.communicate()
    lines = log.splitlines()
    assert lines[-1].endswith("INFO broker 1 has stopped"), log
    assert [line for line in lines if line.startswith("{")] == []

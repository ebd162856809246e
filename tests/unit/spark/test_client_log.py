"""What of our own log a pipeline shows, in the driver and in Spark's Python workers."""

import logging
import os
import subprocess
import sys

import pytest

from tailrace.spark.client_log import ENVIRONMENT, log_scope

WORKER = """
import logging
import tailrace.spark
logging.getLogger("tailrace.client.produce.sender").warning("1 records were not written")
logging.getLogger("tailrace.spark.data_loss").warning("records are gone")
logging.getLogger("tailrace.client.produce.sender").error("the producer stopped")
logging.getLogger("mine").warning("of the user's own code")
"""


def worker_output(level: str | None) -> list[str]:
    """What a worker prints that logs as above."""
    environment = {name: text for name, text in os.environ.items() if name != ENVIRONMENT}
    environment |= {} if level is None else {ENVIRONMENT: level}
    done = subprocess.run(
        [sys.executable, "-c", WORKER], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stderr.splitlines()


def test_a_worker_of_a_pipeline_is_quiet_but_for_bugs_and_lost_records() -> None:
    """Spark passes on what workers print: "1 records … were not written: INVALID_PRODUCER_EPOCH" stood in the demo."""
    assert worker_output("off") == ["records are gone", "the producer stopped", "of the user's own code"]


def test_a_worker_logs_what_the_user_asked_for() -> None:
    lines = worker_output("warn")
    assert any(line.endswith("WARNING tailrace.client.produce.sender: 1 records were not written") for line in lines)
    assert len(lines) == 4
    assert len(worker_output("error")) == 2


def test_a_session_without_a_pipeline_logs_as_python_does() -> None:
    assert "1 records were not written" in worker_output(None)


def test_a_broker_starts_in_the_environment_of_a_pipeline() -> None:
    """A broker refuses variables of its own prefix that it does not know, so the demo's broker did not start."""
    assert not ENVIRONMENT.startswith("TAILRACE_")


@pytest.mark.parametrize("level", ["off", "debug"])
def test_the_driver_logs_alike_and_afterwards_as_before(level: str) -> None:
    logger = logging.getLogger("tailrace")
    before = logger.level, list(logger.handlers), os.environ.get(ENVIRONMENT)
    with log_scope(level):
        assert logging.getLogger("tailrace.client.produce.sender").isEnabledFor(logging.WARNING) == (level != "off")
        assert logging.getLogger("tailrace.client.produce.sender").isEnabledFor(logging.ERROR)
        assert os.environ[ENVIRONMENT] == level
    assert (logger.level, list(logger.handlers), os.environ.get(ENVIRONMENT)) == before

"""What all tests need: the checkout on the path, kafka-python without its warnings, Hypothesis without deadlines."""

import importlib
import logging
import os
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.logging import LogCaptureHandler
from hypothesis import settings

# Speed is not a test's business, and a deadline makes one fail on a busy machine.
# `make test` draws the same examples each time, so that it rejects a change only for what the change does; `make
# test-all` draws new ones.
settings.register_profile("tailrace", deadline=None, derandomize=True)
settings.register_profile("fresh", deadline=None)
settings.load_profile("tailrace")

# Started in the background, a test run inherits that Ctrl-C is ignored, and so would the commands that it interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A download would count against the limit of a test, so `make fetch` brings what tests need. Processes inherit this.
os.environ.setdefault("TAILRACE_NO_DOWNLOAD", "1")

CHECKOUT = Path(__file__).resolve().parents[1]
if str(CHECKOUT) not in sys.path:
    sys.path.insert(0, str(CHECKOUT))  # for `tests.…`, wherever pytest was started

from tests.gate.lane import PROCESS, lane_of  # noqa: E402 - `tests` is on the path from here on

with warnings.catch_warnings():
    # kafka-python reads its schemas in a way that newer Pythons warn of; here a warning is an error.
    warnings.simplefilter("ignore", DeprecationWarning)
    for part in ("admin", "consumer", "metadata", "producer"):
        importlib.import_module(f"kafka.protocol.{part}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Undo what the tests of a file and its fixtures have done to the levels of our loggers."""
    result = yield
    if nextitem is None or nextitem.path != item.path:
        for name, logger in logging.root.manager.loggerDict.items():
            if isinstance(logger, logging.Logger) and name.partition(".")[0] == "tailrace" and logger.level:
                logger.setLevel(logging.NOTSET)
    return result


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Undo what a command of a server that a test ran in this process has done to logging."""
    loggers = [logging.getLogger(name) for name in (None, "tailrace", "httpx")]
    before = [(logger, logger.level, logger.propagate, tuple(logger.handlers)) for logger in loggers]
    yield
    for logger, level, propagate, handlers in before:
        logger.setLevel(level)
        logger.propagate = propagate
        for handler in logger.handlers[:]:
            if handler not in handlers and not isinstance(handler, LogCaptureHandler):
                logger.removeHandler(handler)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Any]:
    """A PostgreSQL server for all tests of a worker, each of which makes tables of its own."""
    from tests.postgres_server import started_server

    with started_server() as server:
        yield server


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Set the limits of lanes, and refuse tests with the same id, of which pytest-xdist runs only one in silence."""
    for item in items:
        lane = PROCESS if item.get_closest_marker("slow") else lane_of(item.nodeid.partition("::")[0])
        limit_s = lane.timeout_s
        given = item.get_closest_marker("timeout")
        if given is None or given.args[0] < limit_s:
            item.add_marker(pytest.mark.timeout(limit_s), append=False)
    repeated = [nodeid for nodeid, count in Counter(item.nodeid for item in items).items() if count > 1]
    assert not repeated, f"several tests have the id {repeated[0]}"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(
    terminalreporter: Any, exitstatus: int, config: pytest.Config
) -> Generator[None, None, None]:
    """Say at the end of a long output what was missing, and how to have the tests in the same order again."""
    from tests.missing_part import missing_lines

    yield
    for line in missing_lines(str(report.longrepr) for report in terminalreporter.stats.get("skipped", [])):
        terminalreporter.write_line(line)
    seed = config.getoption("randomly_seed", None)
    if exitstatus != pytest.ExitCode.OK and seed is not None:
        terminalreporter.write_line(f"This order is repeated by the option --randomly-seed={seed}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what embedded brokers wait for to the report of a failure: a reply that never came has no other trace."""
    report = yield
    if report.failed and "tailrace.runtime.group.coordinator" in sys.modules:
        from tests.waiting import describe_waits

        if waits := describe_waits():
            report.sections.append(("What the brokers in this process wait for", waits))
    return report

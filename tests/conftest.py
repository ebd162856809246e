"""What all tests need: the checkout on the path, kafka-python without its warnings, Hypothesis without deadlines."""

import importlib
import logging
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
settings.register_profile("tailrace", deadline=None)
settings.load_profile("tailrace")

# Started in the background, a test run inherits that Ctrl-C is ignored, and so would the commands that it interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

CHECKOUT = Path(__file__).resolve().parents[1]
if str(CHECKOUT) not in sys.path:
    sys.path.insert(0, str(CHECKOUT))  # for `tests.…`, wherever pytest was started

with warnings.catch_warnings():
    # kafka-python reads its schemas in a way that newer Pythons warn of; here a warning is an error.
    warnings.simplefilter("ignore", DeprecationWarning)
    for part in ("admin", "consumer", "metadata", "producer"):
        importlib.import_module(f"kafka.protocol.{part}")


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


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Have one worker run all tests that need a Spark session, which takes long to start and much memory.

    Their mark `xdist_group` says the same, but pytest-xdist 3.8 cannot tell the controller so under pytest 9.
    """
    from xdist.scheduler import LoadGroupScheduling

    class OneSession(LoadGroupScheduling):  # type: ignore[misc]  # pytest-xdist has no types
        def _split_scope(self, nodeid: str) -> str:
            return "spark" if nodeid.startswith("tests/spark/") else super()._split_scope(nodeid)

    return OneSession(config, log) if config.getvalue("dist") == "loadgroup" else None


SLOW_TIMEOUT_S = 900
"""What a slow test may take at least: a busy machine needs ten times as long as an idle one."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse tests with the same id: of those, pytest-xdist runs only one, and says nothing. Let slow tests be slow."""
    for item in items:
        limit = item.get_closest_marker("timeout")
        if item.get_closest_marker("slow") and (limit is None or limit.args[0] < SLOW_TIMEOUT_S):
            item.add_marker(pytest.mark.timeout(SLOW_TIMEOUT_S), append=False)
    repeated = [nodeid for nodeid, count in Counter(item.nodeid for item in items).items() if count > 1]
    assert not repeated, f"several tests have the id {repeated[0]}"


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    """Say at the end of a long output how to have the tests in the same order again."""
    seed = config.getoption("randomly_seed", None)
    if exitstatus != pytest.ExitCode.OK and seed is not None:
        terminalreporter.write_line(f"This order is repeated by: make test SEED={seed}, with WORKERS=0 in one process")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what embedded brokers wait for to the report of a failure: a reply that never came has no other trace."""
    report = yield
    if report.failed and "tailrace.runtime.group.coordinator" in sys.modules:
        from tests.waiting import describe_waits

        if waits := describe_waits():
            report.sections.append(("What the brokers in this process wait for", waits))
    return report

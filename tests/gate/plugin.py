"""The part of the gate inside pytest: it notes results, and fails a test that starts more than its lane allows."""

import gc
import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.gate.lane import PROCESS, PURE, Lane, lane_of
from tests.gate.outcome import Outcome, write

HARMLESS = {"git", "openssl", "uname", "ldconfig", "gcc", "cc", "ld", "objdump"}
"""Programs that any test may run: they end at once, and Python's own modules start some of them."""

NEW_OBJECTS_MAX = 5_000
"""Objects after which garbage is searched for; with Python's 700 the search takes a tenth or more of a simulation."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--gate-results", type=Path, help="file for the results of the gate")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Collect no garbage while thousands of tests are collected: next to nothing of it is garbage."""
    gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """Keep what was collected from every later search for garbage, because it lasts as long as the process."""
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS_MAX)
    gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    if config.option.gate_results is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(config.option.gate_results, config.pluginmanager))
    config.pluginmanager.register(LaneKeeper())


class Recorder:
    """Writes what became of each test, in the process that hears of all of them."""

    def __init__(self, path: Path, plugins: pytest.PytestPluginManager) -> None:
        self._path = path
        self._plugins = plugins
        self._outcome = Outcome()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        is_exact = "exact" in report.keywords
        reason = str(report.longrepr) if report.skipped else ""
        self._outcome.add_phase(report.nodeid, report.outcome, report.duration, is_exact=is_exact, skip_reason=reason)
        if report.failed:
            self._tell(report)

    def _tell(self, report: pytest.TestReport) -> None:
        """Print what failed at once: pytest does at its end, which a run that is ended or crashes does not reach."""
        if (terminal := self._plugins.get_plugin("terminalreporter")) is not None:
            terminal.ensure_newline()
            terminal.write_line(f"{report.nodeid} failed ({report.when}):")
            terminal.write_line(report.longreprtext)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._outcome.crashes.append(f"{report.nodeid} could not be collected")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        if error:
            self._outcome.crashes.append(f"worker {node.gateway.id} crashed")

    def pytest_sessionfinish(self) -> None:
        write(self._path, self._outcome)


class LaneKeeper:
    """Watches what tests start; the watch lasts as long as the process, as audit hooks do."""

    def __init__(self) -> None:
        self._lane: Lane = PROCESS
        self._breach: str | None = None
        sys.addaudithook(self._on_event)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        # Against Apache Kafka every test starts Java, and they run one at a time.
        is_ours = os.environ.get("TAILRACE_TEST_TARGET") != "kafka"
        self._lane = lane_of(item.nodeid.partition("::")[0]) if is_ours else PROCESS
        self._breach = None
        if self._lane is PURE and "tailrace_session_broker" in getattr(item, "fixturenames", ()):
            self._breach = "the test uses a broker"  # uvloop opens its ports without an audit event
        try:
            return (yield)
        finally:
            self._lane = PROCESS

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if self._breach is not None and report.passed:
            report.outcome = "failed"
            report.longrepr = f"{self._breach}, which the lane {self._lane.name} does not allow: see tests/gate/lane.py"
            self._breach = None
        return report

    def _on_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._lane is PROCESS:
            return
        if event == "subprocess.Popen":
            if (name := _program(arguments)) not in HARMLESS:
                self._breach = f"the test started {name}"
        elif event in ("os.fork", "os.forkpty", "os.posix_spawn"):
            self._breach = f"the test started a process ({event})"
        elif self._lane is PURE and event in ("socket.bind", "socket.connect"):
            self._breach = "the test used a socket"


def _program(arguments: tuple[Any, ...]) -> str:
    command = arguments[1]
    first = command[0] if isinstance(command, list | tuple) else command
    return os.path.basename(os.fsdecode(first))

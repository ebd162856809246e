"""What all tests need: the checkout on the path, kafka-python without its warnings, Hypothesis without deadlines."""

import importlib
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# Speed is not a test's business, and a deadline makes one fail on a busy machine.
settings.register_profile("runnel", deadline=None)
settings.load_profile("runnel")

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


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Have one worker run all tests that need a Spark session, which takes long to start and much memory.

    Their mark `xdist_group` says the same, but pytest-xdist 3.8 cannot tell the controller so under pytest 9.
    """
    from xdist.scheduler import LoadGroupScheduling

    class OneSession(LoadGroupScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "spark" if nodeid.startswith("tests/spark/") else super()._split_scope(nodeid)

    return OneSession(config, log) if config.getvalue("dist") == "loadgroup" else None


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    """Say at the end of a long output how to have the tests in the same order again."""
    seed = config.getoption("randomly_seed", None)
    if exitstatus != pytest.ExitCode.OK and seed is not None:
        terminalreporter.write_line(f"This order is repeated by: make test SEED={seed}, with WORKERS=0 in one process")

"""The pytest plugin in a pytest run of its own, as a user has it."""

import subprocess
import sys
from pathlib import Path

_TESTS = """
import pytest

@pytest.fixture(scope="session")
def tailrace_broker_config():
    return {"num.partitions": "3"}

def test_options_are_mine(tailrace_broker):
    assert tailrace_broker.config.num_partitions == 3
    tailrace_broker.inject(api="METADATA", error="UNKNOWN_SERVER_ERROR", count=None)

def test_faults_are_gone(tailrace_broker):
    tailrace_broker.create_topic("mine")
    tailrace_broker.stop()

def test_a_stopped_broker_is_back(tailrace_broker, tailrace_session_broker):
    assert tailrace_broker is tailrace_session_broker
    tailrace_broker.create_topic("mine")
"""


def test_the_fixture_serves_a_session_and_cleans_up_after_each_test(tmp_path: Path) -> None:
    (tmp_path / "test_user.py").write_text(_TESTS)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-W",
            "error",
            "-p",
            "no:randomly",
            str(tmp_path),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


def test_the_plugin_imports_nothing_heavy() -> None:
    """Every pytest run of every user pays for what this import brings."""
    code = "import sys, pytest; old = set(sys.modules); import tailrace.testing.plugin; print(*set(sys.modules) - old)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {"tailrace", "tailrace.testing", "tailrace.testing.plugin"}

"""What the program says when its native module is not in use."""

import signal
from pathlib import Path

import pytest
from tests.unit.cli.test_start import TIMEOUT_S, started

from tailrace import __version__
from tailrace.cli.main import main


def test_the_version_says_when_the_native_module_is_not_used(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a compiler pip installed the slow functions, and nothing said so."""
    monkeypatch.setattr("tailrace.records.native.find_native", lambda name: None)
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == (
        f"tailrace {__version__} (pure Python: the native module was not built; "
        "install a C compiler and reinstall for full speed)\n"
    )
    monkeypatch.setenv("TAILRACE_PURE_PYTHON", "1")
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"tailrace {__version__} (pure Python: TAILRACE_PURE_PYTHON is set)\n"


@pytest.mark.parametrize("is_pure", [True, False])
def test_a_broker_logs_that_it_runs_in_pure_python(tmp_path: Path, is_pure: bool) -> None:
    if not is_pure:
        pytest.importorskip("tailrace.records._native", reason="the native module was not built")
    variables = {"TAILRACE_PURE_PYTHON": "1"} if is_pure else {}
    with started("--data", str(tmp_path), "--listen", "127.0.0.1:0", **variables) as (process, _):
        process.send_signal(signal.SIGTERM)
        log = process.communicate(timeout=TIMEOUT_S)[1]
    line = "WARNING the broker runs in pure Python and is slower than it could be: TAILRACE_PURE_PYTHON is set"
    assert log.count(line) == is_pure

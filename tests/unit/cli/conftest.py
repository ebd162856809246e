"""Running the command line inside the test process, against the session's broker."""

import uuid
from collections.abc import Callable

import pytest

from tailrace.cli.main import main
from tailrace.testing import Broker

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(
    tailrace_broker: Broker, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str, str]]:
    """Run a command and return its exit status, stdout and stderr."""
    monkeypatch.setenv("TAILRACE_BOOTSTRAP_SERVER", tailrace_broker.bootstrap_servers)

    def call(*arguments: str) -> tuple[int, str, str]:
        capfdbinary.readouterr()
        status = main(arguments)
        captured = capfdbinary.readouterr()
        return status, captured.out.decode(), captured.err.decode()

    return call


@pytest.fixture
def topic() -> str:
    """A name that no other test uses."""
    return f"cli-{uuid.uuid4().hex[:12]}"

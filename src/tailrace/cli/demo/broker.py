"""The broker of the demo, in a child process."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

_STOP_TIMEOUT_S = 10.0


@contextmanager
def broker_process() -> Iterator[str]:
    """Run a broker in a temporary folder on a free port during the block, and provide its address."""
    with tempfile.TemporaryDirectory(prefix="tailrace-demo-") as folder:
        log = Path(folder) / "broker.log"
        command = [sys.executable, "-m", "tailrace.cli.main", "start", "--data", folder + "/data"]
        with log.open("w") as log_file:
            # In its own session, so that Ctrl-C reaches only this process, which then stops the broker.
            process = subprocess.Popen(
                [*command, "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=log_file, start_new_session=True
            )
        try:
            ready = process.stdout.readline().decode() if process.stdout else ""
            if " ready on " not in ready:
                raise click.ClickException(f"the broker did not start: {log.read_text().strip()}")
            yield ready.rpartition(" ")[2].strip()
        finally:
            _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.communicate(timeout=_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()

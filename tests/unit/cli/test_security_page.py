"""The commands of docs/SECURITY.md, run as a reader would run them."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.cache import FETCH_HINT
from tests.port import free_port

PAGE = Path(__file__).parents[3] / "docs" / "SECURITY.md"
DEADLINE_S = 300
READY_COUNT = {5: 1, 7: 3}  # by step: how many processes it leaves running
STEP = re.compile(r"^(\d+)\. .*?\n((?:.|\n)*?)(?=^\d+\. |^Every other)", re.MULTILINE)
BLOCK = re.compile(r"```bash\n((?:.|\n)*?)```")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("openssl") is None, reason=f"openssl is not installed; {FETCH_HINT}"),
]


def commands() -> dict[int, str]:
    """The commands of each step, with ports that are free here."""
    page = PAGE.read_text()
    zookeeper, *brokers = (free_port() for _ in range(4))
    found = {}
    for number, step in STEP.findall(page):
        text = "\n".join(BLOCK.findall(step))
        text = re.sub(r"^ +", "", text, flags=re.MULTILINE).replace("localhost:2181", f"localhost:{zookeeper}")
        for index, port in enumerate(brokers, start=1):
            text = text.replace(f"localhost:909{index}", f"localhost:{port}")
        of_broker = f"localhost:$(echo {' '.join(map(str, brokers))} | cut -d ' ' -f $id)"
        found[int(number)] = text.replace("localhost:909$id", of_broker)
    return found


class Shell:
    """Runs commands in a folder, and ends what they have started."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        self._running: list[subprocess.Popen[bytes]] = []

    def run(self, script: str) -> str:
        done = subprocess.run(
            ["bash", "-e", "-c", script],
            check=False,
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            umask=0o077,  # a reader has one shell, and the first step sets it there
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout

    def start(self, script: str, ready_count: int) -> None:
        output = self._folder / f"output-{len(self._running)}"
        with output.open("wb") as file:
            process = subprocess.Popen(
                ["bash", "-c", f"{script}\nwait"],
                cwd=self._folder,
                env=self._environment,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                umask=0o077,
            )
        self._running.append(process)
        ends_at = time.monotonic() + DEADLINE_S
        while output.read_text().count(" ready on ") < ready_count:
            assert process.poll() is None, output.read_text()
            assert time.monotonic() < ends_at, output.read_text()
            time.sleep(0.05)

    def stop(self) -> None:
        for process in reversed(self._running):
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    yield shell
    shell.stop()


def test_the_ten_commands(shell: Shell, tmp_path: Path) -> None:
    steps = commands()
    assert sorted(steps) == list(range(1, 11))
    printed = ""
    for number, script in sorted(steps.items()):
        if number in READY_COUNT:
            shell.start(script, READY_COUNT[number])
        else:
            printed = shell.run(script)
    assert steps[1].startswith("umask 077;")
    assert "hello" in printed
    server = re.search(r"--bootstrap-server (\S+)", steps[10])
    assert server is not None
    for denied in ("topic create other", "user list", "acl list", "topic delete orders"):
        command = f"! tailrace {denied} --bootstrap-server {server[1]} --command-config alice.properties 2>&1"
        assert "AUTHORIZATION_FAILED" in shell.run(command), denied
    # Keys and passwords are for the owner alone.
    for name in ("ca-key.pem", "broker.pem", "broker.password", "broker.properties", "admin.properties"):
        assert (tmp_path / name).stat().st_mode & 0o077 == 0, name

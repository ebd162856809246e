"""Short runs of the programs that kill mirrors and clusters, of which `make mirror-kill` runs the long ones."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.exact

TIMEOUT_S = 900


def run(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *arguments], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--keep-offsets",)], ids=["translated", "kept"])
def test_a_mirror_that_is_killed_with_its_brokers_copies_everything_once(options: tuple[str, ...]) -> None:
    assert "; equal" in run("tests.faults.mirror_kill", "--kills", "4", "--pause", "2", "--without-spark", *options)


@pytest.mark.slow
def test_a_group_skips_nothing_when_its_cluster_is_lost() -> None:
    output = run("tests.faults.mirror_failover", "--rounds", "1", "--brokers", "1", "--seconds", "4", "--without-spark")
    assert "1 rounds: 0 skipped" in output

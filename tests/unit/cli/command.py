"""The program as a user calls it."""

import subprocess
import sys

TIMEOUT_S = 240


def called(*arguments: str, words: str = "") -> tuple[int, str, str]:
    """The exit status, the output and the complaints of a command that reads `words`."""
    ended = subprocess.run(
        [sys.executable, "-m", "tailrace.cli.main", *arguments],
        input=words,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return ended.returncode, ended.stdout, ended.stderr


def succeeded(*arguments: str, words: str = "") -> str:
    """The output of a command that must succeed."""
    status, output, complaints = called(*arguments, words=words)
    assert status == 0, complaints
    return output

"""The program itself: its help, its version, and what becomes of errors."""

import json
import subprocess
import sys

import click
import pytest

from tailrace import __version__
from tailrace.cli.main import COMMANDS, main, run_command
from tailrace.cli.version import pure_python_reason, version_line


def test_help_lists_the_commands_without_loading_them() -> None:
    code = "import sys; from tailrace.cli.main import main; main(['--help']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [line.split()[0] for line in done.stdout.partition("Commands:\n")[2].splitlines()] == list(COMMANDS)
    loaded = set(done.stderr.split())
    assert not {"asyncio", "rich", "tailrace.cli.start", "tailrace.cli.topic"} & loaded


def test_every_command_has_its_own_help(capsys: pytest.CaptureFixture[str]) -> None:
    for name in COMMANDS:
        assert main([name, "--help"]) == 0
        assert capsys.readouterr().out.startswith(f"Usage: tailrace {name} ")


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    if pure_python_reason() is not None:
        pytest.skip("the native module is not in use; test_version.py has that line")
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"tailrace {__version__}\n"


def test_a_command_that_is_spelled_wrong_is_told_the_right_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topc", "list"]) == 2
    assert "there is no command 'topc' (did you mean topic?)" in capsys.readouterr().err


def test_the_package_can_be_run_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "tailrace", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"{version_line()}\n"


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["topic", "list", "--json", "--bootstrap-server", "127.0.0.1:1"], 1, "127.0.0.1:1"),
        (["topic", "list", "--json", "--bootstrap-server", ""], 2, "the address is empty"),
        (["topic", "list", "--json", "--bootstrap-server", "http://localhost:1"], 2, "write HOST:PORT"),
        (["topic", "list", "--json", "--no-such-option"], 2, "--no-such-option"),
    ],
)
def test_an_error_is_json_where_json_is_wanted(
    arguments: list[str], status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == status
    shown = capsys.readouterr()
    assert (shown.out, message in json.loads(shown.err)["error"]) == ("", True)


def test_an_unknown_command_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["no-such-noun"]) == 2
    assert "no-such-noun" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "status"), [(KeyboardInterrupt(), 130), (click.ClickException("why"), 1), (PermissionError(13, "no"), 1)]
)
def test_errors_become_exit_states(error: BaseException, status: int, capsys: pytest.CaptureFixture[str]) -> None:
    @click.command()
    def fails() -> None:
        raise error

    assert run_command(fails, []) == status
    shown = capsys.readouterr().err
    assert shown in ("", "\n", "tailrace: why\n", "tailrace: no\n")


def test_a_bug_keeps_its_traceback() -> None:
    @click.command()
    def fails() -> None:
        raise LookupError("a bug")

    with pytest.raises(LookupError):
        run_command(fails, [])


def test_a_command_says_its_own_status() -> None:
    """Click swallowed it: a demo that had lost events ended with 0."""

    @click.command()
    @click.argument("status", type=int)
    def ends(status: int) -> None:
        raise click.exceptions.Exit(status)

    assert run_command(ends, ["3"]) == 3
    assert run_command(ends, ["0"]) == 0

"""The program `runnel`: finds the command, and turns errors into one line and an exit status.

Commands are imported when they are called, so that `runnel start` does not load what only
`runnel topic` needs, and `runnel --help` loads none of them.
"""

import contextlib
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple

import click

from runnel import __version__

EXIT_ERROR = 1
EXIT_INTERRUPTED = 130  # what shells expect of a program that Ctrl-C ended


class Lazy(NamedTuple):
    """Where a command is defined, and its line in the help."""

    module: str
    attribute: str
    help: str


COMMANDS = {
    "start": Lazy("runnel.cli.start", "start", "Run a broker in the foreground."),
    "zookeeper": Lazy("runnel.cli.zookeeper", "zookeeper", "Run a ZooKeeper server for a cluster of brokers."),
    "cluster": Lazy("runnel.cli.cluster", "cluster", "Start, look at and stop a cluster on this machine."),
    "topic": Lazy("runnel.cli.topic", "topic", "Create, list, describe, alter and delete topics."),
    "produce": Lazy("runnel.cli.produce", "produce", "Write lines from stdin or files to a topic."),
    "consume": Lazy("runnel.cli.consume", "consume", "Print the records of a topic."),
    "log": Lazy("runnel.cli.log", "log", "Look into the files of a log, and check them."),
    "group": Lazy("runnel.cli.group", "group", "List, describe, reset and delete consumer groups."),
    "transaction": Lazy("runnel.cli.transaction", "transaction", "List, describe and abort transactions."),
    "reassign": Lazy("runnel.cli.reassign", "reassign", "Move partitions to other brokers."),
    "pipeline": Lazy("runnel.cli.pipeline", "pipeline", "Run data pipelines on Spark."),
}


class OutputClosed(Exception):  # noqa: N818 - it is no error
    """Whoever reads our output has had enough."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are needed."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # Click would make it exit status 1, but a reader that has had enough is no error.
            raise OutputClosed from None

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        lazy = COMMANDS.get(cmd_name)
        if lazy is None:
            from runnel.config.configuration import suggestion

            raise click.UsageError(f"there is no command {cmd_name!r}{suggestion(cmd_name, COMMANDS)}", ctx)
        command: click.Command = getattr(import_module(lazy.module), lazy.attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.help) for name, lazy in COMMANDS.items()])


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="runnel", message="%(prog)s %(version)s")
def runnel() -> None:
    """A distributed commit log that speaks Kafka's protocol."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit status."""
    return run_command(runnel, arguments)


def run_command(command: click.Command, arguments: Sequence[str] | None = None) -> int:
    """Run a command, turn what it raises into a line on stderr, and return the exit status."""
    as_json = "--json" in (sys.argv[1:] if arguments is None else arguments)
    try:
        # Click returns the status of a command that ends with `Exit`, and what a command returns otherwise.
        ended = command.main(arguments, prog_name=command.name, standalone_mode=False)
        sys.stdout.flush()
    except click.UsageError as error:
        if as_json:
            _write_error(error.format_message(), as_json=True)
        else:
            error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except (OutputClosed, BrokenPipeError):
        _discard_output()
    except Exception as error:
        from runnel.cli.error import explain

        message = explain(error)
        if message is None:
            raise
        _write_error(message, as_json=as_json)
        return EXIT_ERROR
    else:
        return ended if isinstance(ended, int) else 0
    return 0


def _write_error(message: str, *, as_json: bool) -> None:
    """Print an error on stderr, as JSON where the command was asked for that."""
    if as_json:
        import json

        print(json.dumps({"error": message}, ensure_ascii=False), file=sys.stderr)
    else:
        print(f"runnel: {message}", file=sys.stderr)


def _discard_output() -> None:
    """Give the interpreter a place to flush what is left, or it would complain at exit."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())

"""The program `tailrace`: the commands, and their errors as one line and an exit status.

Commands are imported when they are called, so `tailrace start` does not load the modules of `tailrace topic`, and
`tailrace --help` loads no command.
"""

import contextlib
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple

import click

EXIT_ERROR = 1
EXIT_INTERRUPTED = 130  # the shells' convention for a program that was ended by Ctrl-C


class Lazy(NamedTuple):
    """The module of a command, and its line in the help."""

    module: str
    attribute: str
    help: str


COMMANDS = {
    "start": Lazy("tailrace.cli.start", "start", "Run a broker in the foreground."),
    "zookeeper": Lazy("tailrace.cli.zookeeper", "zookeeper", "Run a ZooKeeper server for a cluster of brokers."),
    "cluster": Lazy("tailrace.cli.cluster", "cluster", "Start and stop clusters on this machine, describe any."),
    "topic": Lazy("tailrace.cli.topic", "topic", "Create, list, describe, alter, trim and delete topics."),
    "config": Lazy("tailrace.cli.config", "config", "List, set and delete configs of topics, brokers and groups."),
    "produce": Lazy("tailrace.cli.produce", "produce", "Write lines from stdin or files to a topic."),
    "consume": Lazy("tailrace.cli.consume", "consume", "Print the records of a topic."),
    "log": Lazy("tailrace.cli.log", "log", "Print and verify the files of a log."),
    "group": Lazy("tailrace.cli.group", "group", "List, describe, reset and delete consumer groups."),
    "transaction": Lazy("tailrace.cli.transaction", "transaction", "List, describe and abort transactions."),
    "user": Lazy("tailrace.cli.user", "user", "Add, list and delete users that log in with SCRAM."),
    "token": Lazy("tailrace.cli.token", "token", "Create, renew, expire and describe delegation tokens."),
    "acl": Lazy("tailrace.cli.acl", "acl", "Add, list and delete access control lists."),
    "quota": Lazy("tailrace.cli.quota", "quota", "Set, list and delete quotas of clients."),
    "reassign": Lazy("tailrace.cli.reassign", "reassign", "Move partitions to other brokers."),
    "elect": Lazy("tailrace.cli.elect", "elect", "Elect leaders of partitions."),
    "pipeline": Lazy("tailrace.cli.pipeline", "pipeline", "Run data pipelines on Spark."),
    "mirror": Lazy("tailrace.cli.mirror", "mirror", "Copy topics to another cluster, and move groups there."),
    "table": Lazy("tailrace.cli.table", "table", "Write topics to Delta and Iceberg tables, and maintain these."),
    "connect": Lazy("tailrace.cli.connect", "connect", "Run pipelines as a service, with Kafka Connect's REST API."),
    "schema": Lazy("tailrace.cli.schema", "schema", "List, show, register, check and delete schemas."),
    "registry": Lazy("tailrace.cli.registry", "registry", "Run a schema registry."),
    "demo": Lazy("tailrace.cli.demo.command", "demo", "Show a broker and a pipeline at work."),
}


class OutputClosed(Exception):
    """The reader of the output has closed the pipe."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are needed."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # Click would exit with 1, but a closed pipe is not an error.
            raise OutputClosed from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        lazy = COMMANDS.get(cmd_name)
        if lazy is None:
            from tailrace.config.configuration import suggestion

            raise click.UsageError(f"there is no command {cmd_name!r}{suggestion(cmd_name, COMMANDS)}", ctx)
        command: click.Command = getattr(import_module(lazy.module), lazy.attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.help) for name, lazy in COMMANDS.items()])


def _show_version(ctx: click.Context, _parameter: click.Parameter, is_given: bool) -> None:
    if is_given:
        from tailrace.cli.version import version_line

        click.echo(version_line())
        ctx.exit()


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
def tailrace() -> None:
    """A distributed commit log that speaks Kafka's protocol."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit status."""
    return run_command(tailrace, arguments)


def run_command(command: click.Command, arguments: Sequence[str] | None = None) -> int:
    """Run a command, print its error as one line on stderr, and return the exit status."""
    as_json = "--json" in (sys.argv[1:] if arguments is None else arguments)
    try:
        # Click returns the exit status of a command that raises `Exit`, and otherwise the command's return value.
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
        from tailrace.cli.error import explain

        message = explain(error)
        if message is None:
            raise
        _write_error(message, as_json=as_json)
        return EXIT_ERROR
    else:
        return ended if isinstance(ended, int) else 0
    return 0


def _write_error(message: str, *, as_json: bool) -> None:
    """Print an error on stderr, as JSON if the command has --json."""
    if as_json:
        import json

        print(json.dumps({"error": message}, ensure_ascii=False), file=sys.stderr)
    else:
        print(f"tailrace: {message}", file=sys.stderr)


def _discard_output() -> None:
    """Redirect the remaining output, because flushing it at exit would print an error."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())

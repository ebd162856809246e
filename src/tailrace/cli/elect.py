"""`tailrace elect`: elect the preferred leaders of partitions, or with loss of records any replica."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import click

from tailrace.cli.option import broker_options, json_option, run_with_cluster
from tailrace.cli.option_group import option_group
from tailrace.cli.output import write_json, write_table

if TYPE_CHECKING:
    from tailrace.client.cluster import Cluster
    from tailrace.client.topic_partition import TopicPartition
    from tailrace.protocol.errors import ApiError

Outcomes = Mapping["TopicPartition", "ApiError | None"]


class _Chosen(NamedTuple):
    """The partitions that a call names."""

    topic: str | None
    partitions: tuple[int, ...]
    file: IO[str] | None
    is_all: bool

    def check(self) -> None:
        """Raise `click.UsageError` unless the call names partitions in one way."""
        if [self.topic is not None, self.file is not None, self.is_all].count(True) != 1:
            raise click.UsageError("name a TOPIC, or set --file or --all")
        if self.partitions and self.topic is None:
            raise click.UsageError("--partition needs a TOPIC")


_chosen_option: Callable[[Callable[..., Any]], Callable[..., Any]] = option_group(
    "chosen",
    _Chosen,
    click.argument("topic", required=False),
    click.option(
        "--partition",
        "partitions",
        type=click.IntRange(min=0),
        multiple=True,
        metavar="N",
        help="Elect only for this partition of TOPIC; can be repeated.  [default: all]",
    ),
    click.option(
        "--file",
        "file",
        type=click.File("r", encoding="utf-8"),
        metavar="FILE",
        help="Partitions in the JSON of Kafka's tool, or a plan of `tailrace reassign`.",
    ),
    click.option("--all", "is_all", is_flag=True, help="Elect for all partitions of the cluster that need it."),
)


@click.group()
def elect() -> None:
    """Elect leaders of partitions.

    \b
    tailrace elect preferred page_views
    tailrace elect unclean page_views --partition 0
    """


@elect.command()
@_chosen_option
@json_option
@broker_options
def preferred(chosen: _Chosen, as_json: bool, bootstrap_server: str | None, command_config: Path | None) -> None:
    """Let the preferred replicas lead.

    The preferred replica of a partition is the first in its list. It is elected if it is in sync, such as after a
    restart of its broker. The controller also does this by itself if auto.leader.rebalance.enable is set.
    """
    _elect(chosen, as_json, bootstrap_server, command_config, is_unclean=False)


@elect.command()
@_chosen_option
@json_option
@broker_options
def unclean(chosen: _Chosen, as_json: bool, bootstrap_server: str | None, command_config: Path | None) -> None:
    """Let any replica lead, which may lose records.

    A partition without a leader gets one from its replicas that are alive, in sync or not. The records that this
    replica does not have are lost, even if producers have been told that they are committed.
    """
    _elect(chosen, as_json, bootstrap_server, command_config, is_unclean=True)


def _elect(
    chosen: _Chosen, as_json: bool, bootstrap_server: str | None, command_config: Path | None, *, is_unclean: bool
) -> None:
    from tailrace.client.admin.core import Admin

    chosen.check()
    named = None if chosen.file is None else _read_partitions(chosen.file)

    async def ask(cluster: "Cluster") -> Outcomes:
        wanted = named if chosen.topic is None else await _find(cluster, chosen.topic, chosen.partitions)
        return await Admin(cluster).elect_leaders(wanted, unclean=is_unclean)

    _report(run_with_cluster(bootstrap_server, command_config, ask), as_json)


async def _find(cluster: "Cluster", topic: str, chosen: tuple[int, ...]) -> "list[TopicPartition]":
    from tailrace.client.topic_partition import TopicPartition

    count = len((await cluster.topic(topic)).partitions)
    if missing := [number for number in chosen if number >= count]:
        raise click.ClickException(f"topic {topic} has no partition {missing[0]}; it has {count}")
    return [TopicPartition(topic, number) for number in sorted(set(chosen)) or range(count)]


def _read_partitions(file: IO[str]) -> "list[TopicPartition]":
    from tailrace.client.topic_partition import TopicPartition

    try:
        partitions = json.load(file)["partitions"]
        found = [TopicPartition(str(each["topic"]), int(each["partition"])) for each in partitions]
    except (ValueError, KeyError, TypeError) as error:
        wanted = '{"partitions": [{"topic": …, "partition": …}]}'
        raise click.UsageError(f"--file: {file.name} is not of the form {wanted}") from error
    if not found:
        raise click.UsageError(f"--file: {file.name} names no partition")
    return list(dict.fromkeys(found))


def _report(outcomes: Outcomes, as_json: bool) -> None:
    """Print the outcome for each partition; the exit status is 1 if one has no leader to elect."""
    from tailrace.protocol.errors import ErrorCode

    states = [
        (partition, error, error is None or error.code is ErrorCode.ELECTION_NOT_NEEDED)
        for partition, error in sorted(outcomes.items())
    ]
    if as_json:
        write_json(
            [
                {
                    "topic": topic,
                    "partition": index,
                    "elected": error is None,
                    "error": None if is_good else str(error),
                }
                for (topic, index), error, is_good in states
            ]
        )
    else:
        rows = [
            (str(partition), "elected" if error is None else "not needed" if is_good else str(error))
            for partition, error, is_good in states
        ]
        write_table(("partition", "election"), rows)
    if not all(is_good for _, _, is_good in states):
        raise click.exceptions.Exit(1)

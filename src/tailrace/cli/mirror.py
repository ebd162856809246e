"""`tailrace mirror`: copy topics to another cluster, and move groups there."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tailrace.cli.mirror_failover import failover
from tailrace.cli.mirror_promote import promote
from tailrace.cli.mirror_status import status
from tailrace.cli.option import read_command_config, read_duration_s, read_pairs
from tailrace.spark.spark_session import LOG_LEVELS, is_local

if TYPE_CHECKING:
    from tailrace.spark.mirror.job import ClusterConfig
    from tailrace.spark.mirror.option import MirrorOptions

_PATH: click.Path[Any] = click.Path(path_type=Path, dir_okay=False)
_TASKS_MAX = 8
_CLUSTER = "[NAME=]HOST:PORT,…"


@click.group()
def mirror() -> None:
    """Copy topics to another cluster."""


mirror.add_command(status)
mirror.add_command(failover)
mirror.add_command(promote)


@mirror.command()
@click.option("--from", "source", required=True, metavar=_CLUSTER, help="Cluster to copy from, and its name.")
@click.option("--to", "target", required=True, metavar=_CLUSTER, help="Cluster to copy to, and its name.")
@click.option("--topics", required=True, metavar="REGEX", help="Topics to copy; the whole name must match.")
@click.option("--groups", default=".*", show_default=True, metavar="REGEX", help="Groups whose offsets are translated.")
@click.option("--rename", default="{topic}", show_default=True, metavar="TEMPLATE", help="Names of the copies.")
@click.option("--from-config", type=_PATH, metavar="FILE", help="Properties file with client configs for --from.")
@click.option("--to-config", type=_PATH, metavar="FILE", help="Properties file with client configs for --to.")
@click.option("--keep-offsets", is_flag=True, help="Keep the offsets of records; only the mirror writes the copies.")
@click.option("--once", is_flag=True, help="Copy the records that exist now, and exit.")
@click.option(
    "--for", "duration_s", callback=read_duration_s, metavar="DURATION", help="Stop after this time, such as 60s."
)
@click.option("--tasks", type=click.IntRange(1, 1000), metavar="N", help="Tasks that copy at the same time.")
@click.option(
    "--replication-factor", type=click.IntRange(1), metavar="N", help="Replicas of new topics.  [default: the target's]"
)
@click.option("--master", default="local[*]", show_default=True, metavar="URL", help="Spark master.")
@click.option("--conf", "config", multiple=True, metavar="NAME=VALUE", callback=read_pairs, help="Config of Spark.")
@click.option(
    "--log-level",
    type=click.Choice(LOG_LEVELS, case_sensitive=False),
    default="off",
    show_default=True,
    help="Log level of Spark and the client, on stderr.",
)
def run(
    source: str,
    target: str,
    from_config: Path | None,
    to_config: Path | None,
    once: bool,
    duration_s: float | None,
    master: str,
    config: dict[str, str],
    log_level: str,
    **given: Any,
) -> None:
    """Copy topics from one cluster to another until Ctrl-C or SIGTERM, exactly once.

    A cluster can be given a name, such as east=broker1:9092; otherwise the names are source and target. Progress is
    kept in the target cluster, so a mirror can be stopped and restarted at any time, and on any machine. Fields of
    --rename are {source}, {target} and {topic}; use {source}.{topic} to copy in both directions.
    """
    from tailrace.cli.mirror_run import run_mirror

    sides = [
        read_cluster(*side)
        for side in (("--from", source, "source", from_config), ("--to", target, "target", to_config))
    ]
    options = _options(sides, is_local_master=is_local(master), **given)
    run_mirror(options, master=master, config=config, log_level=log_level, duration_s=duration_s, once=once)


def read_cluster(option: str, text: str, default_name: str, path: Path | None) -> "tuple[str, ClusterConfig]":
    """Return the name and the client configs of a cluster."""
    from tailrace.client.address import parse_addresses
    from tailrace.spark.mirror.job import ClusterConfig
    from tailrace.spark.mirror.name import name_problem

    name, equals, servers = text.partition("=")
    if not equals:
        name, servers = default_name, text
    if problem := name_problem(name):
        raise click.UsageError(f"{option}: {problem}")
    try:
        parse_addresses(servers)
    except ValueError as error:
        raise click.UsageError(f"{option}: {error}") from None
    given = {} if path is None else dict(read_command_config(path))
    return name, ClusterConfig(tuple((given | {"bootstrap.servers": servers}).items()))


def _options(
    sides: "list[tuple[str, ClusterConfig]]",
    *,
    is_local_master: bool,
    topics: str,
    groups: str,
    rename: str,
    tasks: int | None,
    replication_factor: int | None,
    keep_offsets: bool,
) -> "MirrorOptions":
    from tailrace.spark.mirror.name import MirrorName
    from tailrace.spark.mirror.option import MirrorOptions
    from tailrace.spark.mirror.rename import Renaming
    from tailrace.spark.mirror.selection import read_pattern

    (source_name, source), (target_name, target) = sides
    if source_name == target_name:
        raise click.UsageError(f"--from and --to have the same name {source_name}")
    name = MirrorName(source_name, target_name)
    Renaming(rename, name)  # raises for a wrong template
    cores = min(os.cpu_count() or 1, _TASKS_MAX) if is_local_master else _TASKS_MAX
    return MirrorOptions(
        name,
        source,
        target,
        read_pattern("--topics", topics),
        read_pattern("--groups", groups),
        template=rename,
        replication_factor=replication_factor or -1,
        task_count=tasks or cores,
        keep_offsets=keep_offsets,
    )

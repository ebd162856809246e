"""`tailrace mirror status`: the lag, the rate and the last error of each mirrored topic."""

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tailrace.cli.option import json_option, run_with_cluster
from tailrace.cli.output import write_json, write_table

if TYPE_CHECKING:
    from tailrace.client.cluster import Cluster
    from tailrace.spark.mirror.state import TopicStatus

_PATH: click.Path[Any] = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.option("--to", "target", required=True, metavar="HOST:PORT,…", help="Cluster that the mirror copies to.")
@click.option("--to-config", type=_PATH, metavar="FILE", help="Properties file with client configs for --to.")
@click.option("--from", "source", metavar="NAME", help="Name of the mirror's source.  [default: all]")
@json_option
def status(target: str, to_config: Path | None, source: str | None, as_json: bool) -> None:
    """Show the lag, the rate and the last error of each topic.

    The figures are those of the mirror's last round, and are kept in the target cluster.
    """

    async def ask(cluster: "Cluster") -> "dict[str, list[TopicStatus]]":
        from tailrace.spark.mirror.name import MirrorName
        from tailrace.spark.mirror.stored import choose_mirror, find_mirrors, read_states

        names = await find_mirrors(cluster)
        if source is not None or not names:
            names = [(await choose_mirror(cluster, source)).source]
        return {name: await read_states(cluster, MirrorName(name, "target")) for name in names}

    found = run_with_cluster(target.rpartition("=")[2], to_config, ask)
    if as_json:
        write_json([{"source": name, "topics": [asdict(one) for one in states]} for name, states in found.items()])
        return
    now_ms = time.time_ns() // 1_000_000
    headings = ("source", "topic", "copy", "records", "records/s", "behind", "lost", "seconds ago", "error")
    rows = [
        (
            name,
            one.topic,
            one.copy,
            one.record_count,
            one.records_per_s,
            one.behind,
            one.lost,
            max(0, now_ms - one.updated_at_ms) // 1000,
            one.error or "-",
        )
        for name, states in found.items()
        for one in states
    ]
    write_table(headings, rows)

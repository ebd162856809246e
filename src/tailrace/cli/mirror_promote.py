"""`tailrace mirror promote`: let producers write copies that have kept their offsets."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tailrace.cli.option import json_option, run_with_cluster
from tailrace.cli.output import write_json, write_line, write_table

if TYPE_CHECKING:
    from tailrace.client.cluster import Cluster
    from tailrace.spark.mirror.promotion import Promotion

_PATH: click.Path[Any] = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...")
@click.option("--to", "target", required=True, metavar="HOST:PORT,…", help="Cluster that the mirror copies to.")
@click.option("--to-config", type=_PATH, metavar="FILE", help="Properties file with client configs for --to.")
@click.option("--yes", is_flag=True, help="Promote without asking.")
@click.option("--dry-run", is_flag=True, help="Only show the plan.")
@json_option
def promote(
    topics: tuple[str, ...], target: str, to_config: Path | None, yes: bool, dry_run: bool, as_json: bool
) -> None:
    """Make each TOPIC, a copy that `mirror run --keep-offsets` has written, an ordinary topic that producers can write.

    The mirror can write it no more. Transactions that the source had open are aborted. The source cluster is not asked,
    because it may be lost.
    """
    servers = target.rpartition("=")[2]

    async def look(cluster: "Cluster") -> "list[Promotion]":
        from tailrace.spark.mirror.promotion import plan_promotions

        return await plan_promotions(cluster, topics)

    plans = run_with_cluster(servers, to_config, look)
    if not as_json:
        write_table(("topic", "partitions", "open transactions"), plans)
    if dry_run:
        if as_json:
            write_json([_described(plan, is_promoted=False, aborted=0) for plan in plans])
        return
    if not yes and not click.confirm(f"Promote these topics at {servers}?", err=as_json):
        raise click.ClickException("no topic was changed")

    promoted: list[dict[str, Any]] = []

    async def apply(cluster: "Cluster") -> None:
        from tailrace.spark.mirror import promotion

        for plan in plans:
            count = await promotion.promote(cluster, plan)
            promoted.append(_described(plan, is_promoted=True, aborted=count))
            if not as_json:
                write_line(f"topic {plan.topic} is promoted, {count} transactions were aborted")

    run_with_cluster(servers, to_config, apply)
    if as_json:
        write_json(promoted)


def _described(plan: "Promotion", *, is_promoted: bool, aborted: int) -> dict[str, Any]:
    return {
        "topic": plan.topic,
        "partitions": plan.partition_count,
        "open_transactions": plan.open_count,
        "promoted": is_promoted,
        "aborted_transactions": aborted,
    }

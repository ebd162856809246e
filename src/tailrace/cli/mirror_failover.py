"""`tailrace mirror failover`: let groups go on in the target, after a plan has been checked and shown."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tailrace.cli.option import json_option, run_with_cluster
from tailrace.cli.output import write_json, write_line, write_table

if TYPE_CHECKING:
    from tailrace.client.cluster import Cluster
    from tailrace.spark.mirror.failover_plan import FailoverPlan

_PATH: click.Path[Any] = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.argument("groups", nargs=-1, required=True, metavar="GROUP...")
@click.option("--to", "target", required=True, metavar="HOST:PORT,…", help="Cluster that the mirror copies to.")
@click.option("--to-config", type=_PATH, metavar="FILE", help="Properties file with client configs for --to.")
@click.option("--from", "source", metavar="NAME", help="Name of the mirror's source.  [default: the only one]")
@click.option("--yes", is_flag=True, help="Commit the offsets without asking.")
@click.option("--dry-run", is_flag=True, help="Only show the plan.")
@json_option
def failover(
    groups: tuple[str, ...],
    target: str,
    to_config: Path | None,
    source: str | None,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Commit the translated offsets of each GROUP in the target cluster, so that its consumers can start there.

    The source cluster is not asked, because it may be lost. Nothing is committed if a check fails for one of the
    groups.
    """
    servers = target.rpartition("=")[2]

    async def look(cluster: "Cluster") -> "list[FailoverPlan]":
        from tailrace.spark.mirror.stored import choose_mirror, plan_failovers

        return await plan_failovers(cluster, await choose_mirror(cluster, source), list(dict.fromkeys(groups)))

    plans = run_with_cluster(servers, to_config, look)
    if not as_json:
        _show(plans)
    problems = [problem for plan in plans for problem in plan.problems]
    if problems:
        raise click.ClickException("; ".join(problems))
    if dry_run:
        if as_json:
            write_json([_described(plan, is_committed=False) for plan in plans])
        return
    if not yes and not click.confirm(f"Commit these offsets at {servers}?", err=as_json):
        raise click.ClickException("no offset was changed")

    async def commit(cluster: "Cluster") -> None:
        from tailrace.client.admin.core import Admin

        for plan in plans:
            if not plan.changes:
                continue
            for error in (await Admin(cluster).alter_group_offsets(plan.group_id, plan.changes)).values():
                if error is not None:
                    raise error

    run_with_cluster(servers, to_config, commit)
    if as_json:
        write_json([_described(plan, is_committed=True) for plan in plans])
        return
    for plan in plans:
        write_line(f"group {plan.group_id} can go on at {servers}")


def _described(plan: "FailoverPlan", *, is_committed: bool) -> dict[str, Any]:
    return {
        "group": plan.group_id,
        "committed": is_committed,
        "partitions": [
            {
                "topic": step.partition.topic,
                "partition": step.partition.partition,
                "source_offset": step.source_offset,
                "from": step.before,
                "to": step.after,
                "left": step.left,
            }
            for step in plan.steps
        ],
        "notes": plan.notes,
    }


def _show(plans: "list[FailoverPlan]") -> None:
    headings = ("group", "topic", "partition", "source offset", "from", "to", "left to read")
    rows = [
        (
            plan.group_id,
            *step.partition,
            step.source_offset,
            "-" if step.before is None else step.before,
            step.after,
            step.left,
        )
        for plan in plans
        for step in plan.steps
    ]
    write_table(headings, rows)
    for plan in plans:
        for note in plan.notes:
            write_line(f"{plan.group_id}: {note}")

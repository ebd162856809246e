"""`tailrace pipeline list`, `status` and `reset`: what a file declares, how far it has come, and how it starts anew."""

import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tailrace.cli.option import broker_options, choose_servers, json_option, read_command_config
from tailrace.cli.output import write_json, write_line, write_table

if TYPE_CHECKING:
    from tailrace.spark.pipeline.checkpoint import Progress
    from tailrace.spark.pipeline.load import Pipeline
    from tailrace.spark.pipeline.plan import FlowPlan
    from tailrace.spark.position import Offsets

_file = click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
_checkpoint = click.option(
    "--checkpoint",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Folder for checkpoints.  [default: .tailrace/checkpoints/FILE beside the file]",
)


@click.command("list")
@_file
@click.option("--graph", is_flag=True, help="Draw the flows under what they read, with what they write.")
@json_option
def list_flows(file: Path, graph: bool, as_json: bool) -> None:
    """List the flows of FILE with their sources and sinks."""
    from tailrace.spark.pipeline.graph import draw_flows

    flows = _load(file).flows
    if graph and not as_json:
        for line in draw_flows(flows):
            write_line(line)
        return
    if as_json:
        write_json(
            [
                {
                    "flow": flow.name,
                    "sources": [str(source) for source in flow.sources],
                    "sink": str(flow.sink),
                    "mode": flow.mode,
                    "every": flow.every,
                    "errors": str(flow.errors),
                }
                for flow in flows
            ]
        )
        return
    rows = [[flow.name, " and ".join(map(str, flow.sources)), flow.sink, flow.mode] for flow in flows]
    write_table(["flow", "reads", "writes", "mode"], rows)


@click.command()
@_file
@_checkpoint
@broker_options
@json_option
def status(
    file: Path, checkpoint: Path | None, bootstrap_server: str | None, command_config: Path | None, as_json: bool
) -> None:
    """Show how far the flows of FILE have come, and whether they run.

    The lag is the number of offsets that a flow has not read yet; it is not known before its first batch. A flow that
    is not in FILE any more is shown as long as it has a checkpoint, which `reset --flow NAME` removes.
    """
    from tailrace.client.error import ClientError
    from tailrace.protocol.errors import ApiError
    from tailrace.spark.pipeline.checkpoint import read_progress
    from tailrace.spark.pipeline.left_open import removed_flows
    from tailrace.spark.pipeline.plan import checkpoints_of
    from tailrace.spark.pipeline.run_lock import find_runner

    pipeline = _load(file)
    folder = checkpoints_of(pipeline.path, checkpoint)
    process = find_runner(folder)
    client = _client(bootstrap_server, command_config)
    names = [flow.name for flow in pipeline.flows]
    removed = removed_flows(folder, names)
    found = {name: read_progress(folder / name) for name in [*names, *removed]}
    try:
        ends: Offsets | None = _find_ends([each.position for each in found.values() if each is not None], client)
    except (ApiError, ClientError) as error:
        click.echo(f"tailrace: the lag is not known: {error}", err=True)
        ends = None
    flows = [_describe(name, progress, ends, process) for name, progress in found.items()]
    for each in flows[len(names) :]:
        each["state"] = "not in the file"
    if as_json:
        write_json(flows)
        return
    columns = {"flow": "flow", "state": "state", "batches": "batches", "finished_at": "last batch", "lag": "lag"}
    write_table(
        list(columns.values()), [["-" if each[key] is None else each[key] for key in columns] for each in flows]
    )


@click.command()
@_file
@_checkpoint
@click.option("--flow", "names", multiple=True, metavar="NAME", help="Reset only this flow; may be repeated.")
@click.option("--drop-slots", is_flag=True, help="Drop the replication slots of postgres_changes, too.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@broker_options
def reset(
    file: Path,
    checkpoint: Path | None,
    names: tuple[str, ...],
    drop_slots: bool,
    yes: bool,
    as_json: bool,
    bootstrap_server: str | None,
    command_config: Path | None,
) -> None:
    """Forget how far the flows of FILE have come, so that they start anew.

    A flow then reads its sources from where they start, and writes its results again; what it has written before is not
    removed. Transactions that a flow has left open in a topic are ended, because readers would wait for them. With
    --flow, NAME may be a flow that is not in FILE any more. The pipeline must not be running.
    """
    from tailrace.spark.connector.postgres_changes.start_record import recorded_slots
    from tailrace.spark.error import PipelineError
    from tailrace.spark.pipeline.left_open import end_for_good, end_removed, removed_flows
    from tailrace.spark.pipeline.plan import checkpoints_of, plan_of
    from tailrace.spark.pipeline.run_lock import run_lock

    pipeline = _load(file)
    known = [flow.name for flow in pipeline.flows]
    folder = checkpoints_of(pipeline.path, checkpoint)
    removed = [name for name in removed_flows(folder, known) if name in names]
    for name in names:
        if name not in (*known, *removed):
            raise PipelineError(f"{file.name} has no flow {name}; its flows are {', '.join(known)}")
    chosen = [name for name in known if (not names or name in names) and (folder / name).exists()] + removed
    if not chosen:
        if as_json:
            write_json({"reset": []})
        else:
            write_line("tailrace: nothing to reset: the flows have no checkpoints")
        return
    with run_lock(folder):
        if not yes:
            click.confirm(f"Forget how far {', '.join(chosen)} {_have(chosen)} come?", abort=True, err=as_json)
        client = _client(bootstrap_server, command_config)
        plans = [plan_of(flow, client, folder, pipeline.path.parent) for flow in pipeline.flows if flow.name in chosen]
        for plan in plans:
            end_for_good(plan)
        for name in removed:
            end_removed(folder / name, client, forget=True)
        dropped = {plan.name for plan in plans if drop_slots and _drop_slots(plan, is_quiet=as_json)}
        for name in chosen:
            left = [] if name in dropped else recorded_slots(folder / name)
            shutil.rmtree(folder / name)
            if not as_json:
                outcome = "is removed with its checkpoint" if name in removed else "starts anew at the next run"
                write_line(f"tailrace: flow {name} {outcome}")
            for slot in left:
                click.echo(
                    f"tailrace: replication slot {slot} of flow {name} keeps the log of its server; drop it with "
                    f"SELECT pg_drop_replication_slot('{slot}')",
                    err=as_json,
                )
    if as_json:
        write_json({"reset": chosen})


def _drop_slots(plan: "FlowPlan", *, is_quiet: bool) -> bool:
    """Drop the replication slots that a flow has used; returns whether there were any."""
    dropped = [slot for source in plan.flow.sources if (slot := source.drop_slot(plan.place)) is not None]
    for slot in dropped if not is_quiet else ():
        write_line(f"tailrace: dropped {slot}")
    return bool(dropped)


def _client(bootstrap_server: str | None, command_config: Path | None) -> dict[str, str]:
    settings: Mapping[str, str] = {} if command_config is None else read_command_config(command_config)
    return {**settings, "bootstrap.servers": choose_servers(bootstrap_server, settings)}


def _have(names: list[str]) -> str:
    return "has" if len(names) == 1 else "have"


def _load(file: Path) -> "Pipeline":
    from tailrace.spark.pipeline.load import load_pipeline

    return load_pipeline(file)


def _describe(name: str, progress: "Progress | None", ends: "Offsets | None", process: int | None) -> dict[str, Any]:
    state = "stopped" if process is None else f"running in process {process}"
    if progress is None:
        state = "never run" if process is None else state
        return {"flow": name, "state": state, "batches": 0, "finished_at": None, "lag": None, "position": {}}
    finished = datetime.fromtimestamp(progress.finished_at_s, UTC)
    return {
        "flow": name,
        "state": state,
        "batches": progress.batch_id + 1,
        "finished_at": f"{finished:%Y-%m-%dT%H:%M:%SZ}",
        "lag": None if ends is None else _lag(progress.position, ends),
        "position": {str(each): offset for each, offset in progress.position.items()},
    }


def _lag(position: "Offsets", ends: "Offsets") -> int:
    return sum(max(0, ends.get(each, offset) - offset) for each, offset in position.items())


def _find_ends(positions: "list[Offsets]", client: Mapping[str, str]) -> "Offsets":
    """Return where the partitions of some positions end."""
    from tailrace.client.admin.sync import Admin
    from tailrace.client.fetch.isolation import Isolation
    from tailrace.client.offset import LATEST
    from tailrace.client.topic_partition import TopicPartition

    wanted: dict[str, set[int]] = {}
    for position in positions:
        for topic, partition in position:
            wanted.setdefault(topic, set()).add(partition)
    if not wanted:
        return {}
    with Admin(config=dict(client)) as admin:
        return {
            TopicPartition(topic, partition): found.offset
            for topic, partitions in wanted.items()
            for partition, found in admin.list_offsets(
                topic, dict.fromkeys(sorted(partitions), LATEST), Isolation.READ_COMMITTED
            ).items()
        }

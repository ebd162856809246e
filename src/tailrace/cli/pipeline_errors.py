"""`tailrace pipeline errors`: list the dead letters of flows, and send their records again."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tailrace.cli.option import broker_options, choose_servers, json_option, read_command_config
from tailrace.cli.output import write_json, write_line, write_table

if TYPE_CHECKING:
    from tailrace.spark.dead_letter import DeadLetter
    from tailrace.spark.pipeline.load import Pipeline
    from tailrace.spark.pipeline.plan import FlowPlan
    from tailrace.spark.pipeline.replay import Found

_flow_option = click.option("--flow", "names", multiple=True, metavar="NAME", help="Only this flow; may be repeated.")


@click.group()
def errors() -> None:
    """List dead letters, and send their records again.

    A flow with errors={"to": TOPIC} sends records that it cannot process to that topic.
    """


@errors.command("list")
@click.argument("place", metavar="FILE|TOPIC")
@_flow_option
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, metavar="N", help="Show this many.")
@json_option
@broker_options
def list_errors(
    place: str,
    names: tuple[str, ...],
    limit: int,
    as_json: bool,
    bootstrap_server: str | None,
    command_config: Path | None,
) -> None:
    """Show the newest dead letters of a topic, or of the flows of a file.

    \b
    tailrace pipeline errors list orders.yaml --limit 5
    tailrace pipeline errors list orders_errors --json
    """
    from tailrace.spark.pipeline.replay import DeadLetterTopic

    client = _client(bootstrap_server, command_config)
    topics, flows = _topics(place, names, client)
    found = [(topic, letter) for topic in topics for letter in DeadLetterTopic.open(topic, client).newest(limit, flows)]
    chosen = sorted(found, key=lambda each: each[1].timestamp_ms)[-limit:]
    if as_json:
        write_json([_describe(topic, letter) for topic, letter in chosen])
        return
    write_table(["time", "flow", "origin", "stage", "reason", "value"], [_cells(letter) for _, letter in chosen])


@errors.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@_flow_option
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Send at most this many records of each flow.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@broker_options
def replay(
    file: Path,
    names: tuple[str, ...],
    limit: int | None,
    yes: bool,
    as_json: bool,
    bootstrap_server: str | None,
    command_config: Path | None,
) -> None:
    """Send the dead letters of FILE's flows again to the topics that they came from.

    A record is sent once: a consumer group remembers how far the dead letters were replayed. The header
    tailrace.errors.replays counts how often a record was sent again. Everything that reads the topic sees it again.

    \b
    tailrace pipeline errors replay orders.yaml --flow orders --limit 100
    """
    from tailrace.spark.pipeline.group_mirror import group_name
    from tailrace.spark.pipeline.load import load_pipeline
    from tailrace.spark.pipeline.replay import Replay

    client = _client(bootstrap_server, command_config)
    pipeline = load_pipeline(file)
    replayed: list[dict[str, Any]] = []
    for plan in _plans(pipeline, names, client):
        topic = plan.flow.errors.topic or ""
        sources = {name for server, name in plan.topics_read if server == client["bootstrap.servers"]}
        group = f"{group_name(pipeline.path.stem, plan.name)}-replay"
        with Replay(topic, plan.name, sources, group, client) as replaying:
            found = replaying.find(limit)
            if found.count and not yes:
                question = f"Send {_records(found)} of flow {plan.name} again to {_places(found)}?"
                click.confirm(question, abort=True, err=as_json)
            replaying.send(found)
        replayed.append(_counts(plan.name, topic, found))
        if not as_json:
            write_line(f"tailrace: {_outcome(plan.name, topic, found)}")
    if as_json:
        write_json(replayed)


def _client(bootstrap_server: str | None, command_config: Path | None) -> dict[str, str]:
    settings: Mapping[str, str] = {} if command_config is None else read_command_config(command_config)
    return {**settings, "bootstrap.servers": choose_servers(bootstrap_server, settings)}


def _topics(place: str, names: tuple[str, ...], client: Mapping[str, str]) -> tuple[list[str], tuple[str, ...]]:
    """Return the dead-letter topics and the flows of a file, or the topic of this name and the chosen flows."""
    from tailrace.spark.pipeline.load import load_pipeline
    from tailrace.spark.pipeline.yaml_file import SUFFIXES

    path = Path(place)
    if not path.is_file() and path.suffix not in (".py", *SUFFIXES):
        return [place], names
    plans = _plans(load_pipeline(path), names, client)
    return sorted({plan.flow.errors.topic or "" for plan in plans}), tuple(plan.name for plan in plans)


def _plans(pipeline: "Pipeline", names: tuple[str, ...], client: Mapping[str, str]) -> "list[FlowPlan]":
    """Return the flows of a file that have a dead-letter topic."""
    from tailrace.spark.error import PipelineError
    from tailrace.spark.pipeline.plan import checkpoints_of, plan_of

    known = [flow.name for flow in pipeline.flows]
    for name in names:
        if name not in known:
            raise PipelineError(f"{pipeline.path.name} has no flow {name}; its flows are {', '.join(known)}")
    folder = checkpoints_of(pipeline.path)
    chosen = [flow for flow in pipeline.flows if flow.errors.topic is not None and (not names or flow.name in names)]
    if not chosen:
        which = f"flow {names[0]} has no" if len(names) == 1 else "no flow has a"
        raise PipelineError(f'{pipeline.path.name}: {which} dead-letter topic; set errors={{"to": TOPIC}}')
    return [plan_of(flow, client, folder, pipeline.path.parent) for flow in chosen]


def _cells(letter: "DeadLetter") -> list[str]:
    from tailrace.spark.message import piece, shorten

    origin = "-" if letter.origin is None else "{}-{} offset {}".format(*letter.origin)
    reason = shorten(letter.reason or "-")
    return [_time(letter), letter.flow or "-", origin, letter.stage or "-", reason, piece(letter.value)]


def _describe(topic: str, letter: "DeadLetter") -> dict[str, Any]:
    from tailrace.spark.message import piece

    origin = None if letter.origin is None else dict(zip(("topic", "partition", "offset"), letter.origin, strict=True))
    return {
        "topic": topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "time": _time(letter),
        "flow": letter.flow,
        "stage": letter.stage,
        "reason": letter.reason,
        "origin": origin,
        "replays": letter.replays,
        "key": None if letter.key is None else piece(letter.key),
        "value": piece(letter.value),
    }


def _time(letter: "DeadLetter") -> str:
    return f"{datetime.fromtimestamp(letter.timestamp_ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _records(found: "Found") -> str:
    return "1 record" if found.count == 1 else f"{found.count:,} records"


def _places(found: "Found") -> str:
    return "topic " + ", ".join(sorted(found.topics))


def _counts(flow: str, topic: str, found: "Found") -> dict[str, Any]:
    return {
        "flow": flow,
        "dead_letters": topic,
        "sent": found.count,
        "topics": sorted(found.topics),
        "left_out": {"repeated": found.repeated, "rows": found.rows, "foreign": found.foreign},
    }


def _outcome(flow: str, topic: str, found: "Found") -> str:
    sent = f"{_records(found)} sent again to {_places(found)}" if found.count else f"no new records in topic {topic}"
    foreign = "of topics that the flow does not read at these brokers"
    left = (
        (found.repeated, "dead letter whose record was sent before", "dead letters whose records were sent before"),
        (found.rows, "row without a record to send again", "rows without a record to send again"),
        (found.foreign, f"record {foreign}", f"records {foreign}"),
    )
    more = "".join(f"; left out {count:,} {one if count == 1 else many}" for count, one, many in left if count)
    return f"flow {flow}: {sent}{more}"

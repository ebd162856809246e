"""`tailrace transaction`: list, describe and abort transactions, and find hanging ones."""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tailrace.cli.option import broker_options, json_option, read_duration_s, run_with_cluster
from tailrace.cli.output import is_terminal, write_json, write_line, write_table

if TYPE_CHECKING:
    from tailrace.client.admin.transaction import (
        HangingTransaction,
        ListedTransaction,
        ProducerState,
        TransactionDescription,
    )
    from tailrace.client.cluster import Cluster
    from tailrace.client.topic_partition import TopicPartition

_STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
_OPEN_FOR_S = 15 * 60.0  # the default of transaction.max.timeout.ms


@click.group()
def transaction() -> None:
    """List, describe and abort transactions, and find hanging ones."""


@transaction.command("list")
@click.option(
    "--state",
    "states",
    type=click.Choice(_STATES, case_sensitive=False),
    multiple=True,
    help="List only ids in this state; can be repeated.",
)
@click.option(
    "--running",
    callback=read_duration_s,
    metavar="TIME",
    help="List only transactions that are open for longer, such as 5m.",
)
@click.option("--pattern", metavar="REGEX", help="List only ids that match this pattern as a whole.")
@click.option(
    "--hanging", is_flag=True, help="List transactions that are open in partitions but unknown to their coordinators."
)
@click.option("--topic", help="With --hanging: search only this topic.")
@click.option(
    "--open-for",
    callback=read_duration_s,
    metavar="TIME",
    help="With --hanging: list only transactions that are open for longer.  [default: 15m]",
)
@json_option
@broker_options
def list_transactions(
    states: tuple[str, ...],
    running: float | None,
    pattern: str | None,
    hanging: bool,
    topic: str | None,
    open_for: float | None,
    as_json: bool,
    bootstrap_server: str | None,
    command_config: Path | None,
) -> None:
    """List the transactional ids of all brokers, or hanging transactions."""
    from tailrace.client.admin.core import Admin

    if hanging:
        if states or running is not None or pattern is not None:
            raise click.UsageError("--hanging cannot be combined with --state, --running and --pattern")
        open_ms = round((_OPEN_FOR_S if open_for is None else open_for) * 1000)
        _write_hanging(
            run_with_cluster(bootstrap_server, command_config, lambda c: _find_hanging(c, topic, open_ms)), as_json
        )
        return
    if topic is not None or open_for is not None:
        raise click.UsageError("--topic and --open-for need --hanging")

    async def ask(cluster: "Cluster") -> "list[ListedTransaction]":
        running_ms = None if running is None else round(running * 1000)
        return await Admin(cluster).list_transactions(states=states, running_ms=running_ms, pattern=pattern)

    _write_listing(run_with_cluster(bootstrap_server, command_config, ask), as_json)


@transaction.command()
@click.argument("transactional_id")
@json_option
@broker_options
def describe(transactional_id: str, as_json: bool, bootstrap_server: str | None, command_config: Path | None) -> None:
    """Show the state of TRANSACTIONAL_ID, and the partitions of its transaction."""
    from tailrace.client.admin.core import Admin
    from tailrace.protocol.errors import ApiError

    async def ask(cluster: "Cluster") -> "TransactionDescription":
        found = (await Admin(cluster).describe_transactions([transactional_id]))[transactional_id]
        if isinstance(found, ApiError):
            raise found
        return found

    _write_description(run_with_cluster(bootstrap_server, command_config, ask), as_json)


@transaction.command()
@click.argument("topic")
@click.option("--partition", type=click.IntRange(min=0), help="Show only this partition.")
@json_option
@broker_options
def producers(
    topic: str, partition: int | None, as_json: bool, bootstrap_server: str | None, command_config: Path | None
) -> None:
    """Show the active producers of TOPIC and their open transactions."""
    from tailrace.client.admin.core import Admin
    from tailrace.protocol.errors import ApiError

    async def ask(cluster: "Cluster") -> "list[tuple[TopicPartition, ProducerState]]":
        targets = await _partitions(cluster, topic, partition)
        rows = []
        for target, found in (await Admin(cluster).describe_producers(targets)).items():
            if isinstance(found, ApiError):
                raise found
            rows += [(target, producer) for producer in found]
        return rows

    _write_producers(run_with_cluster(bootstrap_server, command_config, ask), as_json)


@transaction.command()
@click.argument("transactional_id", required=False)
@click.option("--topic", help="Topic of a hanging transaction; needs --partition and --start-offset.")
@click.option("--partition", type=click.IntRange(min=0))
@click.option("--start-offset", type=click.IntRange(min=0), help="First offset of the hanging transaction.")
@json_option
@broker_options
def abort(
    transactional_id: str | None,
    topic: str | None,
    partition: int | None,
    start_offset: int | None,
    as_json: bool,
    bootstrap_server: str | None,
    command_config: Path | None,
) -> None:
    """Abort the open transaction of TRANSACTIONAL_ID and fence its producer, or abort a hanging one."""
    if transactional_id is not None:
        if (topic, partition, start_offset) != (None, None, None):
            raise click.UsageError("TRANSACTIONAL_ID cannot be combined with --topic, --partition and --start-offset")
        name = transactional_id
        epoch = run_with_cluster(bootstrap_server, command_config, lambda cluster: _fence(cluster, name))
        if as_json:
            write_json({"name": name, "aborted": True, "epoch": epoch})
        else:
            write_line(f"aborted the open transaction of {name}; its producers are fenced by epoch {epoch}")
        return
    if topic is None or partition is None or start_offset is None:
        raise click.UsageError("set TRANSACTIONAL_ID, or --topic, --partition and --start-offset")
    place, offset = (topic, partition), start_offset
    producer_id = run_with_cluster(bootstrap_server, command_config, lambda c: _abort_hanging(c, place, offset))
    if as_json:
        write_json({"topic": topic, "partition": partition, "producer": producer_id, "aborted": True})
    else:
        write_line(f"aborted the transaction of producer {producer_id} in {topic}-{partition}")


# --- requests


async def _fence(cluster: "Cluster", transactional_id: str) -> int:
    from tailrace.client.admin.core import Admin
    from tailrace.protocol.errors import ApiError

    admin = Admin(cluster)
    described = (await admin.describe_transactions([transactional_id]))[transactional_id]
    if isinstance(described, ApiError):
        raise described  # fencing would create an id that was never used
    found = (await admin.fence_producers([transactional_id]))[transactional_id]
    if isinstance(found, ApiError):
        raise found
    return found.producer_epoch


async def _abort_hanging(cluster: "Cluster", place: tuple[str, int], start_offset: int) -> int:
    from tailrace.client.admin.core import Admin
    from tailrace.protocol.errors import ApiError

    admin = Admin(cluster)
    (found,) = (await admin.describe_producers([place])).values()
    if isinstance(found, ApiError):
        raise found
    for producer in found:
        if producer.transaction_start_offset == start_offset:
            await admin.abort_transaction(place, producer)
            return producer.producer_id
    raise click.ClickException(f"no transaction is open in {place[0]}-{place[1]} that starts at offset {start_offset}")


async def _find_hanging(cluster: "Cluster", topic: str | None, open_ms: int) -> "list[HangingTransaction]":
    from tailrace.client.admin.core import Admin

    targets = await _partitions(cluster, topic, None)
    return await Admin(cluster).find_hanging_transactions(targets, open_ms=open_ms)


async def _partitions(cluster: "Cluster", topic: str | None, partition: int | None) -> list[tuple[str, int]]:
    from tailrace.client.admin.core import Admin

    topics = await Admin(cluster).list_topics(include_internal=True) if topic is None else [await cluster.topic(topic)]
    if topic is not None and partition is not None:
        return [(topic, partition)]
    return [(found.name, number) for found in topics for number in range(len(found.partitions))]


# --- output


def _write_listing(found: "list[ListedTransaction]", as_json: bool) -> None:
    if as_json:
        write_json(
            [
                {
                    "name": item.transactional_id,
                    "state": item.state,
                    "producer": item.producer_id,
                    "coordinator": item.coordinator_id,
                }
                for item in found
            ]
        )
    elif is_terminal():
        rows = [(item.transactional_id, item.state, item.producer_id, item.coordinator_id) for item in found]
        write_table(("transactional id", "state", "producer", "coordinator"), rows)
    else:
        for item in found:
            write_line(item.transactional_id)


def _write_description(found: "TransactionDescription", as_json: bool) -> None:
    open_ms = None if found.started_at_ms is None else time.time_ns() // 1_000_000 - found.started_at_ms
    if as_json:
        write_json(
            {
                "name": found.transactional_id,
                "state": found.state,
                "producer": found.producer_id,
                "epoch": found.producer_epoch,
                "timeoutMs": found.timeout_ms,
                "openMs": open_ms,
                "coordinator": found.coordinator_id,
                "partitions": [{"topic": topic, "partition": number} for topic, number in sorted(found.partitions)],
            }
        )
        return
    write_line(
        f"transactional id {found.transactional_id} · {found.state} · producer {found.producer_id}"
        f" · epoch {found.producer_epoch} · timeout {found.timeout_ms} ms"
        f" · open for {'-' if open_ms is None else f'{open_ms} ms'} · coordinator {found.coordinator_id}"
    )
    for target in sorted(found.partitions):
        write_line(f"partition {target}")


def _write_producers(rows: "list[tuple[TopicPartition, ProducerState]]", as_json: bool) -> None:
    if as_json:
        write_json([_place(target) | _producer(producer) for target, producer in rows])
        return
    _write_rows("producer", rows)


def _write_hanging(found: "list[HangingTransaction]", as_json: bool) -> None:
    if as_json:
        write_json([_place(item.partition) | _producer(item.producer) for item in found])
        return
    _write_rows("hanging", [(item.partition, item.producer) for item in found])
    if not found and is_terminal():
        write_line("there are no hanging transactions")


def _write_rows(word: str, found: "Iterable[tuple[TopicPartition, ProducerState]]") -> None:
    rows = [
        (
            target,
            producer.producer_id,
            producer.producer_epoch,
            producer.coordinator_epoch,
            "-" if producer.transaction_start_offset is None else producer.transaction_start_offset,
            producer.last_timestamp_ms,
        )
        for target, producer in found
    ]
    names = ("partition", "producer", "epoch", "coordinator epoch", "start offset", "last timestamp")
    if is_terminal():
        if rows:
            write_table(names, rows)
        return
    for target, *values in rows:
        details = " ".join(f"{name.replace(' ', '-')} {value}" for name, value in zip(names[1:], values, strict=True))
        write_line(f"{word} {target} {details}")


def _place(target: "TopicPartition") -> dict[str, Any]:
    return {"topic": target.topic, "partition": target.partition}


def _producer(producer: "ProducerState") -> dict[str, Any]:
    return {
        "producer": producer.producer_id,
        "epoch": producer.producer_epoch,
        "coordinatorEpoch": producer.coordinator_epoch,
        "lastSequence": producer.last_sequence,
        "lastTimestampMs": producer.last_timestamp_ms,
        "startOffset": producer.transaction_start_offset,
    }

"""The transactions that a flow may have left open in topics to which its query will write no more.

A transaction that a task has prepared has no timeout, and readers of committed records wait for it. The query that
wrote it ends it with its next batch to the same topic. There is no such batch if the checkpoint is removed, or if the
file names another topic or another delivery than when the flow was killed, or has the flow no more; then the pipeline
ends it here.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from tailrace.spark.client_setting import PREFIX
from tailrace.spark.connector.base import Delivery
from tailrace.spark.connector.replay import has_query, read_query_id
from tailrace.spark.connector.topic.topic import Topic
from tailrace.spark.error import SparkSourceError
from tailrace.spark.pipeline.broker_note import note_brokers, read_brokers
from tailrace.spark.pipeline.load import Pipeline
from tailrace.spark.pipeline.plan import FlowPlan
from tailrace.spark.query_end import end_other_sinks, end_query
from tailrace.spark.transaction_name import sink_name

_PATIENCE = {"request.timeout.ms": "5000"}
"""The thread that starts a flow also watches the others. A flow whose brokers are away is started again later."""


def end_before_start(plan: FlowPlan, say: Callable[[str], None] = lambda _: None) -> int:
    """End what the query of a flow has left open elsewhere than in its present sink; returns the number.

    Raises `BrokerError` if brokers that the flow reads or writes cannot be asked. `say` gets a line for others, which
    are asked again at the next start.
    """
    count, unasked = 0, set[str]()
    if has_query(plan.checkpoint):
        client, query_id = dict(plan.place.client), read_query_id(plan.checkpoint)
        sink, kept = plan.flow.sink, None
        if isinstance(sink, Topic) and plan.flow.delivery is Delivery.EXACTLY_ONCE:
            kept = sink_name(query_id, sink.names[0] if len(sink.names) == 1 else None)
        clusters = {address: dict(plan.place.client) for address, _ in plan.topics_read} | _written(plan)
        count = sum(
            end_other_sinks(address, query_id, kept, config | _PATIENCE) for address, config in clusters.items()
        )
        for address in sorted((read_brokers(plan.checkpoint) or set()) - clusters.keys()):
            try:
                count += end_other_sinks(address, query_id, None, client | _PATIENCE)
            except SparkSourceError as error:
                unasked.add(address)
                say(f"flow {plan.name} may have left transactions open on {address}: {error}")
    is_exact = plan.flow.delivery is Delivery.EXACTLY_ONCE
    note_brokers(plan.checkpoint, unasked | {address for address, _ in plan.topics_written if is_exact})
    return count


def end_for_good(plan: FlowPlan) -> int:
    """End all that the query of a flow has left open, before its checkpoint is removed.

    Returns the number of transactions; raises `BrokerError` if the brokers cannot be asked.
    """
    noted = {address: dict(plan.place.client) for address in read_brokers(plan.checkpoint) or ()}
    return sum(
        end_abandoned([plan.checkpoint], {**config, "bootstrap.servers": address})
        for address, config in (noted | _written(plan)).items()
    )


def removed_flows(checkpoints: Path, names: Collection[str]) -> list[str]:
    """Return the flows that have a checkpoint, and are not among those of the file."""
    found = checkpoints.iterdir() if checkpoints.is_dir() else ()
    return sorted(path.name for path in found if path.name not in names and has_query(path))


def end_removed_flows(
    pipeline: Pipeline, checkpoints: Path, client: Mapping[str, str], say: Callable[[str], None]
) -> None:
    """End what flows have left open that a file does not have any more. `say` gets a line for each that has any."""
    file = pipeline.path.name
    for name in removed_flows(checkpoints, [flow.name for flow in pipeline.flows]):
        try:
            if count := end_removed(checkpoints / name, client):
                say(f"ended {count} open transactions of flow {name}, which is not in {file} any more")
        except SparkSourceError as error:
            say(
                f"flow {name}, which is not in {file} any more, may have left transactions open; "
                f"tailrace pipeline reset {file} --flow {name} ends them: {error}"
            )


def end_removed(checkpoint: Path, client: Mapping[str, str], *, forget: bool = False) -> int:
    """End what a flow has left open that is not in the file any more; returns the number of transactions.

    `forget` is for a checkpoint that is then removed. Otherwise the flow may come back, and goes on where it was.
    """
    query_id, noted = read_query_id(checkpoint), read_brokers(checkpoint)
    count = sum(
        end_query(address, query_id, forget=forget, config={**client, **_PATIENCE})
        for address in sorted({client["bootstrap.servers"]} if noted is None else noted)
    )
    note_brokers(checkpoint, ())
    return count


def end_abandoned(checkpoints: Iterable[Path], client: Mapping[str, str]) -> int:
    """Do the same for checkpoints of flows that write topics, with the configs of a client of the brokers."""
    return sum(
        end_query(client["bootstrap.servers"], read_query_id(checkpoint), forget=True, config=client)
        for checkpoint in checkpoints
        if has_query(checkpoint)
    )


def _written(plan: FlowPlan) -> dict[str, dict[str, str]]:
    """Return the brokers that the flow writes to, with its configs of clients; none if its sink is not a topic."""
    if not isinstance(plan.flow.sink, Topic):
        return {}
    given = plan.flow.sink.sink_options(plan.place)
    config = {name.removeprefix(PREFIX): text for name, text in given.items() if name.startswith(PREFIX)}
    return {address: config for address, _ in plan.topics_written}

"""The transactions that a flow may have left open in topics to which its query will write no more.

A transaction that a task has prepared has no timeout, and readers of committed records wait for it. The query that
wrote it ends it with its next batch to the same topic. There is no such batch if the checkpoint is removed, or if the
file names another topic or another delivery than when the flow was killed; then the pipeline ends it here.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from tailrace.spark.client_setting import PREFIX
from tailrace.spark.connector.base import Delivery
from tailrace.spark.connector.replay import has_query, read_query_id
from tailrace.spark.connector.topic.topic import Topic
from tailrace.spark.pipeline.plan import FlowPlan
from tailrace.spark.query_end import end_other_sinks, end_query
from tailrace.spark.transaction_name import sink_name

_PATIENCE = {"request.timeout.ms": "5000"}
"""The thread that starts a flow also watches the others. A flow whose brokers are away is started again later."""


def end_before_start(plan: FlowPlan) -> int:
    """End what the query of a flow has left open elsewhere than in its present sink; returns the number.

    Raises `BrokerError` if the brokers cannot be asked.
    """
    if not has_query(plan.checkpoint):
        return 0
    query_id, sink, kept = read_query_id(plan.checkpoint), plan.flow.sink, None
    if isinstance(sink, Topic) and plan.flow.delivery is Delivery.EXACTLY_ONCE:
        kept = sink_name(query_id, sink.names[0] if len(sink.names) == 1 else None)
    clusters = {address: dict(plan.place.client) for address, _ in plan.topics_read} | _written(plan)
    return sum(end_other_sinks(address, query_id, kept, config | _PATIENCE) for address, config in clusters.items())


def end_for_good(plan: FlowPlan) -> int:
    """End all that the query of a flow has left open in its sink, before its checkpoint is removed.

    Returns the number of transactions; raises `BrokerError` if the brokers cannot be asked.
    """
    return sum(
        end_abandoned([plan.checkpoint], {**config, "bootstrap.servers": address})
        for address, config in _written(plan).items()
    )


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

"""The topics of a pipeline: checked before Spark starts, which takes seconds, and created before the flows start."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tailrace.base.limits import SPARK_DEAD_LETTER_BYTES_MAX
from tailrace.client.admin.core import NewTopic
from tailrace.client.admin.sync import Admin
from tailrace.client.metadata import Topic as TopicView
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.spark.connector.topic.topic import Topic
from tailrace.spark.pipeline.error import FlowError
from tailrace.spark.pipeline.plan import FlowPlan

_BROKER_DEFAULT = -1


def check_topics(plans: Sequence[FlowPlan], client: Mapping[str, str]) -> None:
    """Raise `FlowError` if a source does not exist and no flow writes it, or if a sink cannot be created."""
    for address, admin in _admins(plans, client):
        created = _create(admin, _sinks(plans, address), validate_only=True)
        _require_sources(admin, address, plans, created)


def create_sinks(plans: Sequence[FlowPlan], client: Mapping[str, str]) -> list[str]:
    """Create the topics of sinks and of dead letters that do not exist, and return their names."""
    return [
        name
        for address, admin in _admins(plans, client)
        for name in _create(admin, _sinks(plans, address), validate_only=False)
    ]


def count_partitions(plan: FlowPlan, client: Mapping[str, str]) -> int:
    """Return how many partitions the topics have that a flow reads; one that does not exist yet counts as one."""
    count = 0
    for address in sorted({address for address, _ in plan.topics_read}):
        names = [name for server, name in plan.topics_read if server == address]
        with Admin(config={**client, "bootstrap.servers": address}) as admin:
            found = admin.describe_topics(names)
        count += sum(len(topic.partitions) if isinstance(topic, TopicView) else 1 for topic in found.values())
    return count


def _admins(plans: Sequence[FlowPlan], client: Mapping[str, str]) -> Iterator[tuple[str, Admin]]:
    """Connect to the brokers of each address in turn."""
    addresses = {address for plan in plans for address, _ in (*plan.topics_read, *_written(plan))}
    for address in sorted(addresses):
        with Admin(config={**client, "bootstrap.servers": address}) as admin:
            yield address, admin


def _written(plan: FlowPlan) -> list[tuple[str, str]]:
    return [*plan.topics_written, *_dead_letters(plan)]


def _dead_letters(plan: FlowPlan) -> list[tuple[str, str]]:
    return [] if plan.dead_letter_topic is None else [plan.dead_letter_topic]


def _sinks(plans: Sequence[FlowPlan], address: str) -> dict[str, FlowPlan]:
    """Return the topics at these brokers that flows write, with a flow that writes rows rather than dead letters."""
    return {
        name: plan
        for topics in ([_dead_letters(plan) for plan in plans], [plan.topics_written for plan in plans])
        for plan, found in zip(plans, topics, strict=True)
        for server, name in found
        if server == address
    }


def _new_topic(plan: FlowPlan, name: str) -> NewTopic:
    sink = plan.flow.sink
    if not isinstance(sink, Topic) or name not in sink.names:
        return NewTopic(name, configs={"max.message.bytes": str(SPARK_DEAD_LETTER_BYTES_MAX)})
    return NewTopic(name, sink.partitions or _BROKER_DEFAULT)


def _create(admin: Admin, wanted: Mapping[str, FlowPlan], *, validate_only: bool) -> list[str]:
    """Create those topics that do not exist, or only ask whether that would work; returns their names."""
    found = admin.describe_topics(wanted) if wanted else {}
    created = []
    for name, plan in wanted.items():
        if isinstance(found.get(name), TopicView):
            continue
        outcome = admin.create_topics([_new_topic(plan, name)], validate_only=validate_only)[name]
        if not isinstance(outcome, ApiError):
            created.append(name)
        elif outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise FlowError(plan.name, f"topic {name} cannot be created: {outcome}")
    return created


def _require_sources(admin: Admin, address: str, plans: Sequence[FlowPlan], created: Iterable[str]) -> None:
    """Raise `FlowError` for a source that neither exists nor is about to be created as a sink."""
    read = {name: plan for plan in plans for server, name in plan.topics_read if server == address}
    missing = sorted(read.keys() - set(created))
    for name, outcome in (admin.describe_topics(missing) if missing else {}).items():
        if isinstance(outcome, ApiError):
            unknown = outcome.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            reason = "does not exist" if unknown else f"cannot be read: {outcome}"
            raise FlowError(read[name].name, f"topic {name} {reason}")

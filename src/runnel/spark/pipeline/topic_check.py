"""Before Spark starts, which takes seconds: are the brokers there, and the topics?"""

from collections.abc import Mapping, Sequence

from runnel.client.admin import NewTopic
from runnel.client.metadata import Topic as TopicView
from runnel.client.sync_admin import Admin
from runnel.protocol.errors import ApiError, ErrorCode
from runnel.spark.pipeline.endpoint import Topic
from runnel.spark.pipeline.error import FlowError
from runnel.spark.pipeline.plan import FlowPlan

_BROKER_DEFAULT = -1


def check_topics(plans: Sequence[FlowPlan], client: Mapping[str, str]) -> list[str]:
    """Create the topics of sinks that are missing and return their names; raises `FlowError` for sources that are."""
    created = []
    servers = {address for plan in plans for address, _ in (*plan.topics_read, *_written(plan))}
    for address in sorted(servers):
        with Admin(config={**client, "bootstrap.servers": address}) as admin:
            created += _create_sinks(admin, address, plans)
            _require_sources(admin, address, plans)
    return created


def _written(plan: FlowPlan) -> list[tuple[str, str]]:
    return [] if plan.topic_written is None else [plan.topic_written]


def _create_sinks(admin: Admin, address: str, plans: Sequence[FlowPlan]) -> list[str]:
    wanted = {name: plan for plan in plans for server, name in _written(plan) if server == address}
    found = admin.describe_topics(wanted) if wanted else {}
    created = []
    for name, plan in wanted.items():
        if isinstance(found.get(name), TopicView):
            continue
        sink = plan.flow.sink
        partitions = sink.partitions if isinstance(sink, Topic) and sink.partitions else _BROKER_DEFAULT
        outcome = admin.create_topics([NewTopic(name, partitions)])[name]
        if not isinstance(outcome, ApiError):
            created.append(name)
        elif outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise FlowError(plan.name, f"topic {name} cannot be created: {outcome}")
    return created


def _require_sources(admin: Admin, address: str, plans: Sequence[FlowPlan]) -> None:
    read = {name: plan for plan in plans for server, name in plan.topics_read if server == address}
    for name, outcome in (admin.describe_topics(sorted(read)) if read else {}).items():
        if isinstance(outcome, ApiError):
            known = outcome.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise FlowError(
                read[name].name, f"topic {name} {'does not exist' if known else f'cannot be read: {outcome}'}"
            )

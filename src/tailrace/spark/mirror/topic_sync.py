"""The topics of a mirror: found in the source, and created, extended and configured in the target."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tailrace.client.admin.acl import AclFilter
from tailrace.client.admin.core import Admin, ConfigSource, NewTopic, ResourceType
from tailrace.client.metadata import Topic
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.spark.mirror.acl_plan import missing_acls
from tailrace.spark.mirror.cycle import cycle_problem, routes_of, write_route
from tailrace.spark.mirror.error import MirrorError
from tailrace.spark.mirror.job import PartitionJob
from tailrace.spark.mirror.keep_sync import KeepSync, refusal
from tailrace.spark.mirror.name import GROUP_PREFIX, HEARTBEATS_TOPIC
from tailrace.spark.mirror.option import MirrorOptions
from tailrace.spark.mirror.rename import Renaming
from tailrace.spark.mirror.selection import selects_topic
from tailrace.spark.mirror.topic_plan import MIRROR_CLAIM, TopicPlan, TopicState, plan_topics

CONFIG_INTERVAL_S = 30.0
"""The time between two comparisons of the configs and ACLs of all topics."""
_COMPACTED = {"cleanup.policy": "compact"}
_SYNCS_KEPT_MS = 3_600_000  # a restarted mirror translates the offsets of the last hour exactly


@dataclass(slots=True)
class TopicView:
    """The topics of a mirror at one time, and the plan for the target."""

    jobs: list[PartitionJob] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    """The copies of all mirrored topics by their names in the source."""
    plan: TopicPlan = field(default_factory=TopicPlan)
    errors: dict[str, str] = field(default_factory=dict)
    """The topics of the source that cannot be copied, and why."""


class TopicSync:
    """Looks at both clusters, and lets the target follow the source."""

    def __init__(
        self, options: MirrorOptions, source: Admin, target: Admin, ids: tuple[str, str], keeper: KeepSync | None = None
    ) -> None:
        """`ids` are those of the clusters; with a keeper the copies keep offsets."""
        self._options = options
        self._source = source
        self._target = target
        self._source_id, self._target_id = ids
        self._renaming = Renaming(options.template, options.name)
        self._keeper = keeper
        self._configs_at_s = 0.0

    async def look(self) -> TopicView:
        """Return the topics of the source and the plan; changes nothing."""
        found = {topic.name: topic for topic in await self._source.list_topics()}
        there = {topic.name: topic for topic in await self._target.list_topics()}
        routes = await self._routes()
        view = TopicView()
        for name in self._selected(found):
            copy = self._renaming.apply(name)
            problem = cycle_problem(name, copy, routes.get(name, ()), self._target_id)
            if problem is None:
                view.names[name] = copy
            elif self._renaming.keeps_names:
                view.errors[name] = problem
        if self._keeper is not None:
            problems = await self._keeper.look(view.names, found, there)
            view.errors |= problems
            view.names = {name: copy for name, copy in view.names.items() if name not in problems}
        committed = await self._target.list_group_offsets(self._options.name.group_id)
        copied = {partition.topic for partition in committed}
        is_due = time.monotonic() - self._configs_at_s >= CONFIG_INTERVAL_S
        wanted = {
            name: await self._state(self._source, found[name], with_configs=is_due or copy not in there)
            for name, copy in view.names.items()
        }
        existing = {
            copy: await self._state(self._target, there[copy], with_configs=is_due and copy in copied)
            for copy in view.names.values()
            if copy in there
        }
        view.plan = plan_topics(wanted, existing, view.names, copied)
        view.errors |= view.plan.refused
        for name in view.plan.refused:
            del view.names[name]
        for name, copy in view.names.items():
            route = write_route([*routes.get(name, ()), self._source_id])
            count = wanted[name].partition_count
            view.jobs += [PartitionJob(name, partition, copy, route) for partition in range(count)]
        return view

    def _selected(self, found: Mapping[str, Topic]) -> Iterable[str]:
        for name, topic in found.items():
            is_wanted = selects_topic(self._options.topics, name)
            if name == HEARTBEATS_TOPIC:
                is_wanted = self._keeper is None  # the mirror writes its own heartbeats into the copy
            if is_wanted and not topic.error and topic.partitions and not self._renaming.came_from_target(name):
                yield name

    async def _routes(self) -> dict[str, tuple[str, ...]]:
        """Return the clusters through which the topics of the source came, from the mirrors that write them."""
        groups = await self._source.list_groups()
        progress: list[dict[TopicPartition, str]] = []
        for group in groups:
            if group.group_id.startswith(GROUP_PREFIX):
                committed = await self._source.list_group_offsets(group.group_id)
                progress.append({partition: offset.metadata for partition, offset in committed.items()})
        routes = routes_of(progress)
        return {topic: route for topic, route in routes.items() if not topic.endswith(".internal")}

    async def _state(self, admin: Admin, topic: Topic, *, with_configs: bool) -> TopicState:
        if not with_configs:
            return TopicState(len(topic.partitions))
        configs = await admin.describe_configs(ResourceType.TOPIC, topic.name)
        own = {
            config.name: config.value
            for config in configs
            if config.source == ConfigSource.TOPIC and config.value is not None
        }
        return TopicState(len(topic.partitions), own)

    # --- changes

    async def check(self, view: TopicView) -> None:
        """Raise `MirrorError` if the plan cannot be carried out, before anything is changed."""
        if view.errors:
            raise MirrorError("; ".join(view.errors.values()))
        topics = [*self._own_topics(), *self._new_topics(view.plan)]
        for name, outcome in (await self._target.create_topics(topics, validate_only=True)).items():
            if isinstance(outcome, ApiError) and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                servers = self._options.target.bootstrap_servers
                kept = {} if self._keeper is None else self._keeper.claims
                problem = refusal(name, outcome) if name in kept else f"topic {name} cannot be created: {outcome}"
                raise MirrorError(f"{servers}: {problem}")

    async def create_own(self) -> None:
        """Create the topics of the mirror itself, unless they exist."""
        for name, outcome in (await self._target.create_topics(self._own_topics())).items():
            if isinstance(outcome, ApiError) and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise MirrorError(f"topic {name} cannot be created in the target: {outcome}")

    async def apply(self, view: TopicView) -> None:
        """Carry out the plan. A topic that cannot be created is an error in the view, and is not copied."""
        plan = view.plan
        failed: dict[str, str] = {}
        if topics := self._new_topics(plan):
            for name, outcome in (await self._target.create_topics(topics)).items():
                if isinstance(outcome, ApiError) and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    failed[name] = f"topic {name} cannot be created in the target: {outcome}"
        if plan.grow:
            for name, error in (await self._target.create_partitions(plan.grow)).items():
                if error is not None:
                    failed[name] = f"partitions cannot be added to topic {name} in the target: {error}"
        for name, changes in plan.alter.items():
            try:
                await self._target.alter_configs(ResourceType.TOPIC, name, changes)
            except ApiError as error:
                view.errors[_original(view, name)] = f"configs of topic {name} cannot be set in the target: {error}"
        if self._keeper is not None:
            failed |= await self._keeper.take()
            for copy in failed:
                self._keeper.forget(copy)
        for copy, problem in failed.items():
            topic = _original(view, copy)
            view.errors[topic] = problem
            view.jobs = [job for job in view.jobs if job.topic != topic]
            del view.names[topic]
        if time.monotonic() - self._configs_at_s >= CONFIG_INTERVAL_S:
            self._configs_at_s = time.monotonic()
            await self._follow_acls(view.names)

    async def _follow_acls(self, names: Mapping[str, str]) -> None:
        """Add the ACLs of readers; does nothing if one of the clusters has no ACLs or does not show them."""
        selection = AclFilter(resource_type="topic")
        try:
            wanted = await self._source.describe_acls(selection)
            missing = missing_acls(wanted, names, await self._target.describe_acls(selection))
            if missing:
                await self._target.create_acls(missing)
        except ApiError as error:
            if error.code not in (ErrorCode.SECURITY_DISABLED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
                raise

    def _new_topics(self, plan: TopicPlan) -> list[NewTopic]:
        factor = self._options.replication_factor
        own = {topic.name for topic in self._own_topics()}
        claimed = {} if self._keeper is None else self._keeper.claims
        claims = {copy: {MIRROR_CLAIM: claim} for copy, claim in claimed.items()}
        return [
            NewTopic(name, state.partition_count, factor, {**(state.configs or {}), **claims.get(name, {})})
            for name, state in plan.create.items()
            if name not in own
        ]

    def _own_topics(self) -> Sequence[NewTopic]:
        name, factor = self._options.name, self._options.replication_factor
        kept = {
            **_COMPACTED,
            "min.compaction.lag.ms": str(_SYNCS_KEPT_MS),
            "max.compaction.lag.ms": str(2 * _SYNCS_KEPT_MS),
        }
        return [
            NewTopic(name.syncs_topic, 1, factor, kept),
            NewTopic(name.checkpoints_topic, 1, factor, _COMPACTED),
            NewTopic(name.state_topic, 1, factor, _COMPACTED),
            NewTopic(HEARTBEATS_TOPIC, 1, factor, _COMPACTED),
            NewTopic(name.remote_heartbeats_topic, 1, factor, _COMPACTED),
        ]


def _original(view: TopicView, copy: str) -> str:
    return next(topic for topic, name in view.names.items() if name == copy)

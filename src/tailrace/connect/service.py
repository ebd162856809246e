"""The Connect service: connectors by name, what their users want of them, and the applications that run them."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tailrace.connect.board import StatusBoard
from tailrace.connect.core.error import ConnectError, no_connector_type
from tailrace.connect.core.record import (
    Phase,
    Target,
    TopicUse,
    config_row,
    removal_rows,
    target_row,
    task_rows,
    topic_row,
)
from tailrace.connect.core.state import Connector, State
from tailrace.connect.folder import ConnectorFolder
from tailrace.connect.health import HealthCheck
from tailrace.connect.job import Event, Job, Report
from tailrace.connect.offset import OffsetDesk, group_of
from tailrace.connect.plugin.base import Plugin
from tailrace.connect.plugin.connector_setting import CONNECTOR_CLASS, NAME
from tailrace.connect.plugin.error import ConfigError
from tailrace.connect.plugin.known import find_plugin
from tailrace.connect.plugin.translation import translate
from tailrace.connect.plugin.validation import validate
from tailrace.connect.store import ConnectStore, TopicNames
from tailrace.connect.supervisor import Supervisor

TASK_CLASS = "task.class"
_PHASES = {
    Event.RUNNING: Phase.RUNNING,
    Event.RESTARTING: Phase.RESTARTING,
    Event.FAILED: Phase.FAILED,
}
"""The state of the task by what its application reports."""


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """What a Connect service is started with."""

    client: Mapping[str, str]
    """Configs of Kafka clients by name, with `bootstrap.servers`."""
    data: Path
    """The folder for pipeline files and checkpoints."""
    group_id: str = "connect-cluster"
    topics: TopicNames = field(default_factory=TopicNames)
    master: str = "local[*]"
    spark: Mapping[str, str] = field(default_factory=dict)
    worker: Mapping[str, str] = field(default_factory=dict)
    """The converters of connectors that name none."""


class ConnectService:
    """Connectors and their applications. Use it as an async context manager."""

    def __init__(self, options: ServiceOptions, worker_id: str) -> None:
        self.worker_id = worker_id
        self.options = options
        self.store = ConnectStore(options.client, options.topics, options.group_id, worker_id)
        self.health = HealthCheck(self.store)
        self.board = StatusBoard(self.store, worker_id)
        self.offsets = OffsetDesk(self.store, options.client, options.data, self.board.write)
        self._supervisors: dict[str, Supervisor] = {}
        self._supervised: dict[str, Connector] = {}
        self._changing = asyncio.Lock()

    @property
    def state(self) -> State:
        """What the topics say."""
        return self.store.state

    async def __aenter__(self) -> Self:
        await self.store.__aenter__()
        try:
            for name in self.state.names:
                await self._begin(self.find(name))
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop all applications. The next service starts those of connectors that are to run."""
        names = [*self._supervisors]
        await asyncio.gather(*map(self._end, names))
        for name in names:
            self.board.set(name, Phase.UNASSIGNED)
            self.board.set_tasks(name, dict.fromkeys(self.board.tasks(name), (Phase.UNASSIGNED, None)))
        await self.board.close()
        await self.store.close()

    async def watch(self) -> None:
        """Write statuses, and watch for a service that takes over; raises `Replaced`."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.board.run())
            group.create_task(self.store.watch())

    # --- questions

    def find(self, name: str, refusal: str = "Connector {} not found") -> Connector:
        """Return a connector; raises `ConnectError` if there is none of that name.

        Kafka Connect has other words for that in some requests, and clients show them.
        """
        found = self.state.find(name)
        if found is None:
            raise ConnectError(404, refusal.format(name))
        return found

    def plugin_of(self, connector: Connector) -> Plugin | None:
        """Return the plugin of a connector; None if this service does not have it."""
        try:
            return find_plugin(connector.config.get(CONNECTOR_CLASS, ""))
        except ConfigError:
            return None

    def process_id(self, name: str) -> int | None:
        """Return the id of the process that runs a connector, while there is one."""
        supervisor = self._supervisors.get(name)
        return None if supervisor is None else supervisor.process_id

    # --- changes

    async def create(self, name: str, config: Mapping[str, str], target: Target = Target.STARTED) -> Connector:
        """Add a connector; raises `ConnectError` if there is one, or if its config is wrong."""
        async with self._changing:
            if self.state.find(name) is not None:
                raise ConnectError(409, f"Connector {name} already exists")
            config = self._check(name, config)
            await self.store.append([target_row(name, target), config_row(name, config)])
            connector = self.find(name)
            await self._begin(connector)
            return connector

    async def put_config(self, name: str, config: Mapping[str, str]) -> tuple[Connector, bool]:
        """Set the config of a connector, and start it anew; returns it, and whether it is new."""
        async with self._changing:
            is_new = self.state.find(name) is None
            await self.store.append([config_row(name, self._check(name, config))])
            connector = self.find(name)
            await self._end(name)
            await self._begin(connector)
            return connector, is_new

    async def delete(self, name: str) -> None:
        """Remove a connector, with its checkpoints. Its offsets stay, as in Kafka Connect."""
        async with self._changing:
            self.find(name)
            await self._end(name)
            await self.offsets.forget_progress(name)
            await self.board.flush()
            uses = list(self.state.topics.get(name, {}).values())
            await self.store.append([*removal_rows(name), *(topic_row(use, is_used=False) for use in uses)])
            self.board.forget(name)
            await self.board.flush()
            ConnectorFolder(self.options.data, name).remove()

    async def set_target(self, name: str, target: Target) -> None:
        """Note what a user wants of a connector, and see to it. One that is paused keeps its tasks."""
        async with self._changing:
            connector = self.find(name, "Unknown connector {}")
            if connector.target is target:
                return
            removal = task_rows(name, []) if target is Target.STOPPED else []
            await self.store.append([*removal, target_row(name, target)])
            await self._end(name)
            await self._begin(self.find(name))

    async def restart(self, name: str, *, only_failed: bool) -> None:
        """Start a connector and its task anew, unless it is paused or stopped. Both are one application."""
        async with self._changing:
            connector = self.find(name, "Unknown connector: {}")
            has_failed = any(status.phase is Phase.FAILED for status in self.board.tasks(name).values())
            if connector.target is not Target.STARTED or (only_failed and not has_failed):
                return
            traces = [status.trace for status in self.board.tasks(name).values()]
            await self._end(name)
            await self._begin(connector, Phase.RUNNING if only_failed else Phase.RESTARTING, Phase.RESTARTING, *traces)

    async def alter_offsets(self, name: str, offsets: Sequence[Mapping[str, Any]] | None) -> str:
        """Set the offsets of a stopped connector, or forget them if they are None; returns what was done."""
        async with self._changing:
            connector = self.find(name)
            if connector.target is not Target.STOPPED:
                raise ConnectError(
                    400,
                    "Connectors must be in the STOPPED state before their offsets can be modified. This can be done "
                    f"for the specified connector by issuing a 'PUT' request to the '/connectors/{name}/stop' endpoint",
                )
            if offsets is None:
                await self.offsets.reset(connector, self.plugin_of(connector))
                return "The offsets for this connector have been reset successfully"
            await self.offsets.alter(connector, self.plugin_of(connector), offsets)
            return "The offsets for this connector have been altered successfully"

    async def forget_topics(self, name: str) -> None:
        """Forget which topics a connector has used."""
        async with self._changing:
            await self.store.append([topic_row(use, is_used=False) for use in self.state.topics.get(name, {}).values()])

    # --- inside

    def _check(self, name: str, config: Mapping[str, str]) -> dict[str, str]:
        """Return a config with the name of its connector; raises `ConnectError` if it is wrong."""
        full = {**config, NAME: name}
        check_config(full, self.options.worker)
        return full

    async def _begin(
        self,
        connector: Connector,
        phase: Phase = Phase.UNASSIGNED,
        task_phase: Phase = Phase.UNASSIGNED,
        trace: str | None = None,
    ) -> None:
        """Run a connector, if that is what its user wants; until it does, it has these states."""
        name = connector.name
        if connector.target is not Target.STARTED:
            rest = Phase(connector.target)
            self.board.set(name, rest)
            self.board.set_tasks(name, dict.fromkeys(range(len(connector.tasks)), (rest, None)))
            return
        tasks = [_task_config(connector.config)]
        if connector.tasks != tasks:
            self.board.write(task_rows(name, tasks))
        self.board.set(name, phase)
        self.board.set_tasks(name, {0: (task_phase, trace)})

        async def note(report: Report) -> None:
            self._note(connector, report)

        self._supervised[name] = connector
        supervisor = self._supervisors[name] = Supervisor(name, lambda: self._make_job(connector), note)
        supervisor.start()

    async def _end(self, name: str) -> None:
        """Stop the application of a connector, and note what its last batch has read."""
        supervisor = self._supervisors.pop(name, None)
        if supervisor is not None:
            await supervisor.stop()
            connector = self._supervised.pop(name)
            self.offsets.note(connector, self.plugin_of(connector))

    def _note(self, connector: Connector, report: Report) -> None:
        """Take a report of a connector's application. The connector runs even while its task does not."""
        name = connector.name
        phase = _PHASES[report.event]
        trace = None if phase is Phase.RUNNING else report.cause
        known = self.board.connector(name)
        if known is None or known.phase is not Phase.RUNNING:
            self.board.set(name, Phase.RUNNING)
        if {task: (each.phase, each.trace) for task, each in self.board.tasks(name).items()} != {0: (phase, trace)}:
            self.board.set_tasks(name, {0: (phase, trace)})
        if phase is Phase.RUNNING:
            self.offsets.note(connector, self.plugin_of(connector))
            if report.rows:
                self._note_topics(connector)

    def _note_topics(self, connector: Connector) -> None:
        """Note the topics of a connector that has read something."""
        translation = translate(connector.name, connector.config, self.options.worker)
        known = self.state.topics.get(connector.name, {})
        now_ms = int(time.time() * 1000)
        names = [name for name in (*translation.topics_read, *translation.topics_written) if name not in known]
        self.board.write([topic_row(TopicUse(name, connector.name, 0, now_ms)) for name in names])

    async def _make_job(self, connector: Connector) -> Job:
        """Write the pipeline of a connector, and return the job of its application; raises `ConfigError`."""
        translation = translate(connector.name, connector.config, self.options.worker)
        folder = ConnectorFolder(self.options.data, connector.name)
        file = folder.write_pipeline(await self.offsets.started(connector, translation))
        return Job(
            connector.name,
            str(file),
            str(folder.checkpoints),
            dict(self.options.client),
            self.options.master,
            {**self.options.spark, **translation.spark},
            [
                {
                    "name": topic.name,
                    "partition_count": topic.partitions,
                    "replication_factor": topic.replication_factor,
                    "configs": dict(topic.configs),
                }
                for topic in translation.new_topics
            ],
            list(translation.topics_read),
            group_of(connector.name),
        )


def check_config(config: Mapping[str, str], worker: Mapping[str, str]) -> None:
    """Raise `ConnectError` with what Kafka Connect says about a config that is wrong."""
    name = config.get(CONNECTOR_CLASS)
    if name is None:
        raise no_connector_type(config)
    try:
        plugin = find_plugin(name)
    except ConfigError as error:
        raise ConnectError(400, str(error)) from None
    result = validate(plugin, config, worker)
    if result.error_count:
        listed = "\n".join(result.errors)
        raise ConnectError(
            400,
            f"Connector configuration is invalid and contains the following {result.error_count} error(s):\n{listed}\n"
            "You can also find the above list of errors at the endpoint "
            "`/connector-plugins/{connectorType}/config/validate`",
        )


def _task_config(config: Mapping[str, str]) -> dict[str, str]:
    """Return the config of a connector's only task."""
    name = config.get(CONNECTOR_CLASS, "")
    return {TASK_CLASS: f"{name.removesuffix('Connector')}Task", **config}

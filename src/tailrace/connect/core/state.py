"""The state of a Connect service: the result of replaying the records of its topics."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tailrace.connect.core.record import (
    COMMIT,
    CONNECTOR,
    CONNECTOR_STATUS,
    LOGGER,
    TARGET,
    TASK,
    TASK_STATUS,
    TOPIC,
    TOPIC_OF,
    WORKER,
    Phase,
    Status,
    Store,
    Target,
    TopicUse,
)

Config = Mapping[str, str]


@dataclass(slots=True)
class Connector:
    """What the topic of configs says about one connector."""

    name: str
    config: dict[str, str]
    target: Target = Target.STARTED
    tasks: list[dict[str, str]] = field(default_factory=list)


class State:
    """Connectors, statuses, offsets and levels of loggers."""

    def __init__(self) -> None:
        self.statuses: dict[str, Status] = {}
        self.task_statuses: dict[tuple[str, int], Status] = {}
        self.topics: dict[str, dict[str, TopicUse]] = {}
        self.offsets: dict[str, dict[str, dict[str, Any]]] = {}
        """By connector, and by partition as JSON."""
        self.levels: dict[str, str] = {}
        self.worker: tuple[int, str] = (0, "")
        """The generation and the id of the service that has taken over last."""
        self._configs: dict[str, dict[str, str]] = {}
        self._targets: dict[str, Target] = {}
        self._tasks: dict[str, list[dict[str, str]]] = {}
        self._new_tasks: dict[str, dict[int, dict[str, str]]] = {}

    @property
    def names(self) -> list[str]:
        """The names of all connectors."""
        return list(self._configs)

    @property
    def generation(self) -> int:
        """The highest generation of services that has written a status."""
        noted = (each.generation for each in (*self.statuses.values(), *self.task_statuses.values()))
        return max([self.worker[0], *noted])

    def find(self, name: str) -> Connector | None:
        """Return a connector; None if there is none of that name."""
        config = self._configs.get(name)
        if config is None:
            return None
        return Connector(name, config, self._targets.get(name, Target.STARTED), self._tasks.get(name, []))

    def task_statuses_of(self, name: str) -> dict[int, Status]:
        """Return the statuses of a connector's tasks."""
        return {task: status for (owner, task), status in sorted(self.task_statuses.items()) if owner == name}

    def replay(self, store: Store, key: bytes, value: bytes | None) -> None:
        """Take one record; raises ValueError for one that cannot be read. Records of other kinds are left alone."""
        content = None if value is None else json.loads(value)
        if content is not None and not isinstance(content, dict):
            raise ValueError(f"the value of {key!r} is not an object")
        try:
            if store is Store.CONFIGS:
                self._replay_config(key.decode(), content)
            elif store is Store.STATUSES:
                self._replay_status(key.decode(), content)
            else:
                self._replay_offset(json.loads(key), content)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"the record of {key!r} lacks what it needs: {error!r}") from None

    # --- configs

    def _replay_config(self, key: str, content: dict[str, Any] | None) -> None:
        if key.startswith(CONNECTOR):
            self._take_config(key.removeprefix(CONNECTOR), content)
        elif key.startswith(TARGET):
            self._take_target(key.removeprefix(TARGET), content)
        elif key.startswith(TASK):
            name, _, index = key.removeprefix(TASK).rpartition("-")
            if content is not None:
                self._new_tasks.setdefault(name, {})[int(index)] = _texts(content["properties"])
        elif key.startswith(COMMIT):
            self._commit_tasks(key.removeprefix(COMMIT), content)
        elif key.startswith(LOGGER) and content is not None:
            self.levels[key.removeprefix(LOGGER)] = str(content["level"])

    def _take_config(self, name: str, content: dict[str, Any] | None) -> None:
        if content is None:
            for known in (self._configs, self._tasks, self._new_tasks):
                known.pop(name, None)
        else:
            self._configs[name] = _texts(content["properties"])

    def _take_target(self, name: str, content: dict[str, Any] | None) -> None:
        if content is None:
            self._targets.pop(name, None)
        else:
            self._targets[name] = Target(content.get("state.v2") or content["state"])

    def _commit_tasks(self, name: str, content: dict[str, Any] | None) -> None:
        """Make the tasks count that were written before. If some are missing, compaction or a failure has torn them."""
        count = 0 if content is None else int(content["tasks"])
        found = {**dict(enumerate(self._tasks.get(name, []))), **self._new_tasks.pop(name, {})}
        if all(index in found for index in range(count)):
            self._tasks[name] = [found[index] for index in range(count)]

    # --- statuses and offsets

    def _replay_status(self, key: str, content: dict[str, Any] | None) -> None:
        if key == WORKER and content is not None:
            self.worker = int(content["generation"]), str(content["worker_id"])
        elif key.startswith(CONNECTOR_STATUS):
            _set(self.statuses, key.removeprefix(CONNECTOR_STATUS), content and _status(content))
        elif key.startswith(TASK_STATUS):
            name, _, index = key.removeprefix(TASK_STATUS).rpartition("-")
            _set(self.task_statuses, (name, int(index)), content and _status(content))
        elif key.startswith(TOPIC):
            topic, _, name = key.removeprefix(TOPIC).rpartition(TOPIC_OF)
            _set(self.topics.setdefault(name, {}), topic, content and _topic_use(content["topic"]))

    def _replay_offset(self, key: Any, content: dict[str, Any] | None) -> None:
        name, partition = key
        found = self.offsets.setdefault(name, {})
        _set(found, json.dumps(partition, sort_keys=True), content)


def _set(known: dict[Any, Any], key: Any, value: Any) -> None:
    if value is None:
        known.pop(key, None)
    else:
        known[key] = value


def _texts(properties: Mapping[str, Any]) -> dict[str, str]:
    return {str(name): str(value) for name, value in properties.items() if value is not None}


def _status(content: Mapping[str, Any]) -> Status:
    return Status(
        Phase(content["state"]), str(content["worker_id"]), int(content["generation"]), content.get("trace") or None
    )


def _topic_use(about: Mapping[str, Any]) -> TopicUse:
    return TopicUse(str(about["name"]), str(about["connector"]), int(about["task"]), int(about["discoverTimestamp"]))

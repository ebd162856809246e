"""The cluster image, kept up to date with the metadata store.

`commit` translates records into one group of store operations, each conditional on the version of
the node from which the image was built. The changes come back from the store, whether this broker or
another one made them, and only then does the image replay them. So a restart, which replays the whole
store, uses the same code as live changes.
"""

from collections.abc import Callable, Sequence

from tailrace.base.limits import RECORDS_PER_COMMIT_MAX
from tailrace.coordination.layout import (
    CONTROLLER,
    TOPIC_IDS,
    admitted_path,
    broker_path,
    config_path,
    node_of,
    partition_path,
    record_of,
    topic_id_node,
    topic_id_path,
    topic_paths,
)
from tailrace.coordination.security_layout import acl_path, token_path
from tailrace.coordination.store import Change, Check, Create, Delete, MetadataStore, Operation, Put
from tailrace.machines.controller.image import ClusterImage
from tailrace.machines.controller.record import (
    BrokerForgotten,
    BrokerRecord,
    BrokerRemoved,
    ConfigKind,
    ConfigRecord,
    ControllerRecord,
    ControllerRemoved,
    PartitionRecord,
    PartitionRemoved,
    Record,
    TopicHidden,
    TopicRecord,
    TopicRemoved,
)
from tailrace.machines.controller.security_record import AclRecord, TokenRemoved

Listener = Callable[[Sequence[Record]], None]


class ClusterMetadata:
    """The cluster image, the metadata store that holds it, and the listeners for changes."""

    def __init__(self, store: MetadataStore) -> None:
        self.store = store
        self.image = ClusterImage()
        self._versions: dict[str, int] = {}
        self._listeners: list[Listener] = []

    async def load(self) -> None:
        """Replay the stored nodes, then watch for changes."""
        nodes = await self.store.tree("/")
        # Parents sort before children, so a topic is replayed before its partitions. There is no await before the
        # watch, so no change is missed.
        self._replay([Change(path, nodes[path]) for path in sorted(nodes)])
        self.store.watch(self._on_changes)

    def listen(self, listener: Listener) -> None:
        """Call `listener` after each group of records has been replayed."""
        self._listeners.append(listener)

    async def commit(self, records: Sequence[Record], guards: Sequence[Operation] = ()) -> None:
        """Write `records`, all or none, if the `guards` hold too.

        The records are written only if the image was up to date when this was called, and only to the topics that it
        has, not to later ones of the same names; otherwise the error of the store is raised.
        """
        operations = [operation for record in records for operation in self._operations(record)]
        if operations:
            await self.store.commit([*guards, *self._topic_guards(records), *operations])

    def admission_guard(self, broker_id: int) -> Operation:
        """Return an operation that makes a commit fail if the admission of a broker differs from the image."""
        return Check(admitted_path(broker_id), self._versions.get(admitted_path(broker_id), 0))

    async def mend_topic_ids(self, guard: Operation) -> None:
        """Create the nodes of topic ids that are missing, and remove those without a topic, if the guard holds.

        Brokers of earlier versions neither create nor remove them.
        """
        image = self.image
        missing = [topic for topic in image.topics.values() if topic_id_path(topic.topic_id) not in self._versions]
        ids = {topic_id_path(topic.topic_id) for topic in (*image.topics.values(), *image.hidden.values())}
        left = [path for path in self._versions if path.startswith(f"{TOPIC_IDS}/") and path not in ids]
        operations: list[Operation] = [Create(*topic_id_node(topic.topic_id, topic.name)) for topic in missing]
        operations += self._deletions(left)
        for start in range(0, len(operations), RECORDS_PER_COMMIT_MAX):
            await self.store.commit([guard, *operations[start : start + RECORDS_PER_COMMIT_MAX]])

    def _topic_guards(self, records: Sequence[Record]) -> list[Operation]:
        """Return operations that make a commit fail if a topic that it changes is not the one in the image any more.

        The version of a node does not tell: if the topic is deleted and another one created with its name, the nodes of
        the new topic have the versions that those of the old one had.
        """
        names: dict[str, None] = {}
        for record in records:
            match record:
                case TopicRecord(name) | PartitionRecord(name) | ConfigRecord(ConfigKind.TOPIC, name):
                    names[name] = None
        topics = [self.image.topics[name] for name in names if name in self.image.topics]
        paths = [topic_id_path(topic.topic_id) for topic in topics]
        return [Check(path, self._versions[path]) for path in paths if path in self._versions]

    def _operations(self, record: Record) -> list[Operation]:
        match record:
            case TopicRemoved(name):
                return self._deletions(self._topic_paths(name))
            case PartitionRemoved(name, partition):
                path = partition_path(name, partition)
                return [Delete(path, self._versions[path], is_with_place=True)] if path in self._versions else []
            case BrokerRemoved(broker_id):
                return self._deletions([broker_path(broker_id)])
            case BrokerForgotten(broker_id):
                return self._deletions([admitted_path(broker_id)])
            case ControllerRemoved():
                return self._deletions([CONTROLLER])
            case AclRecord(pattern, entries) if not entries:
                return self._deletions([acl_path(pattern)])
            case TokenRemoved(token_id):
                return self._deletions([token_path(token_id)])
            case ConfigRecord(ConfigKind.USER_CLIENT):
                return self._user_client_operations(record)
            case ConfigRecord(ConfigKind.USER, name, values) if not values and self._has_clients(name):
                pass  # the node remains, without configs
            case ConfigRecord(kind, name, values) if not values:
                return self._deletions([config_path(kind, name)])
        path, value = node_of(record)
        written = [self._write(path, value, is_ephemeral=isinstance(record, BrokerRecord | ControllerRecord))]
        if isinstance(record, TopicRecord) and topic_id_path(record.topic_id) not in self._versions:
            written.append(Create(*topic_id_node(record.topic_id, record.name)))
        return written

    def _write(self, path: str, value: bytes, *, is_ephemeral: bool = False) -> Operation:
        version = self._versions.get(path)
        return Create(path, value, is_ephemeral) if version is None else Put(path, value, version)

    def _user_client_operations(self, record: ConfigRecord) -> list[Operation]:
        """Write the configs of a client of a user.

        The node of the user exists as long as one of a client of the user does, without configs if it must be. The
        store cannot create a node above others.
        """
        user = record.name.partition("/")[0]
        path, value = node_of(record)
        above, nothing = node_of(ConfigRecord(ConfigKind.USER, user, {}))
        if record.values:
            guard = Check(above, self._versions[above]) if above in self._versions else Create(above, nothing)
            return [guard, self._write(path, value)]
        if path not in self._versions:
            return []
        is_last = not self.image.config(ConfigKind.USER, user) and not self._has_clients(user, apart_from=path)
        removal = Delete(path, self._versions[path], is_with_place=True)
        return [removal, *(self._deletions([above]) if is_last else [])]

    def _has_clients(self, user: str, apart_from: str = "") -> bool:
        """Whether there are nodes of clients of a user."""
        folder = f"{config_path(ConfigKind.USER, user)}/clients/"
        return any(path.startswith(folder) for path in self._versions if path != apart_from)

    def _topic_paths(self, name: str) -> list[str]:
        topic = self.image.topics.get(name) or self.image.hidden[name]
        return topic_paths(name, topic.topic_id, (*topic.leadership, *topic.coming))

    def _deletions(self, paths: Sequence[str]) -> list[Operation]:
        return [Delete(path, self._versions[path]) for path in paths if path in self._versions]

    def _on_changes(self, changes: Sequence[Change]) -> None:
        records = self._replay(changes)
        for listener in self._listeners:
            listener(records)

    def _replay(self, changes: Sequence[Change]) -> list[Record]:
        records: list[Record] = []
        for change in changes:
            if change.node is None:
                self._versions.pop(change.path, None)
            else:
                self._versions[change.path] = change.node.version
            if (record := record_of(change)) is not None:
                records += self._take_in(record)
        return records

    def _take_in(self, record: Record) -> list[Record]:
        """Replay a record and return the records for listeners, which do not see hidden topics."""
        topics = self.image.topics
        match record:
            case TopicRecord(name, topic_id):
                known = topics.get(name)
                before = set(known.leadership) if known is not None and known.topic_id == topic_id else set()
                self.image.replay(record)
                return [record, *(state for index, state in topics[name].leadership.items() if index not in before)]
            case TopicHidden(name):
                gone: list[Record] = [TopicRemoved(name)] if name in topics else []
                self.image.replay(record)
                return [*gone, record]
            case PartitionRecord(topic=name, partition=partition):
                self.image.replay(record)
                return [record] if name in topics and partition < topics[name].partition_count else []
        self.image.replay(record)
        return [] if isinstance(record, PartitionRemoved) else [record]

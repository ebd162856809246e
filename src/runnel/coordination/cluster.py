"""The cluster image kept true to the metadata store.

Decisions go down as records: `commit` turns them into one group of store operations, each
conditional on the version of the node that the image was built from. They come back as
changes, from this broker or from another, and only then does the image replay them; so
a restart, which replays the whole store, takes the same road as live traffic.
"""

from collections.abc import Callable, Sequence

from runnel.coordination.layout import (
    CONTROLLER,
    admitted_path,
    broker_path,
    config_path,
    node_of,
    partition_path,
    record_of,
    topic_path,
)
from runnel.coordination.store import Change, Check, Create, Delete, MetadataStore, Operation, Put
from runnel.machines.controller.image import ClusterImage
from runnel.machines.controller.record import (
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

Listener = Callable[[Sequence[Record]], None]


class ClusterMetadata:
    """An image, the store behind it, and those who want to know of changes."""

    def __init__(self, store: MetadataStore) -> None:
        self.store = store
        self.image = ClusterImage()
        self._versions: dict[str, int] = {}
        self._listeners: list[Listener] = []

    async def load(self) -> None:
        """Replay what is stored, then follow changes."""
        nodes = await self.store.tree("/")
        # Parents sort before children, so a topic is there before its partitions. Nothing is awaited before the watch,
        # so no change is missed.
        self._replay([Change(path, nodes[path]) for path in sorted(nodes)])
        self.store.watch(self._on_changes)

    def listen(self, listener: Listener) -> None:
        """Call `listener` after each group of records has been replayed."""
        self._listeners.append(listener)

    async def commit(self, records: Sequence[Record], guards: Sequence[Operation] = ()) -> None:
        """Make `records` true, all or none, if the `guards` hold too.

        What was decided on the image as it is when this is called is written only onto that image; raises what the
        store raises when it was out of date.
        """
        operations = [operation for record in records for operation in self._operations(record)]
        if operations:
            await self.store.commit([*guards, *operations])

    def admission_guard(self, broker_id: int) -> Operation:
        """What makes a commit fail once the admission of a broker is another than the image says."""
        return Check(admitted_path(broker_id), self._versions.get(admitted_path(broker_id), 0))

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
            case ConfigRecord(kind, name, values) if not values:
                return self._deletions([config_path(kind, name)])
        path, value = node_of(record)
        version = self._versions.get(path)
        if version is None:
            return [Create(path, value, is_ephemeral=isinstance(record, BrokerRecord | ControllerRecord))]
        return [Put(path, value, version)]

    def _topic_paths(self, name: str) -> list[str]:
        topic = self.image.topics.get(name) or self.image.hidden[name]
        partitions = [partition_path(name, partition) for partition in (*topic.leadership, *topic.coming)]
        # Children before their parent, as ZooKeeper demands.
        return [*partitions, topic_path(name), config_path(ConfigKind.TOPIC, name)]

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
        """Replay a record; what listeners hear of it, to whom a topic that nobody sees is none."""
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

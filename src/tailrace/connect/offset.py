"""The offsets of connectors: how far each one has come, in the words of Kafka Connect.

The checkpoints are the truth as soon as a connector has one. Before that, it starts where Kafka Connect would: a sink
at the committed offsets of its consumer group, and a FileStream source at its position in the topic of offsets. Both
are kept up to date, for other tools and for a Kafka Connect cluster that takes over.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tailrace.aio import Admin
from tailrace.client.error import ClientError
from tailrace.client.topic_partition import TopicPartition
from tailrace.connect.core.error import ConnectError
from tailrace.connect.core.record import Row, offset_row
from tailrace.connect.core.state import Connector
from tailrace.connect.folder import ConnectorFolder
from tailrace.connect.offset_request import FILE_PARTITION, read_file_offset, read_sink_offset
from tailrace.connect.plugin.base import Kind, Plugin, Translation
from tailrace.connect.store import ConnectStore
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.spark.error import PipelineError, SparkSourceError
from tailrace.spark.pipeline.checkpoint import Progress, read_progress, read_unfinished
from tailrace.spark.pipeline.left_open import end_abandoned
from tailrace.spark.pipeline.run_lock import find_runner
from tailrace.spark.position import Offsets

_log = logging.getLogger(__name__)

_EARLIEST = -2
_LATEST = -1
_NO_TOPIC = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_FILE_SOURCE = "FileStreamSourceConnector"
_NAMES = {_FILE_SOURCE: (FILE_PARTITION, "file"), "PostgresConnector": ("server", "topic.prefix")}
"""By plugin: what Kafka Connect calls the partition of a source, and the setting that names it."""
_PLACES = {"topic": "name", "lines": "path", "jdbc": "table", "postgres": "table"}
"""By connector of pipelines: the argument that names the file, topics or table of the positions in a checkpoint."""

Write = Callable[[Iterable[Row]], None]


def group_of(connector: str) -> str:
    """Return the consumer group that shows the progress of a sink."""
    return f"connect-{connector}"


class OffsetDesk:
    """Reads, repeats, alters and forgets offsets. `write` takes records for the topic of offsets that may be late."""

    def __init__(self, store: ConnectStore, client: Mapping[str, str], data: Path, write: Write) -> None:
        self._store = store
        self._client = dict(client)
        self._data = data
        self._write = write

    def note(self, connector: Connector, plugin: Plugin | None) -> None:
        """Repeat in the topic how far a source has come."""
        if plugin is None or plugin.kind is not Kind.SOURCE:
            return
        known = self._known(connector)
        found = [(each["partition"], each["offset"]) for each in self._of_source(connector, plugin)]
        self._write(
            offset_row(connector.name, partition, offset)
            for partition, offset in found
            if known.get(json.dumps(partition, sort_keys=True)) != offset
        )

    async def read(self, connector: Connector, plugin: Plugin | None) -> list[dict[str, Any]]:
        """Return how far a connector has come."""
        if plugin is not None and plugin.kind is Kind.SINK:
            return [
                {
                    "partition": {"kafka_partition": partition, "kafka_topic": topic},
                    "offset": {"kafka_offset": offset},
                }
                for (topic, partition), offset in sorted((await self._of_sink(connector.name)).items())
            ]
        if plugin is not None and (found := self._of_source(connector, plugin)):
            return found
        return [
            {"partition": json.loads(partition), "offset": offset}
            for partition, offset in self._known(connector).items()
        ]

    async def reset(self, connector: Connector, plugin: Plugin | None) -> None:
        """Let a connector start anew."""
        if plugin is not None and plugin.kind is Kind.SINK:
            async with Admin(config=self._client) as admin:
                committed = await admin.list_group_offsets(group_of(connector.name))
                if committed:
                    _check_existing(await admin.delete_group_offsets(group_of(connector.name), committed))
        else:
            known = self._known(connector)
            await self._store.append([offset_row(connector.name, json.loads(each), None) for each in known])
        await self.forget_progress(connector.name)

    async def alter(self, connector: Connector, plugin: Plugin | None, offsets: Sequence[Mapping[str, Any]]) -> None:
        """Let a connector go on at other offsets. An offset of None means the start of its partition."""
        if plugin is not None and plugin.kind is Kind.SINK:
            await self._alter_sink(connector.name, dict(map(read_sink_offset, offsets)))
        elif plugin is not None and plugin.simple_name == _FILE_SOURCE:
            wanted = map(read_file_offset, offsets)
            await self._store.append([offset_row(connector.name, *each) for each in wanted])
        else:
            raise ConnectError(
                400,
                f"The offsets of connector {connector.name} cannot be altered. They can be reset by issuing a 'DELETE' "
                f"request to the '/connectors/{connector.name}/offsets' endpoint",
            )
        await self.forget_progress(connector.name)

    async def forget_progress(self, name: str, flow: str = "") -> None:
        """Remove the checkpoint of one flow, or of all flows of a connector whose application has ended.

        What a flow has left open in a topic is ended first, because nothing would end it after that. Raises
        `ClientError` if the brokers cannot be asked.
        """
        folder = ConnectorFolder(self._data, name)
        written = folder.read_pipeline()
        left = [
            checkpoint
            for checkpoint in folder.flows()
            if flow in ("", checkpoint.name)
            and written.get(checkpoint.name, {}).get("sink", {}).get("connector") == "topic"
        ]
        try:
            await asyncio.to_thread(end_abandoned, left, self._client)
        except SparkSourceError as error:
            raise ClientError(str(error)) from error
        folder.forget_progress(flow)

    async def started(self, connector: Connector, translation: Translation) -> list[dict[str, Any]]:
        """Return the flows of a connector, with where they start if they have no checkpoint yet."""
        folder = ConnectorFolder(self._data, connector.name)
        await self._leave_sources(connector.name, folder, translation.documents)
        found = []
        for document in translation.documents:
            source = dict(document["source"])
            if folder.has_progress(document["name"]):
                pass
            elif source.get("connector") == "topic":
                source |= await self._start_of_topics(connector.name, source)
            elif source.get("connector") == "lines":
                partition = json.dumps({FILE_PARTITION: source["path"]}, sort_keys=True)
                source |= {"start": int(self._known(connector).get(partition, {}).get("position", 0))}
            found.append({**document, "source": source})
        return found

    async def _leave_sources(self, name: str, folder: ConnectorFolder, documents: Iterable[Mapping[str, Any]]) -> None:
        """Move the progress of flows whose source has changed from their checkpoints to the brokers.

        The positions in a checkpoint are those in one file or in certain topics; Spark would use them for others, too.
        """
        new = {document["name"]: _place(document) for document in documents}
        for flow, document in folder.read_pipeline().items():
            place = _place(document)
            is_left = new[flow] != place if flow in new else place[0] == "topic"
            if not is_left or not folder.has_progress(flow):
                continue
            if (runner := find_runner(folder.checkpoints)) is not None:
                raise OSError(f"process {runner} of an earlier service has not ended yet")
            progress = _read_progress(folder.checkpoints / flow)
            _warn_of_unfinished(name, flow, folder.checkpoints / flow)
            if progress is not None and progress.position:
                async with Admin(config=self._client) as admin:
                    _check_existing(await admin.alter_group_offsets(group_of(name), progress.position))
            elif progress is not None and place[0] == "lines":
                rows = [offset_row(name, {FILE_PARTITION: place[1]}, each) for each in progress.sources if each]
                await self._store.append(rows)
            await self.forget_progress(name, flow)

    # --- sinks

    async def _of_sink(self, name: str) -> Offsets:
        position: Offsets = {}
        for checkpoint in ConnectorFolder(self._data, name).flows():
            progress = read_progress(checkpoint)
            position |= {} if progress is None else progress.position
        return position or await self._committed(name)

    async def _committed(self, name: str) -> Offsets:
        async with Admin(config=self._client) as admin:
            found = await admin.list_group_offsets(group_of(name))
        return {partition: committed.offset for partition, committed in found.items()}

    async def _alter_sink(self, name: str, wanted: Mapping[TopicPartition, int | None]) -> None:
        counts = await self._count_partitions({each.topic for each in wanted})
        for each in wanted:
            if not 0 <= each.partition < counts.get(each.topic, 0):
                raise ConnectError(400, f"There is no partition {each}, whose offset was to be altered")
        position = {**await self._of_sink(name), **wanted}
        kept = {partition: offset for partition, offset in position.items() if offset is not None}
        async with Admin(config=self._client) as admin:
            if kept:
                _check(await admin.alter_group_offsets(group_of(name), kept))
            gone = [each for each in await admin.list_group_offsets(group_of(name)) if each not in kept]
            if gone:
                _check_existing(await admin.delete_group_offsets(group_of(name), gone))

    async def _start_of_topics(self, name: str, source: Mapping[str, Any]) -> dict[str, str]:
        """Return the start of a source of topics at the committed offsets; nothing if there are none."""
        named = source.get("name")
        topics = {named} if isinstance(named, str) else set(named or ())
        committed = {each: offset for each, offset in (await self._committed(name)).items() if each.topic in topics}
        if not committed:
            return {}
        counts = await self._count_partitions(topics)
        if topics - counts.keys():
            # The offsets are for all partitions or none, so a topic that is created later has to be waited for.
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {min(topics - counts.keys())}")
        other = _LATEST if source.get("start") == "latest" else _EARLIEST
        start = {
            topic: {str(index): committed.get(TopicPartition(topic, index), other) for index in range(count)}
            for topic, count in sorted(counts.items())
        }
        return {"start": json.dumps(start)}

    async def _count_partitions(self, topics: set[str]) -> dict[str, int]:
        async with Admin(config=self._client) as admin:
            found = await admin.describe_topics(topics)
        return {name: len(topic.partitions) for name, topic in found.items() if not isinstance(topic, ApiError)}

    # --- sources

    def _known(self, connector: Connector) -> dict[str, dict[str, Any]]:
        return self._store.state.offsets.get(connector.name, {})

    def _of_source(self, connector: Connector, plugin: Plugin) -> list[dict[str, Any]]:
        found = []
        folder = ConnectorFolder(self._data, connector.name)
        written = folder.read_pipeline()
        for checkpoint in folder.flows():
            progress = _read_progress(checkpoint)
            for offset in () if progress is None else progress.sources:
                if offset is not None:
                    partition = _partition(connector, plugin, checkpoint.name, written)
                    found.append({"partition": partition, "offset": _as_mapping(offset)})
        return found


def _check(outcomes: Mapping[TopicPartition, ApiError | None]) -> None:
    for error in outcomes.values():
        if error is not None:
            raise error


def _check_existing(outcomes: Mapping[TopicPartition, ApiError | None]) -> None:
    """Raise the first error, except for topics that have been deleted: nothing reads them any more."""
    _check({each: error for each, error in outcomes.items() if error is None or error.code is not _NO_TOPIC})


def _place(document: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the kind of a flow's source, and what its positions are positions of."""
    source = document["source"]
    kind = str(source.get("connector", ""))
    place = source.get(_PLACES.get(kind, ""))
    return kind, sorted([place] if isinstance(place, str) else place or ()) if kind == "topic" else place


def _read_progress(checkpoint: Path) -> Progress | None:
    try:
        return read_progress(checkpoint)
    except PipelineError:
        return None  # it is being written


def _warn_of_unfinished(connector: str, flow: str, checkpoint: Path) -> None:
    """Log which records a sink may get twice: only the checkpoint, which is removed, tells it that a batch comes again.

    A flow that has failed always has such a batch, and finishing it could fail again. So it is left as it is.
    """
    try:
        batch = read_unfinished(checkpoint)
    except PipelineError:
        return
    if batch is None or not batch.end:
        return
    ranges = ", ".join(f"{each} offsets {batch.start.get(each, 0)} to {end - 1}" for each, end in batch.end.items())
    _log.warning(
        "connector %s: its topics have changed before batch %d of flow %s was finished; the sink gets these records "
        "again if they are still read, and may have written them before: %s",
        connector,
        batch.batch_id,
        flow,
        ranges,
    )


def _partition(
    connector: Connector, plugin: Plugin, flow: str, written: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    if plugin.simple_name == _FILE_SOURCE and flow in written:
        return {FILE_PARTITION: written[flow]["source"]["path"]}  # the file of the checkpoint, not that of a new config
    name, setting = _NAMES.get(plugin.simple_name, ("flow", ""))
    return {name: connector.config.get(setting, flow)}


def _as_mapping(offset: Any) -> dict[str, Any]:
    return offset if isinstance(offset, dict) else {"offset": offset}

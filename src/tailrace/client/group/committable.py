"""The arguments of commits: a record, a batch of records, or offsets by partition."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, Union

from tailrace.client.fetch.record import ConsumerRecord
from tailrace.client.group.offset import GroupMetadata, OffsetAndMetadata
from tailrace.client.topic_partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

Committable: TypeAlias = Union[ConsumerRecord, "pa.RecordBatch", Mapping[Any, int | OffsetAndMetadata]]
LastBatch: TypeAlias = tuple[object, TopicPartition, int]

_KINDS = "commit a record, a batch, or a mapping from (topic, partition) to the next offset"
_PLACE_COLUMNS = ("topic", "partition", "offset")


def read_offsets(
    what: Any, positions: Mapping[TopicPartition, OffsetAndMetadata], last_batch: LastBatch | None
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the offsets that an argument means: after a record, after a batch, or as given."""
    if isinstance(what, ConsumerRecord):
        return _with_epoch(TopicPartition(what.topic, what.partition), what.offset + 1, positions)
    if isinstance(what, Mapping):
        return {_target(target): _offset(target, offset) for target, offset in what.items()}
    if last_batch is not None and what is last_batch[0]:
        return _with_epoch(last_batch[1], last_batch[2], positions)
    if hasattr(what, "schema") and hasattr(what, "num_rows"):
        return _behind_batch(what, positions)
    raise TypeError(f"{type(what).__name__} cannot be committed; {_KINDS}")


class GroupReader(Protocol):
    """A consumer whose offsets a producer commits in its transaction."""

    def offsets_to_send(self, what: Any) -> tuple[dict[TopicPartition, OffsetAndMetadata], GroupMetadata]:
        """Return the offsets, and the group metadata of the member that has read them."""


def read_group_offsets(what: Any, group: Any) -> tuple[dict[TopicPartition, OffsetAndMetadata], GroupMetadata]:
    """Return the offsets and the group that arguments of `send_offsets` mean."""
    if isinstance(group, GroupMetadata):
        return read_offsets(what, {}, None), group
    reader: GroupReader | None = getattr(group, "_core", None)
    if reader is None or not hasattr(reader, "offsets_to_send"):
        raise TypeError(f"{type(group).__name__} is neither a consumer nor group metadata (consumer.group_metadata())")
    return reader.offsets_to_send(what)


def _behind_batch(
    batch: Any, positions: Mapping[TopicPartition, OffsetAndMetadata]
) -> dict[TopicPartition, OffsetAndMetadata]:
    missing = [name for name in _PLACE_COLUMNS if name not in batch.schema.names]
    if missing:
        text = f"a batch without the column {missing[0]} can be committed only before the next one is read"
        raise ValueError(f"{text}; choose topic, partition and offset too, or call commit() without an argument")
    if not batch.num_rows:
        return {}
    topic, partition, offset = (batch.column(name)[batch.num_rows - 1].as_py() for name in _PLACE_COLUMNS)
    return _with_epoch(TopicPartition(topic, partition), offset + 1, positions)


def _with_epoch(
    target: TopicPartition, offset: int, positions: Mapping[TopicPartition, OffsetAndMetadata]
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return an offset with its leader epoch, which is known only for the last record that was returned."""
    known = positions.get(target)
    return {target: known if known is not None and known.offset == offset else OffsetAndMetadata(offset)}


def _target(target: Any) -> TopicPartition:
    if isinstance(target, tuple) and len(target) == 2 and isinstance(target[0], str) and isinstance(target[1], int):
        return TopicPartition(*target)
    raise TypeError(f"{target!r} is not a (topic, partition); {_KINDS}")


def _offset(target: Any, offset: Any) -> OffsetAndMetadata:
    found = offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset)
    if isinstance(found.offset, bool) or not isinstance(found.offset, int) or found.offset < 0:
        raise ValueError(f"{found.offset!r} is not an offset for {target}; {_KINDS}")
    return found

"""Producer state from the newest snapshot and the batches after it."""

import logging
from collections.abc import Sequence

from runnel.protocol.errors import ApiError
from runnel.storage.fs import FileSystem
from runnel.storage.producer_snapshot import load_newest_snapshot
from runnel.storage.producer_state import ProducerState
from runnel.storage.segment import Segment
from runnel.storage.transaction_index import TransactionIndex

logger = logging.getLogger(__name__)


def rebuild_producers(
    fs: FileSystem,
    directory: str,
    producers: ProducerState,
    segments: Sequence[Segment],
    *,
    start_offset: int,
    end_offset: int,
    now_ms: int,
    snapshots: Sequence[int] | None = None,
) -> None:
    """Bring `producers` to the state after the batches below `end_offset`, reading headers only where it must."""
    rebuilt = ProducerState(producers.expiration_ms)
    offset = load_newest_snapshot(
        fs, directory, rebuilt, first=start_offset, last=end_offset, now_ms=now_ms, offsets=snapshots
    )
    for number, segment in enumerate(segments):
        following = segments[number + 1].base_offset if number + 1 < len(segments) else end_offset
        if offset < following and segment.base_offset < end_offset:
            try:
                replay_segment(rebuilt, segment, offset, end_offset)
            except ApiError as error:
                # Flushed data that has gone bad is for a reader to hear of; it must not stop the start.
                logger.warning("producer state is incomplete: %s", error.message)
    producers.restore(rebuilt.entries.values())


def replay_segment(
    producers: ProducerState,
    segment: Segment,
    offset: int,
    end_offset: int,
    aborted: TransactionIndex | None = None,
) -> None:
    """Take in the batches of a segment in [offset, end_offset), and put into `aborted` what they abort."""
    for position, header in segment.headers_from(offset):
        if header.base_offset >= end_offset:
            return
        if header.producer_id >= 0 and header.base_offset >= offset:
            batch = segment.file.read_at(position, header.size_bytes) if header.is_control else b""
            transaction = producers.replay(header, header.base_offset, batch)
            if transaction is not None and aborted is not None:
                aborted.append(transaction)

"""The lookup of a log's aborted transactions, for `read_committed` consumers and for compaction."""

import logging
from collections.abc import Iterable, Sequence

from tailrace.protocol.errors import ApiError
from tailrace.storage.error import passing_over_shortage
from tailrace.storage.fs import FileSystem
from tailrace.storage.offset_index import CorruptIndex
from tailrace.storage.producer_replay import rebuild_producers, replay_segment
from tailrace.storage.producer_state import ProducerState
from tailrace.storage.segment.file import TRANSACTION_INDEX_SUFFIX
from tailrace.storage.segment.segment import Segment
from tailrace.storage.transaction_index import AbortedTransaction, TransactionIndex

logger = logging.getLogger(__name__)


def load_transaction_index(
    fs: FileSystem, directory: str, segments: Sequence[Segment], number: int, end_offset: int
) -> TransactionIndex:
    """Return the transaction index of a segment, rebuilt from the log if its file is invalid.

    `number` is the number of the segment, `end_offset` its end.
    """
    segment = segments[number]
    try:
        return segment.transaction_index
    except CorruptIndex as error:
        logger.warning("rebuilding %s: %s", segment.path(TRANSACTION_INDEX_SUFFIX), error)
    # No producer expires here: a transaction may have begun long ago.
    producers = ProducerState(expiration_ms=2**63)
    rebuild_producers(
        fs,
        directory,
        producers,
        segments[:number],
        end_offset=segment.base_offset,
        now_ms=0,
    )
    index = segment.reset_transaction_index()
    try:
        replay_segment(producers, segment, segment.base_offset, end_offset, index)
    except ApiError as corrupt:
        logger.warning("%s is incomplete: %s", segment.path(TRANSACTION_INDEX_SUFFIX), corrupt.message)
    if segment.is_sealed:
        # A disk that rejects writes can still be read.
        with passing_over_shortage():
            segment.write_transaction_index()
    return index


def find_aborted(indexes: Iterable[TransactionIndex], from_offset: int, up_to_offset: int) -> list[AbortedTransaction]:
    """Return the aborted transactions that overlap the range, from the indexes of its first and later segments."""
    found: list[AbortedTransaction] = []
    for index in indexes:
        more, is_complete = index.find(from_offset, up_to_offset)
        found += more
        if is_complete:
            break
    return found

"""Aborted transactions of a log, for readers of committed records and for compaction."""

import logging
from collections.abc import Iterable, Sequence

from runnel.protocol.errors import ApiError
from runnel.storage.error import passing_over_shortage
from runnel.storage.fs import FileSystem
from runnel.storage.offset_index import CorruptIndex
from runnel.storage.producer_replay import rebuild_producers, replay_segment
from runnel.storage.producer_state import ProducerState
from runnel.storage.segment import Segment
from runnel.storage.segment_file import TRANSACTION_INDEX_SUFFIX
from runnel.storage.transaction_index import AbortedTransaction, TransactionIndex

logger = logging.getLogger(__name__)


def load_transaction_index(
    fs: FileSystem, directory: str, segments: Sequence[Segment], number: int, end_offset: int
) -> TransactionIndex:
    """The transaction index of the segment of that number, made anew from the log if its file cannot be right.

    `end_offset` is where the segment ends.
    """
    segment = segments[number]
    try:
        return segment.transaction_index
    except CorruptIndex as error:
        logger.warning("%s is made anew: %s", segment.path(TRANSACTION_INDEX_SUFFIX), error)
    # Nobody expires here: a transaction may have begun long ago.
    producers = ProducerState(expiration_ms=2**63)
    rebuild_producers(
        fs,
        directory,
        producers,
        segments[:number],
        start_offset=segments[0].base_offset,
        end_offset=segment.base_offset,
        now_ms=0,
    )
    index = segment.reset_transaction_index()
    try:
        replay_segment(producers, segment, segment.base_offset, end_offset, index)
    except ApiError as corrupt:
        logger.warning("%s is incomplete: %s", segment.path(TRANSACTION_INDEX_SUFFIX), corrupt.message)
    if segment.is_sealed:
        # A disk that takes no writes can still be read from.
        with passing_over_shortage():
            segment.write_transaction_index()
    return index


def find_aborted(indexes: Iterable[TransactionIndex], from_offset: int, up_to_offset: int) -> list[AbortedTransaction]:
    """The aborted transactions that reach into the range, from the indexes of its segment and later ones."""
    found: list[AbortedTransaction] = []
    for index in indexes:
        more, is_complete = index.find(from_offset, up_to_offset)
        found += more
        if is_complete:
            break
    return found

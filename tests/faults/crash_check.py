"""Whether a log agrees with itself and with what its users were told.

Everything is compared with a plain scan of the segment files: reads at each offset, lookups by
time, leader epochs, producers, index files.
"""

from __future__ import annotations

import struct
from itertools import pairwise

from tests.faults.crash_ledger import Ledger, Sent, Violation, require, violate

from tailrace.protocol.errors import ApiError
from tailrace.records.batch import check_crc, read_header
from tailrace.records.record import read_batches, read_records
from tailrace.storage.fs import FileSystem
from tailrace.storage.log import Log
from tailrace.storage.producer_state import ProducerEntry, ProducerState
from tailrace.storage.segment.file import LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX

_LEFTOVER_SUFFIXES = (".tmp", ".deleted", ".cleaned", ".swap")


def scan(fs: FileSystem, log: Log) -> list[Sent]:
    """Every batch in the segment files, after a look at whether they can be one log.

    Compaction leaves gaps inside of segments, never between them: behind a segment with gaps a start
    takes one for Kafka's, so nothing may be lost there.
    """
    is_compacted = log.config.cleanup_policy_compact
    found: list[Sent] = []
    end_offset = log.segments[0].base_offset
    for segment in log.segments:
        path = segment.path(LOG_SUFFIX)
        data = fs.read_file(path) or b""
        require(len(data) == segment.size_bytes, f"{path} has {len(data)} bytes, not {segment.size_bytes}")
        require(segment.base_offset == end_offset, f"{path} after {end_offset}")
        end_offset = segment.base_offset
        position = 0
        while position < len(data):
            header = read_header(data, position)
            is_next = header.base_offset >= end_offset if is_compacted else header.base_offset == end_offset
            require(is_next, f"{path}: offset {header.base_offset} after {end_offset}")
            require(check_crc(data, position, header), f"{path}: a bad checksum at {position}")
            end_offset = header.next_offset
            found.append(Sent(data[position : position + header.size_bytes], header.base_offset, end_offset))
            position += header.size_bytes
    require(end_offset == log.log_end_offset, f"the log ends at {end_offset}, not {log.log_end_offset}")
    return found


def check_promise(log: Log, found: list[Sent], ledger: Ledger, *, is_lossy: bool) -> None:
    """Hold what is there against what was promised for a kill, or for a power loss if `is_lossy`."""
    if ledger.is_compacted:
        _check_sent_records(found, ledger, is_lossy=is_lossy)
    else:
        _check_sent_batches(found, ledger, is_lossy=is_lossy)
    start_offset = log.log_start_offset
    if ledger.is_vanishing:
        return
    require(start_offset <= ledger.start_offset, f"the log begins at {start_offset}, not {ledger.start_offset}")
    require(start_offset >= ledger.durable_start, f"deleted records are back: {start_offset} {ledger.durable_start}")
    promised_end = ledger.durable_end if is_lossy else ledger.end_offset
    if ledger.floor is not None:
        promised_end = min(promised_end, ledger.floor)
    require(log.log_end_offset >= promised_end, f"the log ends at {log.log_end_offset} before {promised_end}")
    if ledger.is_compacted:
        _check_newest(found, ledger, promised_end)
        return
    offsets = {sent.base_offset for sent in found}
    missing = [
        sent
        for sent in ledger.held
        if sent.next_offset > start_offset and sent.next_offset <= promised_end and sent.base_offset not in offsets
    ]
    require(not missing, f"lost: {missing}")


def _check_sent_batches(found: list[Sent], ledger: Ledger, *, is_lossy: bool) -> None:
    for sent in found:
        candidates = ledger.candidates(sent.base_offset, is_lossy=is_lossy)
        if all(sent.data != known.data for known in candidates):
            violate(f"nobody sent {sent}, but {candidates}")


def _check_sent_records(found: list[Sent], ledger: Ledger, *, is_lossy: bool) -> None:
    known = ledger.records(is_lossy=is_lossy)
    for sent in found:
        for record in sent.records:
            require(record in known.get(record.offset, ()), f"nobody sent {record}")


def _check_newest(found: list[Sent], ledger: Ledger, promised_end: int) -> None:
    """The newest record of each key is there, or a newer one; one that deletes its key may be gone."""
    newest = {record.key: record for sent in found if not sent.header.is_control for record in sent.records}
    for key, record in ledger.newest(promised_end).items():
        there = newest.get(key)
        is_kept = there is not None and there.offset >= record.offset
        require(is_kept or record.value is None, f"{key!r} is lost: {record}, there is {there}")


def check_live(fs: FileSystem, log: Log, ledger: Ledger) -> list[Sent]:
    """A log in use, between two calls, holds exactly what it acknowledged. Returns all that is in it."""
    found = scan(fs, log)
    visible = [sent for sent in found if sent.next_offset > log.log_start_offset]
    held = [sent for sent in ledger.held if sent.next_offset > log.log_start_offset]
    if ledger.is_compacted:
        check_promise(log, found, ledger, is_lossy=False)
    elif [sent.data for sent in visible] != [sent.data for sent in held]:
        violate(f"there is {visible}, told was {held}")
    check_consistent(fs, log, found)
    return found


def check_consistent(fs: FileSystem, log: Log, found: list[Sent]) -> None:
    """Everything that a log knows agrees with its batches, as `scan` found them."""
    visible = [sent for sent in found if sent.next_offset > log.log_start_offset]
    require(log.segments[0].base_offset <= log.log_start_offset <= log.log_end_offset, "the start is in the log")
    require(log.recovery_point <= log.log_end_offset, "the recovery point is in the log")
    _check_reads(log, visible)
    _check_times(log, visible)
    _check_epochs(log, visible)
    _check_producers(log, visible)
    _check_aborted(log, visible)
    _check_indexes(fs, log, found)


def check_files(fs: FileSystem, log: Log) -> None:
    """After a start nothing is in the folder that belongs to no segment."""
    names = [entry.name for entry in fs.list_directory(log.directory)]
    stray = [name for name in names if name.endswith(_LEFTOVER_SUFFIXES)]
    bases = {f"{segment.base_offset:020d}" for segment in log.segments}
    indexes = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, LOG_SUFFIX)
    stray += [name for name in names if name.endswith(indexes) and name.split(".")[0] not in bases]
    require(not stray, f"left over: {stray}")


def _check_reads(log: Log, visible: list[Sent]) -> None:
    for number, sent in enumerate(visible):
        size_bytes = (1, 100, 10_000)[number % 3]
        for offset in {max(sent.base_offset, log.log_start_offset), sent.next_offset - 1}:
            data = bytes(log.read(offset, size_bytes, log.log_end_offset, min_one_batch=True))
            batches = list(read_batches(data))
            require(batches, f"nothing at {offset}")
            for (position, header), expected in zip(batches, visible[number:], strict=False):
                stored = data[position : position + header.size_bytes]
                if stored != expected.data:
                    violate(f"read {header.base_offset} instead of {expected}")
    require(not log.read(log.log_end_offset, 1000, log.log_end_offset, min_one_batch=True), "something at the end")


def _check_times(log: Log, visible: list[Sent]) -> None:
    start_offset = log.log_start_offset
    records = [
        (record.timestamp, record.offset)
        for sent in visible
        for record in read_records(sent.data)
        if record.offset >= start_offset
    ]
    times = sorted({timestamp for timestamp, _ in records})
    asked = {0, *times[1:2], *times[-2:-1], *(time + 1 for time in times[-2:])}
    for time in asked:
        expected = next((record for record in records if record[0] >= time), None)
        answer = log.offset_for_timestamp(time)
        require((answer and tuple(answer[:2])) == expected, f"the first from {time} on is {expected}, not {answer}")
    newest = max(records, key=lambda record: (record[0], -record[1]), default=None)
    answer = log.max_timestamp_offset()
    require((answer and tuple(answer[:2])) == newest, f"the newest record is {newest}, not {answer}")


def _check_epochs(log: Log, visible: list[Sent]) -> None:
    expected: list[tuple[int, int]] = []
    for sent in visible:
        epoch = sent.header.partition_leader_epoch
        if not expected or expected[-1][0] != epoch:
            expected.append((epoch, max(sent.base_offset, log.log_start_offset)))
    if log.config.cleanup_policy_compact:
        # Nothing may be left of an epoch that the log still knows of.
        epochs = [(log.epochs.epoch_for(max(offset, log.log_start_offset)), offset) for _, offset in expected]
        require(epochs == expected, f"epochs {log.epochs.starts}, but the batches say {expected}")
        return
    starts = [(epoch, offset) for epoch, offset in log.epochs.starts if offset < log.log_end_offset]
    require(starts == expected, f"epochs {starts}, but the batches say {expected}")
    for (epoch, _), (_, following) in pairwise(expected):
        require(log.end_offset_for_epoch(epoch) == (epoch, following), f"the end of epoch {epoch}")


def _check_producers(log: Log, visible: list[Sent]) -> None:
    replayed = ProducerState(log.producers.expiration_ms)
    for sent in visible:
        if sent.base_offset >= log.log_start_offset:
            replayed.replay(sent.header, sent.base_offset, sent.data)
    for producer_id, entry in replayed.entries.items():
        known = log.producers.entries.get(producer_id)
        require(known is not None, f"producer {producer_id} is forgotten")
        if known is not None:
            _check_producer(log, known, entry)
    for producer_id, known in log.producers.entries.items():
        last_offset = known.batches[-1].last_offset if known.batches else -1
        is_gone = producer_id not in replayed.entries and last_offset >= log.log_start_offset
        # A batch in which the log begins is neither in the replay nor before it.
        is_compacted = log.config.cleanup_policy_compact and last_offset < log.log_end_offset
        is_cut = is_compacted or (bool(visible) and visible[0].base_offset <= last_offset < visible[0].next_offset)
        require(is_cut or not is_gone, f"producer {producer_id} is known up to {last_offset}, where nothing of it is")


def _check_aborted(log: Log, visible: list[Sent]) -> None:
    """Every transaction that begins and is aborted among the batches is known to readers of committed records."""
    if log.config.cleanup_policy_compact:
        return
    replayed = ProducerState(log.producers.expiration_ms)
    aborted = [replayed.replay(sent.header, sent.base_offset, sent.data) for sent in visible]
    known = log.aborted_transactions(log.log_start_offset, log.log_end_offset)
    for transaction in filter(None, aborted):
        is_known = any(transaction.last_offset == other.last_offset for other in known)
        require(is_known, f"{transaction} was aborted, but that is not among {known}")


def _check_producer(log: Log, known: ProducerEntry, entry: ProducerEntry) -> None:
    told = (known.producer_epoch, known.last_sequence, known.last_timestamp)
    # Compaction may have taken the batch's newest record.
    last_timestamp = known.last_timestamp if log.config.cleanup_policy_compact else entry.last_timestamp
    expected = (entry.producer_epoch, entry.last_sequence, last_timestamp)
    # Only a marker of it may be left, and the sequence is then known from before. So it is where compaction took a
    # batch for the sake of later ones that were cut away since.
    is_behind = log.config.cleanup_policy_compact and known.last_sequence > entry.last_sequence
    if entry.batches and not is_behind:
        require(told == expected, f"producer {entry.producer_id} is {told}, but the batches say {expected}")
        last, first = known.batches[-1], entry.batches[-1]
        # Kafka's snapshot has one timestamp a producer, that of its last marker if it ended with one.
        require(last[:4] == first[:4], f"producer {entry.producer_id} wrote {first} last, not {last}")
    is_open_before = known.current_txn_first_offset < log.log_start_offset
    if not (is_open_before and known.current_txn_first_offset >= 0):
        is_same = known.current_txn_first_offset == entry.current_txn_first_offset
        require(is_same, f"transaction of {entry.producer_id} since {known.current_txn_first_offset}")


def _check_indexes(fs: FileSystem, log: Log, found: list[Sent]) -> None:
    for segment in log.segments[:-1]:
        offset_data = fs.read_file(segment.path(OFFSET_INDEX_SUFFIX))
        time_data = fs.read_file(segment.path(TIME_INDEX_SUFFIX))
        if offset_data is None or time_data is None:
            continue  # made when it is wanted, and by the lookups above it was
        places = _places(found, segment.base_offset, segment.size_bytes)
        for relative_offset, position in struct.iter_unpack(">II", offset_data):
            offset = segment.base_offset + relative_offset
            require(places.get(position) == offset, f"{segment.path(OFFSET_INDEX_SUFFIX)}: {offset} at {position}")
        times = [time for time, _ in struct.iter_unpack(">qI", time_data)]
        newest = _newest(found, segment.base_offset, segment.size_bytes)
        is_right = (times[-1] if times else -1) == newest and times == sorted(set(times))
        require(is_right, f"{segment.path(TIME_INDEX_SUFFIX)} says {times}, the newest is {newest}")


def _places(found: list[Sent], base_offset: int, size_bytes: int) -> dict[int, int]:
    """The last offset of each batch of a segment by its position."""
    places: dict[int, int] = {}
    position = 0
    for sent in _of_segment(found, base_offset, size_bytes):
        places[position] = sent.next_offset - 1
        position += len(sent.data)
    return places


def _newest(found: list[Sent], base_offset: int, size_bytes: int) -> int:
    return max((sent.header.max_timestamp for sent in _of_segment(found, base_offset, size_bytes)), default=-1)


def _of_segment(found: list[Sent], base_offset: int, size_bytes: int) -> list[Sent]:
    chosen: list[Sent] = []
    for sent in found:
        if sent.base_offset >= base_offset and size_bytes > 0:
            chosen.append(sent)
            size_bytes -= len(sent.data)
    return chosen


def check_retries(log: Log, ledger: Ledger) -> None:
    """A producer that asks again is told where its last batch is; what comes next is taken, anything else is not."""
    seen: set[int] = set()
    for sent in reversed(ledger.held):
        header = sent.header
        if header.producer_id < 0 or header.is_control or header.producer_id in seen:
            continue
        seen.add(header.producer_id)
        if sent.base_offset < log.log_start_offset:
            continue
        try:
            duplicate = log.producers.check(header)
        except ApiError as error:
            raise Violation(f"a repetition of {sent} is refused: {error.message}") from error
        require(duplicate is not None, f"a repetition of {sent} would be stored again")
        require(duplicate and duplicate.base_offset == sent.base_offset, f"{sent} is said to be at {duplicate}")

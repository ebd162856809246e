"""A flipped bit anywhere in a segment: told to whoever reads that batch, and harmless for all other batches."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.unit.storage.workbench import Workbench

from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.records.batch import BatchHeader, check_crc, read_header
from tailrace.records.compression import Compression
from tailrace.records.record import read_batches, read_records
from tailrace.storage.log import Log
from tailrace.storage.log_config import LogConfig
from tailrace.storage.salvage import walk_stretches

EVERYTHING = 1 << 30
FIRST_LOG = "/data/t-0/00000000000000000000.log"
LEADER_EPOCH = range(12, 16)  # the bytes of a batch that nothing in the segment vouches for
COUNTS = (1, 3, 2, 1, 5, 1, 1, 4)


def write_log(bench: Workbench, config: LogConfig) -> Log:
    """Eight batches in the first segment and one in the second; a record's value is its offset."""
    log = bench.open(config)
    for number, count in enumerate((*COUNTS, 1)):
        if number == len(COUNTS):
            log.roll()
        offset = log.log_end_offset
        values = [b"%06d" % (offset + place) for place in range(count)]
        compression = Compression.GZIP if number == 4 else Compression.NONE
        data, header = bench.batch(*values, compression=compression)
        log.append(data, header, 0)
    return log


def flip(bench: Workbench, position: int, bit: int) -> None:
    file = bench.fs.open(FIRST_LOG)
    byte = file.read_at(position, 1)[0] ^ 1 << bit
    file.write_at(bytes([byte]), position)


def batches_of(bench: Workbench) -> list[tuple[int, BatchHeader]]:
    return list(read_batches(bench.contents("00000000000000000000.log")))


def read_one(log: Log, offset: int) -> bytes | None:
    """The value at an offset as a client gets it, or None for CORRUPT_MESSAGE from either side."""
    try:
        data = log.read(offset, 1, log.log_end_offset, min_one_batch=True)
        header = read_header(data)
    except ApiError as error:
        return None if error.code is ErrorCode.CORRUPT_MESSAGE else b"another error"
    if not check_crc(data, 0, header):
        return None
    (value,) = [record.value for record in read_records(data) if record.offset == offset]
    return value


@settings(max_examples=250, deadline=None)
@given(
    position=st.integers(0, 99_999),
    bit=st.integers(0, 7),
    interval=st.sampled_from([1, 100, 1 << 20]),
    is_reopened=st.booleans(),
)
@example(position=625, bit=0, interval=1, is_reopened=True)
@example(position=625, bit=0, interval=1, is_reopened=False)
@example(position=0, bit=6, interval=1 << 20, is_reopened=False)
@example(position=99_999, bit=0, interval=1, is_reopened=True)
def test_every_other_batch_is_served(position: int, bit: int, interval: int, is_reopened: bool) -> None:
    bench = Workbench()
    config = LogConfig(index_interval_bytes=interval)
    log = write_log(bench, config)
    batches = batches_of(bench)
    position %= log.segments[0].size_bytes
    start, header = next(found for found in reversed(batches) if found[0] <= position)
    if is_reopened:
        log.close()
        log = bench.open(config, recovery_point=log.log_end_offset, is_clean=True)
    flip(bench, position, bit)
    for offset in range(log.log_end_offset):
        expected = b"%06d" % offset
        if header.base_offset <= offset <= header.last_offset and position - start not in LEADER_EPOCH:
            assert read_one(log, offset) is None
        else:
            assert read_one(log, offset) == expected
    assert not bench.folder.is_offline


@settings(max_examples=150, deadline=None)
@given(position=st.integers(0, 99_999), bit=st.integers(0, 7))
def test_a_scan_finds_it_and_keeps_what_stands_before(position: int, bit: int) -> None:
    bench = Workbench()
    log = write_log(bench, LogConfig())
    batches = batches_of(bench)
    position %= log.segments[0].size_bytes
    start, header = next(found for found in reversed(batches) if found[0] <= position)
    flip(bench, position, bit)
    reopened = bench.open()
    if position - start in LEADER_EPOCH:
        assert reopened.log_end_offset == log.log_end_offset
        return
    is_last = start == batches[-1][0]
    if is_last and position - start < 8 and reopened.log_end_offset > header.base_offset:
        # A base offset that leaves a gap at the end of a segment is what compaction makes, too. The
        # segment behind it then seems to be missing a part, and goes; an empty one may begin there.
        assert [segment.base_offset for segment in reopened.segments[1:]] in ([], [reopened.log_end_offset])
        assert not any(segment.size_bytes for segment in reopened.segments[1:])
        return
    assert reopened.log_end_offset == header.base_offset
    assert [offset for offset, _ in bench.values(reopened)] == list(range(header.base_offset))


@pytest.mark.parametrize("field", [*range(12), 16, *range(17, 27)])
def test_each_header_byte_zeroed_or_filled(field: int) -> None:
    for value in (0x00, 0x7F, 0xFF):
        bench = Workbench()
        log = write_log(bench, LogConfig(index_interval_bytes=100))
        position, header = batches_of(bench)[4]
        file = bench.fs.open(FIRST_LOG)
        if file.read_at(position + field, 1) == bytes([value]):
            continue
        file.write_at(bytes([value]), position + field)
        served = [offset for offset in range(log.log_end_offset) if read_one(log, offset) is not None]
        damaged = range(header.base_offset, header.next_offset)
        assert served == [offset for offset in range(log.log_end_offset) if offset not in damaged]


def test_many_broken_bytes_are_one_stretch(bench: Workbench) -> None:
    log = write_log(bench, LogConfig())
    batches = batches_of(bench)
    start, end = batches[2][0] + 5, batches[6][0] + 30
    bench.fs.open(FIRST_LOG).write_at(b"\x02" * (end - start), start)
    segment = log.segments[0]
    stretches = list(walk_stretches(segment.file, 0, segment.size_bytes, 0, 0))
    assert [(stretch.position, stretch.is_good) for stretch in stretches] == [
        (batches[0][0], True),
        (batches[1][0], True),
        (batches[2][0], False),
        (batches[7][0], True),
    ]
    assert read_one(log, batches[7][1].base_offset) is not None
    assert read_one(log, batches[5][1].base_offset) is None


def test_a_tail_without_a_batch_is_corrupt_and_the_next_segment_is_not(bench: Workbench) -> None:
    log = write_log(bench, LogConfig())
    position, header = batches_of(bench)[-1]
    bench.fs.open(FIRST_LOG).write_at(b"\xff" * header.size_bytes, position)
    assert read_one(log, header.base_offset) is None
    assert read_one(log, header.next_offset) == b"%06d" % header.next_offset


def test_gaps_that_compaction_leaves_are_no_damage(bench: Workbench) -> None:
    log = write_log(bench, LogConfig(index_interval_bytes=100))
    log.close()
    contents, batches = bench.contents("00000000000000000000.log"), batches_of(bench)
    kept = [0, 3, 7]
    data = b"".join(contents[batches[n][0] : batches[n][0] + batches[n][1].size_bytes] for n in kept)
    bench.fs.write_file(FIRST_LOG, data)
    for suffix in ("index", "timeindex"):
        bench.fs.remove(f"/data/t-0/00000000000000000000.{suffix}")
    for clean in (True, False):
        reopened = bench.open(recovery_point=19 if clean else None, is_clean=clean)
        for offset in range(18):
            found = read_header(reopened.read(offset, 1, 19, min_one_batch=True))
            assert found.base_offset == next(b for b in (0, 6, 14, 18) if b + {14: 3}.get(b, 0) >= offset)

# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The parsing and writing of records in C, without a Python object for each record.

Every function here has a twin in Python, which defines its behaviour and is used if this module
was not built; tests compare the two. `read_record` stores pointers to a record's fields in a
struct: it is the only parser, and the included files use it.

| here | twin |
| --- | --- |
| `walk_records` below | walk.py |
| `fill_columns` in `_fill.pxi` | arrow/fill.py |
| `scan_plain_batches` in `_scan.pxi` | a shortcut in arrow/scan.py |
| `collect_schema_ids` in `_schema_id.pxi` | schema_id.py |
| `RowWriter` in `_row.pxi` | arrow/row.py |
| `hash_keys` and `group_rows` in `_partition.pxi` | arrow/partition.py |
| `write_tuples`, `read_tuples` and `hash_key` in `_tuple.pxi` | row_tuple.py, murmur2.py |
| `OffsetMap` in `_compact.pxi` | offset_map.py |
| `AvroReader` in `_avro.pxi` | arrow/avro_read.py |
| `write_avro` in `_avro_write.pxi` | arrow/avro_write.py |
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from libc.stdint cimport (
    INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t,
)
from libc.string cimport memcpy, memset

cdef enum:
    # The values of WalkError in walk.py.
    OK = 0
    TRUNCATED = 1
    BAD_VARINT = 2
    RECORD_SIZE = 3
    RECORD_SHORT = 4
    RECORD_LONG = 5
    TIMESTAMP = 6
    OFFSET_DELTA = 7
    FIELD_SIZE = 8
    HEADER_COUNT = 9
    HEADER_KEY = 10
    LEFTOVER = 11
    OFFSET_RANGE = 12
    TIMESTAMP_RANGE = 13

    # RECORD_ERRORS_PER_BATCH_MAX in limits.py.
    ERRORS_MAX = 64

    # Below this size, the walk takes less time than getting the GIL back may take.
    RELEASE_SIZE_BYTES = 32768

cdef int64_t NO_TIMESTAMP = -1


cdef struct Cursor:
    const uint8_t *at
    const uint8_t *end
    int error


cdef struct Field:
    const uint8_t *data
    int32_t size  # negative for null


cdef struct RecordFields:
    int64_t timestamp_delta
    int32_t offset_delta
    Field key
    Field value
    int32_t header_count
    const uint8_t *headers


cdef struct Summary:
    int64_t error_index
    int error
    int64_t max_timestamp
    int64_t max_timestamp_index
    int64_t min_timestamp
    int null_key_count
    int64_t null_keys[ERRORS_MAX]
    int bad_timestamp_count
    int64_t bad_timestamps[ERRORS_MAX]


cdef inline uint64_t read_raw(Cursor *cursor, int shift_max) noexcept nogil:
    cdef uint64_t raw = 0
    cdef uint8_t byte
    cdef int shift = 0
    while cursor.at < cursor.end:
        byte = cursor.at[0]
        cursor.at += 1
        raw |= (<uint64_t>(byte & 0x7F)) << shift
        if byte < 0x80:
            return raw
        shift += 7
        if shift > shift_max:
            cursor.error = BAD_VARINT
            return 0
    cursor.error = RECORD_SHORT
    return 0


cdef inline int32_t read_varint(Cursor *cursor) noexcept nogil:
    cdef uint32_t raw = <uint32_t>read_raw(cursor, 28)
    return <int32_t>((raw >> 1) ^ (0 - (raw & 1)))


cdef inline int64_t read_varlong(Cursor *cursor) noexcept nogil:
    cdef uint64_t raw = read_raw(cursor, 63)
    return <int64_t>((raw >> 1) ^ (0 - (raw & 1)))


cdef inline void read_field(Cursor *cursor, Field *field, int32_t size_min, int error) noexcept nogil:
    """Skip a length and its bytes; set `error` for a length below `size_min` or beyond the record."""
    cdef int32_t size = read_varint(cursor)
    if cursor.error:
        return
    if size < size_min or size > cursor.end - cursor.at:
        cursor.error = error
        return
    field.size = size
    field.data = cursor.at
    if size > 0:
        cursor.at += size


cdef inline void read_headers(Cursor *cursor, RecordFields *fields, int32_t null_size_min) noexcept nogil:
    cdef Field field
    cdef int32_t index
    fields.header_count = read_varint(cursor)
    if cursor.error:
        return
    if fields.header_count < 0 or fields.header_count > cursor.end - cursor.at:
        cursor.error = HEADER_COUNT
        return
    fields.headers = cursor.at
    for index in range(fields.header_count):
        read_field(cursor, &field, 0, HEADER_KEY)
        if cursor.error:
            return
        read_field(cursor, &field, null_size_min, FIELD_SIZE)
        if cursor.error:
            return


cdef inline void read_fields(Cursor *cursor, RecordFields *fields, int32_t null_size_min) noexcept nogil:
    if cursor.at == cursor.end:
        cursor.error = RECORD_SHORT
        return
    cursor.at += 1  # attributes; no bit is defined
    fields.timestamp_delta = read_varlong(cursor)
    if cursor.error:
        return
    fields.offset_delta = read_varint(cursor)
    if cursor.error:
        return
    read_field(cursor, &fields.key, null_size_min, FIELD_SIZE)
    if cursor.error:
        return
    read_field(cursor, &fields.value, null_size_min, FIELD_SIZE)
    if cursor.error:
        return
    read_headers(cursor, fields, null_size_min)
    if not cursor.error and cursor.at != cursor.end:
        cursor.error = RECORD_LONG


cdef inline int read_record(Cursor *body, RecordFields *fields, int32_t null_size_min) noexcept nogil:
    """Read the record at the cursor into `fields` and advance the cursor; return the error, if any.

    Negative lengths down to `null_size_min` mean null.
    """
    cdef Cursor record
    cdef int32_t size
    if body.at == body.end:
        return TRUNCATED
    size = read_varint(body)
    if body.error:
        return body.error
    if size < 0 or size > body.end - body.at:
        return RECORD_SIZE
    record.at = body.at
    record.end = body.at + size
    record.error = OK
    read_fields(&record, fields, null_size_min)
    body.at = record.end
    return record.error


cdef inline bint adds_up(int64_t base, int64_t delta) noexcept nogil:
    if delta > 0:
        return base <= INT64_MAX - delta
    return base >= INT64_MIN - delta


cdef inline void note_record(
    Summary *summary, RecordFields *fields, int64_t index, int64_t timestamp,
    int64_t timestamp_min, int64_t timestamp_max,
) noexcept nogil:
    if index == 0 or timestamp > summary.max_timestamp:
        summary.max_timestamp = timestamp
        summary.max_timestamp_index = index
    if index == 0 or timestamp < summary.min_timestamp:
        summary.min_timestamp = timestamp
    if fields.key.size < 0 and summary.null_key_count < ERRORS_MAX:
        summary.null_keys[summary.null_key_count] = index
        summary.null_key_count += 1
    if timestamp != NO_TIMESTAMP and (timestamp < timestamp_min or timestamp > timestamp_max):
        if summary.bad_timestamp_count < ERRORS_MAX:
            summary.bad_timestamps[summary.bad_timestamp_count] = index
            summary.bad_timestamp_count += 1


cdef void walk(
    Cursor *body, Summary *summary, int64_t count, int64_t base_timestamp,
    int64_t timestamp_min, int64_t timestamp_max,
) noexcept nogil:
    cdef RecordFields fields
    cdef int64_t index
    for index in range(count):
        summary.error = read_record(body, &fields, -1)
        if not summary.error and not adds_up(base_timestamp, fields.timestamp_delta):
            summary.error = TIMESTAMP
        if not summary.error and fields.offset_delta != index:
            summary.error = OFFSET_DELTA
        if summary.error:
            summary.error_index = index
            return
        note_record(summary, &fields, index, base_timestamp + fields.timestamp_delta, timestamp_min, timestamp_max)
    if body.at != body.end:
        summary.error = LEFTOVER
        summary.error_index = max(count, 0)


cdef tuple result_of(Summary *summary):
    cdef int index
    return (
        summary.error_index,
        summary.error,
        summary.max_timestamp,
        summary.max_timestamp_index,
        summary.min_timestamp,
        tuple([summary.null_keys[index] for index in range(summary.null_key_count)]),
        tuple([summary.bad_timestamps[index] for index in range(summary.bad_timestamp_count)]),
    )


def walk_records(
    buffer, Py_ssize_t position, Py_ssize_t end, int64_t count, int64_t base_timestamp,
    int64_t timestamp_min, int64_t timestamp_max,
):
    """See the twin `walk_records_python`."""
    cdef Py_buffer view
    cdef Cursor body
    cdef Summary summary
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        if not 0 <= position <= end <= view.len:
            raise ValueError("the records are not within the buffer")
        body.at = (<const uint8_t *>view.buf) + position
        body.end = (<const uint8_t *>view.buf) + end
        body.error = OK
        summary.error_index = -1
        summary.error = OK
        summary.max_timestamp = NO_TIMESTAMP
        summary.max_timestamp_index = -1
        summary.min_timestamp = NO_TIMESTAMP
        summary.null_key_count = 0
        summary.bad_timestamp_count = 0
        if end - position < RELEASE_SIZE_BYTES:
            walk(&body, &summary, count, base_timestamp, timestamp_min, timestamp_max)
        else:
            with nogil:
                walk(&body, &summary, count, base_timestamp, timestamp_min, timestamp_max)
        return result_of(&summary)
    finally:
        PyBuffer_Release(&view)


include "_pin.pxi"
include "_fill.pxi"
include "_scan.pxi"
include "_schema_id.pxi"
include "_row.pxi"
include "_partition.pxi"
include "_tuple.pxi"
include "_compact.pxi"
include "_avro.pxi"
include "_avro_write.pxi"

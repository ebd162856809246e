# The conversion of records from and to Python objects, one batch at a time; row_tuple.py holds the twins.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8

cdef object new_tuple = tuple.__new__


cdef inline int load_object(value, Field *field) except -1:
    """Set `field` to the bytes of an object, which must outlive it."""
    if value is None:
        field.size = -1
        field.data = NULL
        return 0
    if type(value) is not bytes:
        raise TypeError(f"a field is bytes or None, not {type(value).__name__}")
    if PyBytes_GET_SIZE(value) > RECORD_SIZE_MAX:
        raise ValueError("the record is larger than 2 GiB")
    field.size = <int32_t>PyBytes_GET_SIZE(value)
    field.data = <const uint8_t *>PyBytes_AS_STRING(value)
    return 0


cdef int64_t pairs_size(headers) except -1:
    cdef Field field
    cdef int64_t size = varint_size(len(headers))
    for name, value in headers:
        load_object(name, &field)
        size += field_size(&field)
        load_object(value, &field)
        size += field_size(&field)
    return size


cdef int64_t tuple_size(tuple row, int64_t index, int64_t base_timestamp) except -1:
    """Return the size of a record without its length prefix."""
    cdef Field field
    cdef int64_t size = 1 + varint_size(<int64_t>row[0] - base_timestamp) + varint_size(index)
    load_object(row[1], &field)
    size += field_size(&field)
    load_object(row[2], &field)
    size += field_size(&field)
    return size + pairs_size(row[3])


cdef uint8_t *write_tuple(uint8_t *at, tuple row, int64_t index, int64_t base_timestamp) except NULL:
    cdef Field field
    at[0] = 0  # attributes; no bit is defined
    at = write_varint(at + 1, <int64_t>row[0] - base_timestamp)
    at = write_varint(at, index)
    load_object(row[1], &field)
    at = write_field(at, &field)
    load_object(row[2], &field)
    at = write_field(at, &field)
    at = write_varint(at, len(row[3]))
    for name, value in row[3]:
        load_object(name, &field)
        at = write_field(at, &field)
        load_object(value, &field)
        at = write_field(at, &field)
    return at


def write_tuples(list rows, int64_t prefix_size):
    """See the twin `write_tuples_python`.

    The sizes of the first pass are valid in the second: the tuples, bytes and list do not change, because
    no other thread and no Python code runs in between.
    """
    cdef int64_t index, size, total = prefix_size, base_timestamp = rows[0][0]
    cdef Pin sizes = Pin(bytearray(8 * len(rows)), True)
    cdef uint8_t *at
    for index in range(len(rows)):
        size = tuple_size(rows[index], index, base_timestamp)
        (<int64_t *>sizes.data)[index] = size
        total += varint_size(size) + size
    if total > RECORD_SIZE_MAX:
        raise ValueError("the batch is larger than 2 GiB")
    output = PyByteArray_FromStringAndSize(NULL, total)
    at = <uint8_t *>PyByteArray_AS_STRING(output)
    memset(at, 0, prefix_size)
    at += prefix_size
    for index in range(len(rows)):
        at = write_varint(at, (<int64_t *>sizes.data)[index])
        at = write_tuple(at, rows[index], index, base_timestamp)
    return output


cdef inline object field_object(Field *field):
    return None if field.size < 0 else PyBytes_FromStringAndSize(<const char *>field.data, field.size)


cdef tuple header_objects(RecordFields *fields, const uint8_t *end):
    """Return the headers. `read_record` has checked these bytes, so the fields are in place."""
    cdef Cursor cursor
    cdef Field field
    cdef list pairs = []
    cursor.at = fields.headers
    cursor.end = end
    cursor.error = OK
    for _ in range(fields.header_count):
        read_field(&cursor, &field, 0, HEADER_KEY)
        name = PyUnicode_DecodeUTF8(<const char *>field.data, field.size, "replace")
        read_field(&cursor, &field, INT32_MIN, FIELD_SIZE)
        pairs.append((name, field_object(&field)))
    return tuple(pairs)


def read_tuples(
    buffer, int64_t position, int64_t end, int64_t record_count, int64_t base_offset, int64_t base_timestamp,
    bint is_append_time, int64_t start_offset, kind, topic, partition,
):
    """Return the records as named tuples, or None if a record is invalid; row_tuple.py handles that case."""
    cdef Pin pin = Pin(buffer)
    cdef Cursor body
    cdef RecordFields fields
    cdef int64_t timestamp
    cdef list found = []
    if not 0 <= position <= end <= pin.size:
        raise ValueError("the records are not within the buffer")
    body.at = pin.data + position
    body.end = pin.data + end
    body.error = OK
    for _ in range(record_count):
        if read_record(&body, &fields, INT32_MIN):
            return None
        timestamp = base_timestamp
        if not is_append_time:
            if not adds_up(base_timestamp, fields.timestamp_delta):
                return None
            timestamp += fields.timestamp_delta
        if base_offset + fields.offset_delta < start_offset:
            continue
        headers = () if fields.header_count == 0 else header_objects(&fields, body.at)
        found.append(new_tuple(kind, (
            topic, partition, base_offset + fields.offset_delta, timestamp,
            field_object(&fields.key), field_object(&fields.value), headers,
        )))
    return found if body.at == body.end else None


def hash_key(bytes key):
    """See the twin `murmur2` in murmur2.py."""
    return murmur2(<const uint8_t *>PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key))

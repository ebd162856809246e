# The copying of records into the buffers of Arrow columns; arrow/fill.py holds the twin and describes the arguments.
#
# The most that a batch may need is compared with the room in every buffer before its first record
# is read. A record's fields are parts of its batch, so no further check is needed.


cdef struct BinaryTarget:
    bint is_wanted
    int32_t *offsets
    uint8_t *validity  # NULL for the keys of headers, which are never null
    uint8_t *data
    int64_t entries_max
    int64_t size_max
    int64_t size
    int64_t null_count


cdef struct HeaderTarget:
    bint is_wanted
    int32_t *offsets
    uint8_t *validity
    int64_t null_count
    int64_t count
    bint has_non_ascii_key
    BinaryTarget key
    BinaryTarget value


cdef struct ColumnTargets:
    int64_t row_count
    int64_t row_count_max
    int64_t *offset  # NULL, like the next, if the column is not requested
    int64_t *timestamp
    BinaryTarget key
    BinaryTarget value
    HeaderTarget header


cdef struct Span:
    int64_t record_count
    int64_t base_offset
    int64_t last_offset_delta
    int64_t base_timestamp
    bint is_append_time


cdef inline void clear_bit(uint8_t *bitmap, int64_t index) noexcept nogil:
    bitmap[index >> 3] &= <uint8_t>~(1 << (index & 7))


cdef inline void put_field(BinaryTarget *target, int64_t index, Field *field) noexcept nogil:
    if field.size > 0:
        memcpy(target.data + target.size, field.data, field.size)
        target.size += field.size
    elif field.size < 0:
        clear_bit(target.validity, index)
        target.null_count += 1
    target.offsets[index + 1] = <int32_t>target.size


cdef inline bint is_ascii(Field *field) noexcept nogil:
    cdef uint8_t seen = 0
    cdef int32_t index
    for index in range(field.size):
        seen |= field.data[index]
    return seen < 0x80


cdef inline void put_headers(
    HeaderTarget *target, int64_t row, RecordFields *fields, const uint8_t *end,
) noexcept nogil:
    """Copy the headers. `read_record` has checked these bytes, so the fields are in place."""
    cdef Cursor cursor
    cdef Field field
    cdef int32_t index
    cursor.at = fields.headers
    cursor.end = end
    cursor.error = OK
    for index in range(fields.header_count):
        read_field(&cursor, &field, 0, HEADER_KEY)
        put_field(&target.key, target.count, &field)
        if not is_ascii(&field):
            target.has_non_ascii_key = True
        read_field(&cursor, &field, INT32_MIN, FIELD_SIZE)
        put_field(&target.value, target.count, &field)
        target.count += 1
    if fields.header_count == 0:
        clear_bit(target.validity, row)
        target.null_count += 1
    target.offsets[row + 1] = <int32_t>target.count


cdef inline int put_timestamp(ColumnTargets *targets, Span *span, int64_t delta) noexcept nogil:
    cdef int64_t timestamp = span.base_timestamp
    if not span.is_append_time:
        if not adds_up(timestamp, delta):
            return TIMESTAMP
        timestamp += delta
    if timestamp > INT64_MAX // 1000 or timestamp < -(INT64_MAX // 1000):
        return TIMESTAMP_RANGE
    targets.timestamp[targets.row_count] = timestamp * 1000
    return OK


cdef inline int put_record(ColumnTargets *targets, Span *span, RecordFields *fields, const uint8_t *end) noexcept nogil:
    cdef int64_t row = targets.row_count
    cdef int error
    if targets.timestamp != NULL:
        error = put_timestamp(targets, span, fields.timestamp_delta)
        if error:
            return error
    if targets.offset != NULL:
        targets.offset[row] = span.base_offset + fields.offset_delta
    if targets.key.is_wanted:
        put_field(&targets.key, row, &fields.key)
    if targets.value.is_wanted:
        put_field(&targets.value, row, &fields.value)
    if targets.header.is_wanted:
        put_headers(&targets.header, row, fields, end)
    targets.row_count = row + 1
    return OK


cdef int fill_span(
    Cursor *body, Span *span, ColumnTargets *targets, int64_t start_offset, int64_t end_offset, int64_t *fault_index,
) noexcept nogil:
    """Copy a batch's records into the columns; on error, `fault_index` is the index of the record."""
    cdef RecordFields fields
    cdef int64_t index, offset
    cdef int error
    for index in range(span.record_count):
        fault_index[0] = index
        error = read_record(body, &fields, INT32_MIN)
        if error:
            return error
        if fields.offset_delta < 0 or fields.offset_delta > span.last_offset_delta:
            return OFFSET_RANGE
        offset = span.base_offset + fields.offset_delta
        if offset < start_offset or offset >= end_offset:
            continue
        error = put_record(targets, span, &fields, body.at)
        if error:
            return error
    if body.at != body.end:
        fault_index[0] = max(span.record_count, 0)
        return LEFTOVER
    return OK


cdef bint has_room(BinaryTarget *target, int64_t entries, int64_t size) noexcept nogil:
    return not target.is_wanted or (entries <= target.entries_max and size <= target.size_max - target.size)


cdef bint takes(ColumnTargets *targets, Span *span, int64_t size) noexcept nogil:
    """Return whether the columns have room for anything that a batch of this size may hold."""
    cdef int64_t rows = targets.row_count + span.record_count
    cdef int64_t headers = targets.header.count + size // 2  # a header takes two bytes at least
    return (
        rows <= targets.row_count_max
        and has_room(&targets.key, rows, size)
        and has_room(&targets.value, rows, size)
        and has_room(&targets.header.key, headers, size)
        and has_room(&targets.header.value, headers, size)
    )


cdef Pin pin_target(list pins, buffer):
    cdef Pin pin = Pin(buffer, True)
    pins.append(pin)
    return pin


cdef int64_t open_offsets(list pins, buffer, int32_t **offsets) except -1:
    """Open a buffer of Arrow's int32 offsets, set the first to 0, and return the number of entries it can hold."""
    cdef Pin pin = pin_target(pins, buffer)
    if pin.size < 4:
        raise ValueError("a buffer of offsets has room for one at least")
    offsets[0] = <int32_t *>pin.data
    offsets[0][0] = 0
    return pin.size // 4 - 1


cdef int64_t open_validity(list pins, buffer, uint8_t **validity) except -1:
    """Open a bitmap, mark every entry as valid, and return the number of entries it can hold."""
    cdef Pin pin = pin_target(pins, buffer)
    memset(pin.data, 0xFF, pin.size)
    validity[0] = pin.data
    return pin.size * 8


cdef int64_t open_int64(list pins, buffer, int64_t **values) except -1:
    cdef Pin pin
    values[0] = NULL
    if buffer is None:
        return INT64_MAX
    pin = pin_target(pins, buffer)
    values[0] = <int64_t *>pin.data
    return pin.size // 8


cdef int open_binary(list pins, BinaryTarget *target, buffers, bint is_nullable) except -1:
    cdef Pin pin
    memset(target, 0, sizeof(BinaryTarget))
    if buffers is None:
        return 0
    validity, offsets, data = buffers
    target.is_wanted = True
    target.entries_max = open_offsets(pins, offsets, &target.offsets)
    if is_nullable:
        target.entries_max = min(target.entries_max, open_validity(pins, validity, &target.validity))
    pin = pin_target(pins, data)
    target.data = pin.data
    target.size_max = min(pin.size, <int64_t>INT32_MAX)
    return 0


cdef int64_t open_header(list pins, HeaderTarget *target, buffers) except -1:
    """Open the four parts of a headers column, and return the number of rows they can hold."""
    cdef int64_t row_count_max
    memset(target, 0, sizeof(HeaderTarget))
    if buffers is None:
        return INT64_MAX
    validity, offsets, key, value = buffers
    target.is_wanted = True
    row_count_max = open_offsets(pins, offsets, &target.offsets)
    row_count_max = min(row_count_max, open_validity(pins, validity, &target.validity))
    open_binary(pins, &target.key, key, False)
    open_binary(pins, &target.value, value, True)
    return row_count_max


cdef int open_targets(list pins, ColumnTargets *targets, offset, timestamp, key, value, header) except -1:
    targets.row_count = 0
    targets.row_count_max = open_int64(pins, offset, &targets.offset)
    targets.row_count_max = min(targets.row_count_max, open_int64(pins, timestamp, &targets.timestamp))
    open_binary(pins, &targets.key, key, True)
    open_binary(pins, &targets.value, value, True)
    targets.row_count_max = min(targets.row_count_max, open_header(pins, &targets.header, header))
    return 0


cdef int fill_one(
    described, ColumnTargets *targets, int64_t start_offset, int64_t end_offset, int64_t *index,
) except -1:
    """Fill the columns from one batch, or leave them unchanged and return the error."""
    cdef Span span
    cdef Cursor body
    cdef ColumnTargets before
    cdef int64_t position, end
    cdef int error
    cdef Pin pin = Pin(described[0])
    position, end = described[1], described[2]
    span.record_count, span.base_offset, span.last_offset_delta = described[3], described[4], described[5]
    span.base_timestamp, span.is_append_time = described[6], described[7]
    if not 0 <= position <= end <= pin.size:
        raise ValueError("the records are not within the buffer")
    if span.last_offset_delta < 0 or span.base_offset > INT64_MAX - span.last_offset_delta:
        raise ValueError("the offsets do not fit 64 bits")
    if not takes(targets, &span, end - position):
        raise ValueError("the columns have no room for the records")
    body.at = pin.data + position
    body.end = pin.data + end
    body.error = OK
    before = targets[0]
    if end - position < RELEASE_SIZE_BYTES:
        error = fill_span(&body, &span, targets, start_offset, end_offset, index)
    else:
        with nogil:
            error = fill_span(&body, &span, targets, start_offset, end_offset, index)
    if error:
        targets[0] = before
    return error


def fill_columns(
    spans, int64_t start_offset, int64_t end_offset, offset, timestamp, key, value, header,
):
    """See the twin `fill_columns_python`."""
    cdef ColumnTargets targets
    cdef list pins = []
    cdef int64_t index = -1
    cdef Py_ssize_t span_index
    cdef int error = OK
    open_targets(pins, &targets, offset, timestamp, key, value, header)
    span_index = 0
    while span_index < len(spans) and not error:
        error = fill_one(spans[span_index], &targets, start_offset, end_offset, &index)
        span_index += 1
    return (
        targets.row_count,
        (targets.key.size, targets.key.null_count),
        (targets.value.size, targets.value.null_count),
        (targets.header.count, targets.header.null_count),
        (targets.header.key.size, bool(targets.header.has_non_ascii_key)),
        (targets.header.value.size, targets.header.value.null_count),
        (error, span_index - 1, index) if error else None,
    )

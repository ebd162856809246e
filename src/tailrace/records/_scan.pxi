# A scan over plain batches without a Python object for each header; arrow/scan.py handles all other batches.

cdef enum:
    BATCH_HEADER_SIZE = 61
    BATCH_OVERHEAD = 12
    RECORD_SIZE_MIN = 7
    APPEND_TIME_FLAG = 0x08
    TRANSACTION_FLAG = 0x10
    SPECIAL_FLAGS = 0x27  # a codec or a control batch


cdef inline uint32_t load_big32(const uint8_t *at) noexcept nogil:
    return <uint32_t>at[0] << 24 | <uint32_t>at[1] << 16 | <uint32_t>at[2] << 8 | at[3]


cdef inline int64_t load_big64(const uint8_t *at) noexcept nogil:
    return <int64_t>(<uint64_t>load_big32(at) << 32 | load_big32(at + 4))


cdef int64_t read_plain(const uint8_t *at, int64_t left, bint allow_transactional, Span *span) noexcept nogil:
    """Return the size of the batch, or 0 if it is partial, not plain, or invalid."""
    cdef int64_t size
    cdef int attributes
    if left < BATCH_HEADER_SIZE or at[16] != 2:
        return 0
    size = <int64_t><int32_t>load_big32(at + 8) + BATCH_OVERHEAD
    if size < BATCH_HEADER_SIZE or size > left:
        return 0
    attributes = at[22]
    if attributes & SPECIAL_FLAGS or (attributes & TRANSACTION_FLAG and not allow_transactional):
        return 0
    span.is_append_time = attributes & APPEND_TIME_FLAG != 0
    span.base_offset = load_big64(at)
    span.last_offset_delta = <int32_t>load_big32(at + 23)
    span.base_timestamp = load_big64(at + (35 if span.is_append_time else 27))
    span.record_count = <int32_t>load_big32(at + 57)
    if span.base_offset < 0 or span.last_offset_delta < 0 or span.last_offset_delta >= INT64_MAX - span.base_offset:
        return 0
    if span.record_count < 0 or span.record_count * RECORD_SIZE_MIN > size - BATCH_HEADER_SIZE:
        return 0
    return size


def scan_plain_batches(
    buffer, int64_t position, int64_t start_offset, int64_t end_offset, bint allow_transactional,
    int timestamp_type, int64_t size_max, int64_t row_count_max, checksum,
):
    """Return the spans of plain batches from `position` on, the position after them, and their rows and bytes.

    Each batch holds requested offsets, fits, has the given timestamp type (any for -1), and, unless
    `checksum` is None, a right checksum. The scan stops at the first other batch, or after a batch that
    reaches the end offset.
    """
    cdef Pin pin = Pin(buffer)
    cdef Span span
    cdef list spans = []
    cdef int64_t size, body_size, row_count = 0, total_size = 0
    if not 0 <= position <= pin.size:
        raise ValueError("the batches are not within the buffer")
    view = memoryview(buffer)
    while True:
        size = read_plain(pin.data + position, pin.size - position, allow_transactional, &span)
        body_size = size - BATCH_HEADER_SIZE
        if size == 0 or total_size + body_size > size_max or row_count + span.record_count > row_count_max:
            break
        if span.base_offset >= end_offset or span.base_offset + span.last_offset_delta < start_offset:
            break
        if timestamp_type >= 0 and span.is_append_time != timestamp_type:
            break
        if checksum is not None:
            if checksum(view[position + 21 : position + size]) != load_big32(pin.data + position + 17):
                break
        timestamp_type = span.is_append_time
        spans.append((
            buffer, position + BATCH_HEADER_SIZE, position + size, span.record_count, span.base_offset,
            span.last_offset_delta, span.base_timestamp, bool(span.is_append_time),
        ))
        position += size
        total_size += body_size
        row_count += span.record_count
        if span.base_offset + span.last_offset_delta >= end_offset - 1:
            break
    return spans, position, row_count, total_size

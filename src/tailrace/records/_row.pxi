# The conversion of rows of Arrow columns to records; arrow/row.py holds the twin and describes the arguments.
#
# Offsets from outside are compared with the size of the data for each row, and each record's size
# with the remaining room: a damaged column is an error, never a read past the end.

cdef enum:
    # The values of RowError in arrow/row.py.
    FIELD_OUTSIDE = 1
    ROW_OUTSIDE = 2
    TIMESTAMP_NEGATIVE = 3
    RECORD_TOO_LARGE = 4
    HEADER_KEY_NULL = 5
    CHANGED = 6

    RECORD_SIZE_MAX = 0x7FFFFFFF - 128

    # Below this count, measuring takes less time than getting the GIL back may take.
    RELEASE_ROW_COUNT = 1024


cdef struct BinarySource:
    bint is_there  # False for a column of nulls
    bint is_large  # 64-bit offsets
    const uint8_t *validity  # NULL if the column has no nulls
    const uint8_t *offsets
    const uint8_t *data
    int64_t data_size
    int64_t shift  # of the first row in the buffers
    int64_t count


cdef struct RowSource:
    int64_t row_count
    BinarySource key
    BinarySource value
    BinarySource header  # its offsets count entries of the next two
    BinarySource header_key
    BinarySource header_value
    const uint8_t *timestamp  # NULL if there is no such column
    const uint8_t *timestamp_validity
    int64_t timestamp_shift
    int64_t timestamp_default


cdef struct Selection:
    const uint8_t *rows  # int32 each; NULL selects all rows in order
    int64_t start


cdef struct Row:
    int64_t timestamp
    Field key
    Field value
    int64_t header_start
    int64_t header_count


cdef inline uint64_t zigzag(int64_t value) noexcept nogil:
    return (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)


cdef inline int64_t varint_size(int64_t value) noexcept nogil:
    cdef uint64_t raw = zigzag(value)
    cdef int64_t size = 1
    while raw > 0x7F:
        raw >>= 7
        size += 1
    return size


cdef inline uint8_t *write_varint(uint8_t *at, int64_t value) noexcept nogil:
    cdef uint64_t raw = zigzag(value)
    while raw > 0x7F:
        at[0] = <uint8_t>(raw & 0x7F | 0x80)
        at += 1
        raw >>= 7
    at[0] = <uint8_t>raw
    return at + 1


cdef inline int64_t field_size(Field *field) noexcept nogil:
    return 1 if field.size < 0 else varint_size(field.size) + field.size


cdef inline uint8_t *write_field(uint8_t *at, Field *field) noexcept nogil:
    if field.size < 0:
        return write_varint(at, -1)
    at = write_varint(at, field.size)
    if field.size > 0:
        memcpy(at, field.data, field.size)
    return at + field.size


cdef inline int64_t load_offset(BinarySource *source, int64_t index) noexcept nogil:
    return load_int64(source.offsets, index) if source.is_large else load_int32(source.offsets, index)


cdef inline int load_range(BinarySource *source, int64_t index, int64_t *start, int64_t *size) noexcept nogil:
    """Return the start and size of an entry, negative for null. An entry outside `data_size` is an error."""
    cdef int64_t end
    start[0] = 0
    size[0] = -1
    if not source.is_there:
        return OK
    index += source.shift
    if source.validity != NULL and not is_set(source.validity, index):
        return OK
    start[0] = load_offset(source, index)
    end = load_offset(source, index + 1)
    if start[0] < 0 or end < start[0] or end > source.data_size:
        return FIELD_OUTSIDE
    size[0] = end - start[0]
    return RECORD_TOO_LARGE if size[0] > RECORD_SIZE_MAX else OK


cdef inline int load_field(BinarySource *source, int64_t index, Field *field) noexcept nogil:
    cdef int64_t start, size
    cdef int error = load_range(source, index, &start, &size)
    if error:
        return error
    field.data = source.data + start
    field.size = <int32_t>size
    return OK


cdef inline int load_row(RowSource *source, Selection *selection, int64_t index, Row *row) noexcept nogil:
    cdef int64_t at = selection.start + index
    cdef int error
    if selection.rows != NULL:
        at = load_int32(selection.rows, at)
        if at < 0 or at >= source.row_count:
            return ROW_OUTSIDE
    row.timestamp = source.timestamp_default
    if source.timestamp != NULL:
        if source.timestamp_validity == NULL or is_set(source.timestamp_validity, source.timestamp_shift + at):
            row.timestamp = load_int64(source.timestamp, source.timestamp_shift + at)
            if row.timestamp < NO_TIMESTAMP:
                return TIMESTAMP_NEGATIVE
    error = load_field(&source.key, at, &row.key)
    if error:
        return error
    error = load_field(&source.value, at, &row.value)
    if error:
        return error
    return load_range(&source.header, at, &row.header_start, &row.header_count)


cdef inline int headers_size(RowSource *source, Row *row, int64_t *size) noexcept nogil:
    cdef Field field
    cdef int64_t index
    cdef int error
    size[0] += varint_size(row.header_count if row.header_count > 0 else 0)
    for index in range(row.header_start, row.header_start + row.header_count):
        error = load_field(&source.header_key, index, &field)
        if error:
            return error
        if field.size < 0:
            return HEADER_KEY_NULL
        size[0] += field_size(&field)
        error = load_field(&source.header_value, index, &field)
        if error:
            return error
        size[0] += field_size(&field)
    return OK


cdef inline int record_size(
    RowSource *source, Row *row, int64_t index, int64_t base_timestamp, int64_t *size,
) noexcept nogil:
    """Return the size of a record without its length prefix."""
    cdef int error
    size[0] = 1 + varint_size(row.timestamp - base_timestamp) + varint_size(index)
    size[0] += field_size(&row.key) + field_size(&row.value)
    error = headers_size(source, row, size)
    if error:
        return error
    return RECORD_TOO_LARGE if size[0] > RECORD_SIZE_MAX else OK


cdef inline uint8_t *write_headers(uint8_t *at, RowSource *source, Row *row) noexcept nogil:
    cdef Field field
    cdef int64_t index
    at = write_varint(at, row.header_count if row.header_count > 0 else 0)
    for index in range(row.header_start, row.header_start + row.header_count):
        load_field(&source.header_key, index, &field)
        at = write_field(at, &field)
        load_field(&source.header_value, index, &field)
        at = write_field(at, &field)
    return at


cdef int measure_rows(
    RowSource *source, Selection *selection, int64_t row_count, int64_t size_max, int64_t *taken, int64_t *size,
) noexcept nogil:
    """Return how many rows fit, at least one, and their size."""
    cdef Row row
    cdef int64_t index, one, base_timestamp = 0
    cdef int error
    size[0] = 0
    for index in range(row_count):
        taken[0] = index
        error = load_row(source, selection, index, &row)
        if error:
            return error
        if index == 0:
            base_timestamp = row.timestamp
        error = record_size(source, &row, index, base_timestamp, &one)
        if error:
            return error
        one += varint_size(one)
        if index > 0 and size[0] + one > size_max:
            return OK
        size[0] += one
    taken[0] = row_count
    return OK


cdef int write_rows(
    RowSource *source, Selection *selection, int64_t row_count, uint8_t *at, int64_t room,
    int64_t *base_timestamp, int64_t *max_timestamp,
) noexcept nogil:
    """Write rows that `measure_rows` has measured; a different result is an error."""
    cdef uint8_t *end = at + room
    cdef Row row
    cdef int64_t index, size
    base_timestamp[0] = max_timestamp[0] = NO_TIMESTAMP
    for index in range(row_count):
        if load_row(source, selection, index, &row):
            return CHANGED
        if index == 0:
            base_timestamp[0] = max_timestamp[0] = row.timestamp
        max_timestamp[0] = max(max_timestamp[0], row.timestamp)
        if record_size(source, &row, index, base_timestamp[0], &size) or size + varint_size(size) > end - at:
            return CHANGED
        at = write_varint(at, size)
        at[0] = 0  # attributes; no bit is defined
        at = write_varint(at + 1, row.timestamp - base_timestamp[0])
        at = write_varint(at, index)
        at = write_field(at, &row.key)
        at = write_field(at, &row.value)
        at = write_headers(at, source, &row)
    return OK if at == end else CHANGED


cdef const uint8_t *open_bitmap(list pins, buffer, int64_t bit_count) except? NULL:
    cdef Pin pin
    if buffer is None:
        return NULL
    pin = Pin(buffer)
    if pin.size < (bit_count + 7) // 8:
        raise ValueError("a bitmap is shorter than its column")
    pins.append(pin)
    return pin.data


cdef int open_source(list pins, BinarySource *source, column, int64_t data_size) except -1:
    """Open (is_large, shift, count, validity, offsets, data); without data the offsets count up to `data_size`."""
    cdef Pin pin
    memset(source, 0, sizeof(BinarySource))
    if column is None:
        return 0
    is_large, shift, count, validity, offsets, data = column
    if count == 0:
        return 0
    source.is_large, source.shift, source.count = is_large, shift, count
    source.is_there = True
    if source.shift < 0 or source.count < 0:
        raise ValueError("a column does not begin before its buffers")
    source.validity = open_bitmap(pins, validity, source.shift + source.count)
    pin = Pin(offsets)
    if pin.size // (8 if source.is_large else 4) <= source.shift + source.count:
        raise ValueError("a column has fewer offsets than rows")
    source.offsets = pin.data
    source.data_size = data_size
    pins.append(pin)
    if data is not None:
        pin = Pin(data)
        source.data = pin.data
        source.data_size = pin.size
        pins.append(pin)
    return 0


cdef class RowWriter:
    """See the twin `PythonRowWriter`."""

    cdef RowSource source
    cdef list pins

    def __init__(self, int64_t row_count, key, value, header, timestamp, int64_t timestamp_default):
        cdef Pin pin
        if timestamp_default < NO_TIMESTAMP:
            raise ValueError("a timestamp is -1 or milliseconds since the epoch")
        self.pins = []
        memset(&self.source, 0, sizeof(RowSource))
        self.source.row_count = row_count
        self.source.timestamp_default = timestamp_default
        open_source(self.pins, &self.source.key, key, 0)
        open_source(self.pins, &self.source.value, value, 0)
        if header is not None:
            column, header_key, header_value = header
            open_source(self.pins, &self.source.header_key, header_key, 0)
            open_source(self.pins, &self.source.header_value, header_value, 0)
            open_source(self.pins, &self.source.header, column, self.source.header_key.count)
        if timestamp is not None:
            self.source.timestamp_shift, validity, data = timestamp
            pin = Pin(data)
            if self.source.timestamp_shift < 0 or pin.size // 8 < self.source.timestamp_shift + row_count:
                raise ValueError("there are fewer timestamps than rows")
            self.source.timestamp = pin.data
            self.source.timestamp_validity = open_bitmap(self.pins, validity, self.source.timestamp_shift + row_count)
            self.pins.append(pin)
        for count in (self.source.key.count, self.source.value.count, self.source.header.count):
            if count and count != row_count:
                raise ValueError("the columns differ in length")
        if self.source.header_value.count not in (0, self.source.header_key.count):
            raise ValueError("the columns differ in length")

    def encode(self, rows, int64_t start, int64_t stop, int64_t size_max, int64_t prefix_size):
        """See the twin `PythonRowWriter.encode`."""
        cdef Selection selection
        cdef Pin pin = None
        cdef int64_t taken, size, base_timestamp, max_timestamp, limit = self.source.row_count
        cdef int error
        cdef uint8_t *at
        selection.rows = NULL
        selection.start = start
        if rows is not None:
            pin = Pin(rows)
            selection.rows = pin.data
            limit = pin.size // 4
        if not 0 <= start < stop <= limit or prefix_size < 0:
            raise ValueError("there are no such rows")
        if size_max < RELEASE_SIZE_BYTES or stop - start < RELEASE_ROW_COUNT:
            error = measure_rows(&self.source, &selection, stop - start, size_max, &taken, &size)
        else:
            with nogil:
                error = measure_rows(&self.source, &selection, stop - start, size_max, &taken, &size)
        if error:
            return bytearray(), error, taken, 0, 0
        output = PyByteArray_FromStringAndSize(NULL, prefix_size + size)
        at = <uint8_t *>PyByteArray_AS_STRING(output)
        memset(at, 0, prefix_size)
        at += prefix_size
        if size < RELEASE_SIZE_BYTES:
            error = write_rows(&self.source, &selection, taken, at, size, &base_timestamp, &max_timestamp)
        else:
            with nogil:
                error = write_rows(&self.source, &selection, taken, at, size, &base_timestamp, &max_timestamp)
        if error:
            return bytearray(), error, 0, 0, 0
        return output, OK, taken, base_timestamp, max_timestamp

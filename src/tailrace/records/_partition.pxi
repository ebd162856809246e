# The choice of a partition for each row; arrow/partition.py holds the twins.

cdef inline uint32_t murmur2(const uint8_t *data, int64_t size) noexcept nogil:
    cdef uint32_t multiplier = 0x5BD1E995
    cdef uint32_t value = 0x9747B28Cu ^ <uint32_t>size
    cdef uint32_t word
    while size >= 4:
        word = data[0] | <uint32_t>data[1] << 8 | <uint32_t>data[2] << 16 | <uint32_t>data[3] << 24
        word *= multiplier
        value = (value * multiplier) ^ ((word ^ (word >> 24)) * multiplier)
        data += 4
        size -= 4
    if size > 0:
        word = data[0]
        if size > 1:
            word |= <uint32_t>data[1] << 8
        if size > 2:
            word |= <uint32_t>data[2] << 16
        value = (value ^ word) * multiplier
    value = (value ^ (value >> 13)) * multiplier
    return value ^ (value >> 15)


cdef int hash_rows(
    BinarySource *source, int32_t partition_count, int32_t *partitions, uint8_t *validity,
) noexcept nogil:
    cdef Field field
    cdef int64_t index
    cdef int error
    for index in range(source.count):
        error = load_field(source, index, &field)
        if error:
            return error
        partitions[index] = 0
        if field.size < 0:
            clear_bit(validity, index)
        else:
            partitions[index] = <int32_t>(murmur2(field.data, field.size) & 0x7FFFFFFF) % partition_count
    return OK


def hash_keys(column, int32_t partition_count, partitions, validity):
    """See the twin `hash_keys_python`."""
    cdef BinarySource source
    cdef list pins = []
    cdef Pin target = Pin(partitions, True)
    cdef uint8_t *bitmap
    cdef int error
    open_source(pins, &source, column, 0)
    if open_validity(pins, validity, &bitmap) < source.count or target.size // 4 < source.count or partition_count < 1:
        raise ValueError("the partitions have no room for the rows")
    with nogil:
        error = hash_rows(&source, partition_count, <int32_t *>target.data, bitmap)
    return error


cdef int64_t count_rows(
    const uint8_t *partitions, int64_t row_count, int32_t partition_count, int64_t *ends,
) noexcept nogil:
    """Set `ends` to the start of each partition's rows; return the first row with an invalid partition, or -1."""
    cdef int64_t row, total = 0, count
    cdef int32_t partition
    for row in range(row_count):
        partition = load_int32(partitions, row)
        if partition < 0 or partition >= partition_count:
            return row
        ends[partition] += 1
    for partition in range(partition_count):
        count = ends[partition]
        ends[partition] = total
        total += count
    return -1


def group_rows(partitions, int64_t row_count, int32_t partition_count, rows):
    """See the twin `group_rows_python`."""
    cdef Pin source = Pin(partitions)
    cdef Pin target = Pin(rows, True)
    cdef Pin counts = Pin(bytearray(8 * max(partition_count, 0)), True)
    cdef int64_t *ends = <int64_t *>counts.data
    cdef int32_t *order = <int32_t *>target.data
    cdef int64_t row, fault
    cdef int32_t partition
    if not 0 <= row_count <= min(source.size // 4, target.size // 4, <int64_t>INT32_MAX):
        raise ValueError("the rows have no room")
    with nogil:
        fault = count_rows(source.data, row_count, partition_count, ends)
        if fault < 0:
            for row in range(row_count):
                partition = load_int32(source.data, row)
                order[ends[partition]] = <int32_t>row
                ends[partition] += 1
    return fault, [ends[partition] for partition in range(partition_count)] if fault < 0 else []

# Avro values of a column, written to the buffers of Arrow columns; arrow/avro_read.py holds the twin.
#
# A schema is compiled to nodes (arrow/avro_plan.py). Each node owns one Arrow column, whose buffers grow as values are
# read. Null entries are counted in all columns below, since the children of a struct have its length.

from libc.stdlib cimport calloc, free, realloc


cdef enum:
    # The values of Op in arrow/avro_plan.py.
    AVRO_NULL = 0
    AVRO_BOOLEAN = 1
    AVRO_INT = 2
    AVRO_LONG = 3
    AVRO_FLOAT = 4
    AVRO_DOUBLE = 5
    AVRO_BYTES = 6
    AVRO_FIXED = 7
    AVRO_ENUM = 8
    AVRO_RECORD = 9
    AVRO_ARRAY = 10
    AVRO_MAP = 11
    AVRO_UNION = 12
    AVRO_DECIMAL = 13
    AVRO_DECIMAL_FIXED = 14

    # The values of Fault in arrow/avro_plan.py.
    AVRO_OK = 0
    AVRO_FRAME = 1
    AVRO_TRUNCATED = 2
    AVRO_LEFTOVER = 3
    AVRO_BAD_NUMBER = 4
    AVRO_BAD_LENGTH = 5
    AVRO_BAD_BRANCH = 6
    AVRO_BAD_SYMBOL = 7
    AVRO_BAD_BOOLEAN = 8
    AVRO_BAD_DECIMAL = 9
    AVRO_TOO_LARGE = 10
    AVRO_NO_MEMORY = 11

    FRAME_SIZE = 5
    DECIMAL_SIZE = 16


cdef struct Room:
    uint8_t *data
    int64_t size
    int64_t size_max


cdef struct AvroNode:
    int op
    int argument  # the size of a fixed, the symbols of an enum, the least size of an item
    int null_branch  # negative if the value cannot be null
    int child_first
    int child_count
    int64_t count
    int64_t null_count
    Room validity
    Room offsets
    Room data


cdef struct AvroPlan:
    AvroNode *nodes
    int32_t *children
    int64_t empty_items_left


cdef int grow(Room *room, int64_t more) noexcept nogil:
    cdef int64_t size = max(2 * room.size_max, room.size + more, 256)
    cdef void *data = realloc(room.data, size)
    if data == NULL:
        return AVRO_NO_MEMORY
    room.data = <uint8_t *>data
    room.size_max = size
    return AVRO_OK


cdef inline int reserve(Room *room, int64_t more) noexcept nogil:
    if room.size + more > room.size_max:
        return grow(room, more)
    return AVRO_OK


cdef inline int push(Room *room, const void *value, int64_t size) noexcept nogil:
    cdef int error = reserve(room, size)
    if error:
        return error
    memcpy(room.data + room.size, value, size)
    room.size += size
    return AVRO_OK


cdef inline int push_zeros(Room *room, int64_t size) noexcept nogil:
    cdef int error = reserve(room, size)
    if error:
        return error
    memset(room.data + room.size, 0, size)
    room.size += size
    return AVRO_OK


cdef inline int push_end(Room *offsets, int64_t end) noexcept nogil:
    cdef int32_t value = <int32_t>end
    if end > INT32_MAX:
        return AVRO_TOO_LARGE
    return push(offsets, &value, 4)


cdef inline int count_entry(AvroNode *node, bint is_valid) noexcept nogil:
    """Count an entry. The bitmap begins with the first null."""
    cdef int64_t index = node.count
    cdef int64_t more = (index >> 3) + 1 - node.validity.size
    cdef int error
    node.count = index + 1
    if is_valid and node.null_count == 0:
        return AVRO_OK
    if more > 0:
        error = reserve(&node.validity, more)
        if error:
            return error
        memset(node.validity.data + node.validity.size, 0xFF, more)
        node.validity.size += more
    if not is_valid:
        node.null_count += 1
        clear_bit(node.validity.data, index)
    return AVRO_OK


cdef inline int push_bit(AvroNode *node, int bit) noexcept nogil:
    """Add a bit for the entry that was counted last."""
    cdef int64_t index = node.count - 1
    cdef int error
    if (index & 7) == 0:
        error = push_zeros(&node.data, 1)
        if error:
            return error
    node.data.data[index >> 3] |= <uint8_t>(bit << (index & 7))
    return AVRO_OK


cdef inline int read_avro_long(Cursor *cursor, int64_t *value) noexcept nogil:
    cdef uint64_t result = 0
    cdef int shift = 0
    cdef uint8_t byte
    while cursor.at < cursor.end:
        byte = cursor.at[0]
        cursor.at += 1
        if shift == 63 and byte > 1:
            return AVRO_BAD_NUMBER
        result |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            value[0] = <int64_t>(result >> 1) ^ -<int64_t>(result & 1)
            return AVRO_OK
        shift += 7
    return AVRO_TRUNCATED


cdef int push_null(AvroPlan *plan, int index) noexcept nogil:
    cdef AvroNode *node = &plan.nodes[index]
    cdef int child
    cdef int error = count_entry(node, False)
    if error:
        return error
    if node.op == AVRO_BOOLEAN:
        return push_bit(node, 0)
    if node.op == AVRO_INT or node.op == AVRO_ENUM or node.op == AVRO_FLOAT:
        return push_zeros(&node.data, 4)
    if node.op == AVRO_LONG or node.op == AVRO_DOUBLE:
        return push_zeros(&node.data, 8)
    if node.op == AVRO_DECIMAL or node.op == AVRO_DECIMAL_FIXED:
        return push_zeros(&node.data, DECIMAL_SIZE)
    if node.op == AVRO_FIXED:
        return push_zeros(&node.data, node.argument)
    if node.op == AVRO_BYTES:
        return push_end(&node.offsets, node.data.size)
    if node.op == AVRO_ARRAY or node.op == AVRO_MAP:
        return push_end(&node.offsets, plan.nodes[plan.children[node.child_first]].count)
    for child in range(node.child_first, node.child_first + node.child_count):
        error = push_null(plan, plan.children[child])
        if error:
            return error
    return AVRO_OK


cdef inline int read_span(Cursor *cursor, int64_t *size) noexcept nogil:
    cdef int error = read_avro_long(cursor, size)
    if error:
        return error
    if size[0] < 0:
        return AVRO_BAD_LENGTH
    return AVRO_TRUNCATED if size[0] > cursor.end - cursor.at else AVRO_OK


cdef inline int read_avro_bytes(Cursor *cursor, AvroNode *node) noexcept nogil:
    cdef int64_t size = 0
    cdef int error = read_span(cursor, &size)
    if not error:
        error = push(&node.data, cursor.at, size)
    if error:
        return error
    cursor.at += size
    return push_end(&node.offsets, node.data.size)


cdef inline int read_decimal(Cursor *cursor, AvroNode *node, int64_t size) noexcept nogil:
    """Turn a big-endian number of any size into a little-endian one of 16 bytes."""
    cdef uint8_t number[DECIMAL_SIZE]
    cdef uint8_t sign = 0xFF if size > 0 and cursor.at[0] >= 0x80 else 0
    cdef int64_t index
    memset(number, sign, DECIMAL_SIZE)
    for index in range(size):
        if index < size - DECIMAL_SIZE:
            if cursor.at[index] != sign:
                return AVRO_BAD_DECIMAL
        else:
            number[size - 1 - index] = cursor.at[index]
    if (number[DECIMAL_SIZE - 1] >= 0x80) != (sign == 0xFF):
        return AVRO_BAD_DECIMAL
    cursor.at += size
    return push(&node.data, number, DECIMAL_SIZE)


cdef int read_items(Cursor *cursor, AvroPlan *plan, AvroNode *node) noexcept nogil:
    """Read the blocks of an array or a map."""
    cdef int first = plan.children[node.child_first]
    cdef int last = plan.children[node.child_first + node.child_count - 1]
    cdef int64_t count = 0
    cdef int64_t size = 0
    cdef int error
    while True:
        error = read_avro_long(cursor, &count)
        if not error and count < 0:
            if count == INT64_MIN:
                return AVRO_BAD_LENGTH
            count = -count
            error = read_avro_long(cursor, &size)
        if error:
            return error
        if count == 0:
            return push_end(&node.offsets, plan.nodes[first].count)
        if node.argument == 0:
            plan.empty_items_left -= count
            if plan.empty_items_left < 0:
                return AVRO_TOO_LARGE
        elif count > (cursor.end - cursor.at) // node.argument:
            return AVRO_TRUNCATED
        while count > 0:
            count -= 1
            if node.op == AVRO_MAP:
                error = count_entry(&plan.nodes[first], True)
                if not error:
                    error = read_avro_bytes(cursor, &plan.nodes[first])
                if error:
                    return error
            error = read_value(cursor, plan, last)
            if error:
                return error


cdef int read_union(Cursor *cursor, AvroPlan *plan, AvroNode *node, int64_t branch) noexcept nogil:
    cdef int member
    cdef int error
    if node.null_branch >= 0 and branch > node.null_branch:
        branch -= 1
    for member in range(node.child_count):
        if member == branch:
            error = read_value(cursor, plan, plan.children[node.child_first + member])
        else:
            error = push_null(plan, plan.children[node.child_first + member])
        if error:
            return error
    return AVRO_OK


cdef int read_value(Cursor *cursor, AvroPlan *plan, int index) noexcept nogil:
    cdef AvroNode *node = &plan.nodes[index]
    cdef int64_t value = 0
    cdef int32_t narrow
    cdef int child
    cdef int error
    if node.null_branch >= 0 or node.op == AVRO_UNION:
        error = read_avro_long(cursor, &value)
        if error:
            return error
        if value < 0 or value >= (node.child_count if node.op == AVRO_UNION else 1) + (node.null_branch >= 0):
            return AVRO_BAD_BRANCH
        if value == node.null_branch:
            return push_null(plan, index)
    error = count_entry(node, True)
    if error:
        return error
    if node.op == AVRO_BYTES:
        return read_avro_bytes(cursor, node)
    if node.op == AVRO_LONG:
        error = read_avro_long(cursor, &value)
        return error if error else push(&node.data, &value, 8)
    if node.op == AVRO_INT or node.op == AVRO_ENUM:
        error = read_avro_long(cursor, &value)
        if error:
            return error
        if node.op == AVRO_ENUM and (value < 0 or value >= node.argument):
            return AVRO_BAD_SYMBOL
        if value < INT32_MIN or value > INT32_MAX:
            return AVRO_BAD_NUMBER
        narrow = <int32_t>value
        return push(&node.data, &narrow, 4)
    if node.op == AVRO_RECORD:
        for child in range(node.child_first, node.child_first + node.child_count):
            error = read_value(cursor, plan, plan.children[child])
            if error:
                return error
        return AVRO_OK
    if node.op == AVRO_ARRAY or node.op == AVRO_MAP:
        return read_items(cursor, plan, node)
    if node.op == AVRO_UNION:
        return read_union(cursor, plan, node, value)
    return read_avro_plain(cursor, node)


cdef int read_avro_plain(Cursor *cursor, AvroNode *node) noexcept nogil:
    cdef int64_t size = node.argument
    cdef int error
    if node.op == AVRO_NULL:
        return AVRO_OK
    if node.op == AVRO_DECIMAL:
        error = read_span(cursor, &size)
        return error if error else read_decimal(cursor, node, size)
    if node.op == AVRO_BOOLEAN:
        size = 1
    elif node.op == AVRO_FLOAT:
        size = 4
    elif node.op == AVRO_DOUBLE:
        size = 8
    if size > cursor.end - cursor.at:
        return AVRO_TRUNCATED
    if node.op == AVRO_DECIMAL_FIXED:
        return read_decimal(cursor, node, size)
    if node.op == AVRO_BOOLEAN:
        if cursor.at[0] > 1:
            return AVRO_BAD_BOOLEAN
        error = push_bit(node, cursor.at[0])
    else:
        error = push(&node.data, cursor.at, size)
    cursor.at += size
    return error


cdef class Memory:
    """Memory that a column owns, as a buffer."""

    cdef uint8_t *data
    cdef Py_ssize_t size

    def __dealloc__(self):
        free(self.data)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.size, 1, flags)


cdef Memory take(Room *room):
    cdef Memory memory = Memory.__new__(Memory)
    if room.data == NULL:
        grow(room, 1)
    memory.data = room.data
    memory.size = room.size
    memset(room, 0, sizeof(Room))
    return memory


cdef class AvroReader:
    """Reads values of one schema. It is used once, because the columns take its memory."""

    cdef AvroPlan plan
    cdef int count

    def __cinit__(self, nodes, int64_t empty_items_max):
        cdef int index
        cdef int child_count = sum(len(children) for _, _, _, children in nodes)
        cdef int32_t start = 0
        self.count = len(nodes)
        self.plan.empty_items_left = empty_items_max
        self.plan.nodes = <AvroNode *>calloc(self.count, sizeof(AvroNode))
        self.plan.children = <int32_t *>calloc(child_count + 1, sizeof(int32_t))
        if self.plan.nodes == NULL or self.plan.children == NULL:
            raise MemoryError
        child_count = 0
        for index, (op, argument, null_branch, children) in enumerate(nodes):
            self.plan.nodes[index].op = op
            self.plan.nodes[index].argument = argument
            self.plan.nodes[index].null_branch = null_branch
            self.plan.nodes[index].child_first = child_count
            self.plan.nodes[index].child_count = len(children)
            for child in children:
                self.plan.children[child_count] = child
                child_count += 1
            if op in (AVRO_BYTES, AVRO_ARRAY, AVRO_MAP):
                push(&self.plan.nodes[index].offsets, &start, 4)

    def __dealloc__(self):
        cdef int index
        for index in range(self.count if self.plan.nodes != NULL else 0):
            free(self.plan.nodes[index].validity.data)
            free(self.plan.nodes[index].offsets.data)
            free(self.plan.nodes[index].data.data)
        free(self.plan.nodes)
        free(self.plan.children)

    def read(self, validity, offsets, data, int64_t shift, int64_t row_count, uint32_t schema_id):
        """Read framed values. Return None, or the row and the fault at which reading stopped."""
        cdef Pin pinned_offsets = Pin(offsets)
        cdef Pin pinned_data = Pin(data)
        cdef Pin pinned_validity = None if validity is None else Pin(validity)
        cdef const uint8_t *bitmap = NULL if validity is None else pinned_validity.data
        cdef Cursor cursor
        cdef int64_t row
        cdef int error = AVRO_OK
        with nogil:
            for row in range(shift, shift + row_count):
                if bitmap != NULL and not is_set(bitmap, row):
                    error = push_null(&self.plan, 0)
                else:
                    cursor.at = pinned_data.data + load_int32(pinned_offsets.data, row)
                    cursor.end = pinned_data.data + load_int32(pinned_offsets.data, row + 1)
                    error = read_framed(&cursor, &self.plan, schema_id)
                if error:
                    break
        return None if error == AVRO_OK else (row - shift, error)

    def take(self, int index):
        """Return the entries, the nulls, and the buffers of validity, offsets and data of a node's column."""
        cdef AvroNode *node = &self.plan.nodes[index]
        return node.count, node.null_count, take(&node.validity), take(&node.offsets), take(&node.data)


cdef int read_framed(Cursor *cursor, AvroPlan *plan, uint32_t schema_id) noexcept nogil:
    cdef const uint8_t *frame = cursor.at
    cdef int error
    if cursor.end - frame < FRAME_SIZE or frame[0] != 0:
        return AVRO_FRAME
    if (<uint32_t>frame[1] << 24 | <uint32_t>frame[2] << 16 | <uint32_t>frame[3] << 8 | frame[4]) != schema_id:
        return AVRO_FRAME
    cursor.at += FRAME_SIZE
    error = read_value(cursor, plan, 0)
    if error:
        return error
    return AVRO_OK if cursor.at == cursor.end else AVRO_LEFTOVER

# Rows of Arrow columns, written as framed Avro values; arrow/avro_write.py holds the twin.


cdef enum:
    # More values of Fault in arrow/avro_plan.py.
    AVRO_NOT_NULL = 13


cdef struct AvroSource:
    int op
    int argument
    int null_branch
    int child_first
    int child_count
    int64_t shift  # the index of the column's first entry in its buffers
    const uint8_t *validity  # NULL if the column has no nulls
    const uint8_t *offsets
    const uint8_t *data


cdef struct AvroSources:
    AvroSource *nodes
    int32_t *children


cdef inline int push_avro_long(Room *out, int64_t value) noexcept nogil:
    cdef uint64_t rest = (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)
    cdef int error = reserve(out, 10)
    if error:
        return error
    while rest >= 0x80:
        out.data[out.size] = <uint8_t>(rest | 0x80)
        out.size += 1
        rest >>= 7
    out.data[out.size] = <uint8_t>rest
    out.size += 1
    return AVRO_OK


cdef inline bint is_null(AvroSource *node, int64_t row) noexcept nogil:
    return node.validity != NULL and not is_set(node.validity, node.shift + row)


cdef int write_decimal(Room *out, AvroSource *node, const uint8_t *number) noexcept nogil:
    """Write a little-endian number of 16 bytes as a big-endian one, as short as it can be or as long as the fixed."""
    cdef uint8_t sign = 0xFF if number[DECIMAL_SIZE - 1] >= 0x80 else 0
    cdef int size = DECIMAL_SIZE
    cdef int wanted = node.argument
    cdef int index
    cdef int error
    while size > 1 and number[size - 1] == sign and (number[size - 2] >= 0x80) == (sign == 0xFF):
        size -= 1
    if node.op == AVRO_DECIMAL:
        wanted = size
        error = push_avro_long(out, size)
        if error:
            return error
    elif size > wanted:
        return AVRO_BAD_DECIMAL
    error = reserve(out, wanted)
    if error:
        return error
    memset(out.data + out.size, sign, wanted)
    for index in range(size):
        out.data[out.size + wanted - 1 - index] = number[index]
    out.size += wanted
    return AVRO_OK


cdef int write_items(Room *out, AvroSources *plan, AvroSource *node, int64_t row) noexcept nogil:
    cdef int64_t start = load_int32(node.offsets, node.shift + row)
    cdef int64_t stop = load_int32(node.offsets, node.shift + row + 1)
    cdef int64_t item
    cdef int child
    cdef int error = AVRO_OK
    if stop > start:
        error = push_avro_long(out, stop - start)
    for item in range(start, stop):
        for child in range(node.child_first, node.child_first + node.child_count):
            if not error:
                error = write_value(out, plan, plan.children[child], item)
        if error:
            return error
    return push_zeros(out, 1)


cdef int write_member(Room *out, AvroSources *plan, AvroSource *node, int64_t row) noexcept nogil:
    """Write the only member of a union that is not null."""
    cdef int found = -1
    cdef int member
    cdef int branch
    cdef int error
    for member in range(node.child_count):
        if not is_null(&plan.nodes[plan.children[node.child_first + member]], row):
            if found >= 0:
                return AVRO_BAD_BRANCH
            found = member
    if found < 0:
        return AVRO_BAD_BRANCH
    branch = found + (node.null_branch >= 0 and found >= node.null_branch)
    error = push_avro_long(out, branch)
    return error if error else write_value(out, plan, plan.children[node.child_first + found], row)


cdef int write_value(Room *out, AvroSources *plan, int index, int64_t row) noexcept nogil:
    cdef AvroSource *node = &plan.nodes[index]
    cdef int64_t at = node.shift + row
    cdef int64_t start
    cdef int64_t stop
    cdef uint8_t flag
    cdef int child
    cdef int error = AVRO_OK
    if node.op == AVRO_NULL:
        return AVRO_OK
    if is_null(node, row):
        return push_avro_long(out, node.null_branch) if node.null_branch >= 0 else AVRO_NOT_NULL
    if node.op == AVRO_UNION:
        return write_member(out, plan, node, row)
    if node.null_branch >= 0:
        error = push_avro_long(out, 1 - node.null_branch)
        if error:
            return error
    if node.op == AVRO_BYTES:
        start = load_int32(node.offsets, at)
        stop = load_int32(node.offsets, at + 1)
        error = push_avro_long(out, stop - start)
        return error if error else push(out, node.data + start, stop - start)
    if node.op == AVRO_LONG:
        return push_avro_long(out, load_int64(node.data, at))
    if node.op == AVRO_INT or node.op == AVRO_ENUM:
        return push_avro_long(out, load_int32(node.data, at))
    if node.op == AVRO_FLOAT:
        return push(out, node.data + at * 4, 4)
    if node.op == AVRO_DOUBLE:
        return push(out, node.data + at * 8, 8)
    if node.op == AVRO_BOOLEAN:
        flag = is_set(node.data, at)
        return push(out, &flag, 1)
    if node.op == AVRO_FIXED:
        return push(out, node.data + at * node.argument, node.argument)
    if node.op == AVRO_ARRAY or node.op == AVRO_MAP:
        return write_items(out, plan, node, row)
    if node.op != AVRO_RECORD:
        return write_decimal(out, node, node.data + at * DECIMAL_SIZE)
    for child in range(node.child_first, node.child_first + node.child_count):
        error = write_value(out, plan, plan.children[child], row)
        if error:
            return error
    return AVRO_OK


def write_avro(nodes, sources, int64_t row_count, bytes frame):
    """Write the rows. Return the offsets and the data of the values, or the row and the fault at which writing stopped.

    A source is (shift, validity, offsets, data) of a node's column.
    """
    cdef AvroSources plan
    cdef Room offsets
    cdef Room out
    cdef int child_total = sum(len(children) for _, _, _, children in nodes)
    cdef int64_t row = 0
    cdef int32_t first = 0
    cdef int index
    cdef int error
    cdef const uint8_t *head = frame
    cdef int64_t head_size = len(frame)
    memset(&offsets, 0, sizeof(Room))
    memset(&out, 0, sizeof(Room))
    pins = []
    plan.nodes = <AvroSource *>calloc(len(nodes), sizeof(AvroSource))
    plan.children = <int32_t *>calloc(child_total + 1, sizeof(int32_t))
    try:
        if plan.nodes == NULL or plan.children == NULL:
            raise MemoryError
        child_total = 0
        for index, ((op, argument, null_branch, children), source) in enumerate(zip(nodes, sources)):
            plan.nodes[index].op = op
            plan.nodes[index].argument = argument
            plan.nodes[index].null_branch = null_branch
            plan.nodes[index].child_first = child_total
            plan.nodes[index].child_count = len(children)
            for child in children:
                plan.children[child_total] = child
                child_total += 1
            plan.nodes[index].shift = source[0]
            plan.nodes[index].validity = pinned(pins, source[1])
            plan.nodes[index].offsets = pinned(pins, source[2])
            plan.nodes[index].data = pinned(pins, source[3])
        error = push(&offsets, &first, 4)
        with nogil:
            for row in range(row_count):
                if error:
                    break
                if plan.nodes[0].null_branch >= 0 or not is_null(&plan.nodes[0], row):
                    error = push(&out, head, head_size)
                    if not error:
                        error = write_value(&out, &plan, 0, row)
                    if error:
                        break
                error = push_end(&offsets, out.size)
        if error:
            return (row, error)
        return take(&offsets), take(&out)
    finally:
        free(plan.nodes)
        free(plan.children)
        free(offsets.data)
        free(out.data)


cdef const uint8_t *pinned(list pins, buffer) except? NULL:
    cdef Pin pin
    if buffer is None:
        return NULL
    pin = Pin(buffer)
    pins.append(pin)
    return pin.data

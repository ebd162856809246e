# The schema ids of a batch's records in C; schema_id.py has the twin.

from libc.stdint cimport int16_t
from libc.stdlib cimport free, realloc

cdef enum:
    # The constants of schema_id.py, and SCHEMA_IDS_PER_BATCH_MAX in limits.py.
    TOO_SHORT = -1
    WRONG_MAGIC = -2
    SCHEMA_HEADER_SIZE = 5
    SCHEMA_IDS_MAX = 1024

    SLOT_COUNT = 4096  # a power of two, and large enough that a search finds a free slot soon
    SLOT_SHIFT = 20  # 32 bits less those of SLOT_COUNT
    USES_FIRST = 4


cdef struct IdUse:
    int64_t schema_id
    int record_count  # of those in `records`
    int32_t records[ERRORS_MAX]


cdef struct IdTable:
    IdUse *uses
    int count
    int capacity
    int16_t slots[SLOT_COUNT]  # one more than the place in `uses`; 0 is free


cdef inline int64_t schema_id_of(Field *field) noexcept nogil:
    if field.size < SCHEMA_HEADER_SIZE:
        return TOO_SHORT
    if field.data[0] != 0:
        return WRONG_MAGIC
    return load_big32(field.data + 1)


cdef IdUse *find_use(IdTable *table, int64_t schema_id) noexcept nogil:
    """Return the entry of an id, a new one if it has none; NULL without memory or above the limit."""
    cdef uint32_t slot = (<uint32_t>schema_id * <uint32_t>2654435769) >> SLOT_SHIFT
    cdef IdUse *uses
    cdef int capacity
    while table.slots[slot]:
        if table.uses[table.slots[slot] - 1].schema_id == schema_id:
            return &table.uses[table.slots[slot] - 1]
        slot = (slot + 1) & (SLOT_COUNT - 1)
    if table.count == SCHEMA_IDS_MAX:
        return NULL
    if table.count == table.capacity:
        capacity = table.capacity * 2 if table.capacity else USES_FIRST
        uses = <IdUse *>realloc(table.uses, capacity * sizeof(IdUse))
        if uses == NULL:
            return NULL
        table.uses = uses
        table.capacity = capacity
    table.slots[slot] = <int16_t>(table.count + 1)
    uses = &table.uses[table.count]
    uses.schema_id = schema_id
    uses.record_count = 0
    table.count += 1
    return uses


cdef int read_framed_field(Cursor *body, bint is_key, Field *field) noexcept nogil:
    """Read the key or the value of the record at the cursor and advance the cursor; return the error, if any."""
    cdef Cursor record
    cdef int32_t size = read_varint(body)
    if body.error or size <= 0 or size > body.end - body.at:
        return RECORD_SIZE
    record.at = body.at + 1  # attributes
    record.end = body.at + size
    record.error = OK
    read_varlong(&record)  # after an error, reading goes on within the record
    read_varint(&record)
    read_field(&record, field, -1, FIELD_SIZE)
    if not is_key and not record.error:
        read_field(&record, field, -1, FIELD_SIZE)
    body.at = record.end
    return record.error


cdef int collect_ids(Cursor *body, IdTable *table, int64_t count, bint is_key) noexcept nogil:
    cdef Field field
    cdef IdUse *use = NULL
    cdef int64_t index, schema_id
    cdef int error
    for index in range(count):
        error = read_framed_field(body, is_key, &field)
        if error:
            return error
        if field.size < 0:
            continue
        schema_id = schema_id_of(&field)
        if use == NULL or use.schema_id != schema_id:
            use = find_use(table, schema_id)
            if use == NULL:
                return OK if table.count == SCHEMA_IDS_MAX else TRUNCATED  # which no validated record is
        if use.record_count < ERRORS_MAX:
            use.records[use.record_count] = <int32_t>index
            use.record_count += 1
    return OK


def collect_schema_ids(buffer, Py_ssize_t position, Py_ssize_t end, int64_t count, bint is_key):
    """See the twin `collect_schema_ids_python`."""
    cdef Pin pin = Pin(buffer)
    cdef Cursor body
    cdef IdTable table
    cdef IdUse *use
    cdef int error, at, record
    if not 0 <= position <= end <= pin.size:
        raise ValueError("the records are not within the buffer")
    body.at = pin.data + position
    body.end = pin.data + end
    body.error = OK
    memset(&table, 0, sizeof(table))
    try:
        if end - position < RELEASE_SIZE_BYTES:
            error = collect_ids(&body, &table, count, is_key)
        else:
            with nogil:
                error = collect_ids(&body, &table, count, is_key)
        if error == TRUNCATED:
            raise MemoryError
        if error:
            raise ValueError("the records were not validated")
        found = {}
        for at in range(table.count):
            use = &table.uses[at]
            found[use.schema_id] = tuple([use.records[record] for record in range(use.record_count)])
        return found
    finally:
        free(table.uses)

# The offset map of compaction in C; offset_map.py holds the twin.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdlib cimport calloc, free


cdef struct Slot:
    uint64_t low
    uint64_t high
    int64_t offset_after  # the offset plus one; 0 in a free slot


cdef struct KeyedRecord:
    const uint8_t *start
    const uint8_t *end
    int64_t timestamp_delta
    int32_t offset_delta
    Field key
    bint has_value


cdef struct Kept:
    int64_t count
    bint has_tombstone
    int64_t max_timestamp
    int64_t size


cdef inline int read_keyed(Cursor *body, KeyedRecord *record) noexcept nogil:
    """Read the record at the cursor into `record` and advance the cursor. Headers are not parsed."""
    cdef Cursor fields
    cdef int32_t size, key_size
    record.start = body.at
    size = read_varint(body)
    if body.error:
        return body.error
    if size < 1 or size > body.end - body.at:
        return RECORD_SIZE
    fields.at = body.at + 1  # after the attributes
    fields.end = record.end = body.at = body.at + size
    fields.error = OK
    record.timestamp_delta = read_varlong(&fields)
    if not fields.error:
        record.offset_delta = read_varint(&fields)
    if not fields.error:
        key_size = read_varint(&fields)
    if not fields.error and key_size > fields.end - fields.at:
        return FIELD_SIZE
    if not fields.error:
        record.key.size = key_size
        record.key.data = fields.at
        if key_size > 0:
            fields.at += key_size
        record.has_value = read_varint(&fields) >= 0
    return fields.error


cdef inline uint64_t rotate(uint64_t value, int count) noexcept nogil:
    return (value << count) | (value >> (64 - count))


cdef inline void sip_round(uint64_t *v) noexcept nogil:
    v[0] += v[1]
    v[1] = rotate(v[1], 13) ^ v[0]
    v[0] = rotate(v[0], 32)
    v[2] += v[3]
    v[3] = rotate(v[3], 16) ^ v[2]
    v[0] += v[3]
    v[3] = rotate(v[3], 21) ^ v[0]
    v[2] += v[1]
    v[1] = rotate(v[1], 17) ^ v[2]
    v[2] = rotate(v[2], 32)


cdef void hash_bytes(const uint8_t *data, int64_t size, const uint64_t *secret, Slot *slot) noexcept nogil:
    """SipHash-2-4 with 128 bits."""
    cdef uint64_t v[4]
    cdef uint64_t word
    cdef int64_t left = size
    cdef int index
    v[0] = secret[0] ^ 0x736F6D6570736575u
    v[1] = secret[1] ^ 0x646F72616E646F6Du ^ 0xEEu
    v[2] = secret[0] ^ 0x6C7967656E657261u
    v[3] = secret[1] ^ 0x7465646279746573u
    while left >= 0:
        word = 0
        if left >= 8:
            memcpy(&word, data, 8)
        else:
            memcpy(&word, data, left)
            word |= (<uint64_t>size) << 56
        v[3] ^= word
        sip_round(v)
        sip_round(v)
        v[0] ^= word
        data += 8
        left -= 8
    v[2] ^= 0xEEu
    for index in range(4):
        sip_round(v)
    slot.low = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDDu
    for index in range(4):
        sip_round(v)
    slot.high = v[0] ^ v[1] ^ v[2] ^ v[3]


cdef class OffsetMap:
    """The twin of `PythonOffsetMap`."""

    cdef Slot *slots
    cdef int64_t slot_count
    cdef uint64_t secret[2]
    cdef readonly int64_t size
    cdef readonly int64_t capacity

    def __cinit__(self, int64_t memory_bytes, double load_factor, bytes secret):
        self.slot_count = memory_bytes // <int64_t>sizeof(Slot)
        self.capacity = min(<int64_t>(<double>self.slot_count * load_factor), self.slot_count - 1)
        if self.capacity < 1 or len(secret) != 16:
            raise ValueError("an offset map has room for a key, and a secret")
        memcpy(self.secret, PyBytes_AS_STRING(secret), 16)
        # The system allocates pages on the first write, so an empty map uses no memory.
        self.slots = <Slot *>calloc(self.slot_count, sizeof(Slot))
        if self.slots == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.slots)

    cdef Slot *find(self, const uint8_t *key, int64_t size, Slot *wanted) noexcept nogil:
        """Return the slot of a key, or the free slot where it belongs."""
        cdef int64_t index
        cdef Slot *slot
        hash_bytes(key, size, self.secret, wanted)
        index = <int64_t>(wanted.low % <uint64_t>self.slot_count)
        while True:
            slot = &self.slots[index]
            if (slot.low == wanted.low and slot.high == wanted.high) or slot.offset_after == 0:
                return slot
            index += 1
            if index == self.slot_count:
                index = 0

    cdef bint note(self, const uint8_t *key, int64_t size, int64_t offset) noexcept nogil:
        cdef Slot wanted
        cdef Slot *slot = self.find(key, size, &wanted)
        if slot.offset_after == 0:
            if self.size >= self.capacity:
                return False
            self.size += 1
            slot.low = wanted.low
            slot.high = wanted.high
        slot.offset_after = offset + 1
        return True

    def put(self, bytes key, int64_t offset):
        return bool(self.note(<const uint8_t *>PyBytes_AS_STRING(key), len(key), offset))

    def get(self, bytes key):
        cdef Slot wanted
        return self.find(<const uint8_t *>PyBytes_AS_STRING(key), len(key), &wanted).offset_after - 1

    cdef int note_all(self, Cursor *body, int64_t count, int64_t base_offset, int64_t from_offset) noexcept nogil:
        """Add all keys. Return the error of an invalid record, or -1 if the map is full."""
        cdef KeyedRecord record
        cdef int64_t index
        cdef int error
        for index in range(count):
            error = read_keyed(body, &record)
            if error:
                return error
            if record.key.size >= 0 and base_offset + record.offset_delta >= from_offset:
                if not self.note(record.key.data, record.key.size, base_offset + record.offset_delta):
                    return -1
        return LEFTOVER if body.at != body.end else OK

    def put_records(self, body, int64_t record_count, int64_t base_offset, int64_t from_offset):
        """Return whether all keys fitted, and the error of an invalid record."""
        cdef Pin pin = Pin(body)
        cdef Cursor cursor
        cdef int error
        cursor.at = pin.data
        cursor.end = pin.data + pin.size
        cursor.error = OK
        if pin.size < RELEASE_SIZE_BYTES:
            error = self.note_all(&cursor, record_count, base_offset, from_offset)
        else:
            with nogil:
                error = self.note_all(&cursor, record_count, base_offset, from_offset)
        return error >= 0, max(error, 0)

    cdef bint is_kept(self, KeyedRecord *record, int64_t offset, bint keep_tombstones) noexcept nogil:
        cdef Slot wanted
        if record.key.size < 0 or not (record.has_value or keep_tombstones):
            return False
        return offset >= self.find(record.key.data, record.key.size, &wanted).offset_after - 1

    cdef int keep(
        self, Cursor *body, uint8_t *output, Kept *kept, int64_t count, int64_t base_offset, int64_t base_timestamp,
        int64_t up_to_offset, bint keep_tombstones,
    ) noexcept nogil:
        cdef KeyedRecord record
        cdef const uint8_t *run = body.at
        cdef int64_t index, offset, timestamp
        cdef int error
        for index in range(count):
            error = read_keyed(body, &record)
            if error:
                return error
            offset = base_offset + record.offset_delta
            if offset < up_to_offset and not self.is_kept(&record, offset, keep_tombstones):
                memcpy(output + kept.size, run, record.start - run)
                kept.size += record.start - run
                run = record.end
                continue
            timestamp = base_timestamp + record.timestamp_delta
            kept.count += 1
            kept.has_tombstone = kept.has_tombstone or not record.has_value
            kept.max_timestamp = max(kept.max_timestamp, timestamp)
        if body.at != body.end:
            return LEFTOVER
        if kept.count != count:
            memcpy(output + kept.size, run, body.at - run)
            kept.size += body.at - run
        return OK

    def filter_records(
        self, body, int64_t record_count, int64_t base_offset, int64_t base_timestamp, int64_t up_to_offset,
        bint keep_tombstones,
    ):
        """Return the fields of `KeptRecords`, and the error of an invalid record."""
        cdef Pin pin = Pin(body)
        cdef bytes output = PyBytes_FromStringAndSize(NULL, pin.size)
        cdef uint8_t *target = <uint8_t *>PyBytes_AS_STRING(output)
        cdef Cursor cursor
        cdef Kept kept
        cdef int error
        cursor.at = pin.data
        cursor.end = pin.data + pin.size
        cursor.error = OK
        kept.count = 0
        kept.has_tombstone = False
        kept.max_timestamp = NO_TIMESTAMP
        kept.size = 0
        if pin.size < RELEASE_SIZE_BYTES:
            error = self.keep(
                &cursor, target, &kept, record_count, base_offset, base_timestamp, up_to_offset, keep_tombstones
            )
        else:
            with nogil:
                error = self.keep(
                    &cursor, target, &kept, record_count, base_offset, base_timestamp, up_to_offset, keep_tombstones
                )
        left = None if kept.count == max(record_count, 0) else output[: kept.size]
        return kept.count, bool(kept.has_tombstone), kept.max_timestamp, left, error

# A buffer of another object, held in place as long as the Pin exists.


cdef class Pin:
    cdef Py_buffer view
    cdef uint8_t *data
    cdef int64_t size

    def __cinit__(self, buffer, bint is_writable=False):
        PyObject_GetBuffer(buffer, &self.view, PyBUF_WRITABLE if is_writable else PyBUF_SIMPLE)
        self.data = <uint8_t *>self.view.buf
        self.size = self.view.len

    def __dealloc__(self):
        PyBuffer_Release(&self.view)


# Arrow aligns its own buffers, but a buffer from a file or a socket may begin anywhere.

cdef inline int32_t load_int32(const uint8_t *data, int64_t index) noexcept nogil:
    cdef int32_t value
    memcpy(&value, data + index * 4, 4)
    return value


cdef inline int64_t load_int64(const uint8_t *data, int64_t index) noexcept nogil:
    cdef int64_t value
    memcpy(&value, data + index * 8, 8)
    return value


cdef inline bint is_set(const uint8_t *bitmap, int64_t index) noexcept nogil:
    return (bitmap[index >> 3] >> (index & 7)) & 1

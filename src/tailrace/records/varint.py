"""The signed integers of the record format: zigzag, seven bits in each byte, low bits first.

Kafka reads at most 5 bytes for 32 bits and 10 for 64, and drops bits that do not fit. So do these
functions, because a broker and its clients must read the same number from the same bytes.
"""

from tailrace.records.error import CorruptBatch

_UINT32_MASK = 0xFFFF_FFFF
_UINT64_MASK = 0xFFFF_FFFF_FFFF_FFFF
_VARINT_SHIFT_MAX = 28
_VARLONG_SHIFT_MAX = 63


class VarintCut(CorruptBatch):
    """The bytes end inside the number."""


class VarintTooLong(CorruptBatch):
    """The number has more bytes than allowed."""


def read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return the 32-bit value at `at` and the position after it, which is at most `end`."""
    if at < end and (byte := data[at]) < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    raw, at = _read_raw(data, at, end, _VARINT_SHIFT_MAX)
    raw &= _UINT32_MASK
    return (raw >> 1) ^ -(raw & 1), at


def read_varlong(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return the 64-bit value at `at` and the position after it, which is at most `end`."""
    raw, at = _read_raw(data, at, end, _VARLONG_SHIFT_MAX)
    raw &= _UINT64_MASK
    return (raw >> 1) ^ -(raw & 1), at


def _read_raw(data: bytes, at: int, end: int, shift_max: int) -> tuple[int, int]:
    raw = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return raw, at
        shift += 7
        if shift > shift_max:
            raise VarintTooLong("a varint is too long")
    raise VarintCut("a varint is incomplete")


def write_varint(output: bytearray, value: int) -> None:
    """Append a value of 32 or 64 bits; both are encoded alike."""
    raw = value << 1 if value >= 0 else ~(value << 1)
    while raw > 0x7F:
        output.append(raw & 0x7F | 0x80)
        raw >>= 7
    output.append(raw)


def varint_size(value: int) -> int:
    """Return the number of bytes that `write_varint` appends."""
    raw = value << 1 if value >= 0 else ~(value << 1)
    return max(1, -(-raw.bit_length() // 7))

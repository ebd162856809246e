"""The rules of the codec, each on a message made for it; both codecs must keep them."""

import uuid
from types import ModuleType

import pytest

from tailrace.protocol import codec, reference
from tailrace.protocol.errors import EncodeError, RemoteProtocolError
from tailrace.protocol.message import Message, message, wire
from tailrace.protocol.primitive import (
    BOOLEAN,
    BYTES,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    RECORDS,
    STRING,
    UINT16,
    UUID,
    Buffer,
    Records,
    array,
)

both_codecs = pytest.mark.parametrize("module", [codec, reference], ids=["compiled", "reference"])


class Pair(Message):
    """A struct for a tagged field."""

    left: int = wire(INT16, "0+", default=-1)
    right: int = wire(INT16, "0+", default=-1)


@message(versions="0-3", flexible="2+")
class Sample(Message):
    """Version 0 has the number alone, version 1 the rest as well, versions 2 and 3 the flexible forms."""

    number: int = wire(INT32, "0+")
    text: str = wire(STRING, "1+")
    maybe: str | None = wire(STRING, "1+", nullable="1+", default=None, ignorable=True)
    numbers: list[int] = wire(array(INT32), "1+")
    pair: Pair | None = wire(Pair, "2+", tag=0, tagged="2+")
    label: str = wire(STRING, "2+", tag=3, tagged="2+", ignorable=True)


@message(versions="0-1", flexible="1+")
class Carrier(Message):
    """A message with records, as Produce and Fetch have."""

    before: int = wire(INT8, "0+")
    records: Records = wire(RECORDS, "0+", nullable="0+")
    after: int = wire(INT8, "0+")


@message(versions="0-1", flexible="1+")
class Rare(Message):
    """Types that few messages have."""

    flag: bool = wire(BOOLEAN, "0+")
    port: int = wire(UINT16, "0+")
    share: float = wire(FLOAT64, "0+")
    blob: bytes = wire(BYTES, "0+")
    ids: list[uuid.UUID] = wire(array(UUID), "0+")
    flags: list[bool] = wire(array(BOOLEAN), "0+")


def refuses(module: ModuleType, cls: type[Message], hexadecimal: str, version: int) -> None:
    with pytest.raises(RemoteProtocolError):
        module.decode(cls, bytes.fromhex(hexadecimal), version)


@both_codecs
def test_types_that_few_messages_have(module: ModuleType) -> None:
    rare = Rare(flag=True, port=65535, share=0.5, blob=b"\0", ids=[uuid.UUID(int=1)], flags=[True, False])
    for version in (0, 1):
        encoded = module.encode(rare, version)
        assert module.decode(Rare, encoded, version) == (rare, len(encoded))
    assert module.encode(rare, 1).hex(" ", 1) == (
        "01 ff ff 3f e0 00 00 00 00 00 00 02 00 02" + " 00" * 15 + " 01 03 01 00 00"
    )


@both_codecs
def test_a_version_that_is_not_there(module: ModuleType) -> None:
    with pytest.raises(EncodeError):
        module.encode(Sample(), 4)
    refuses(module, Sample, "00000000", 4)


@both_codecs
def test_a_value_that_the_version_cannot_carry_is_refused_unless_ignorable(module: ModuleType) -> None:
    assert module.encode(Sample(number=1, maybe="dropped", label="dropped"), 0) == b"\0\0\0\1"
    for sample in (Sample(text="x"), Sample(numbers=[1]), Sample(pair=Pair())):
        with pytest.raises(EncodeError):
            module.encode(sample, 0)


@both_codecs
def test_what_a_version_lacks_is_read_as_its_default(module: ModuleType) -> None:
    assert module.decode(Sample, b"\0\0\0\1", 0) == (Sample(number=1), 4)


@both_codecs
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    "sample",
    [
        Sample(text=None),  # type: ignore[arg-type]
        Sample(numbers=None),  # type: ignore[arg-type]
        Sample(number=2**31),
        Sample(text="x" * 32768),
        Sample(number=None),  # type: ignore[arg-type]
    ],
    ids=["null string", "null array", "too great", "too long", "null number"],
)
def test_values_that_do_not_fit(module: ModuleType, sample: Sample, version: int) -> None:
    with pytest.raises(EncodeError):
        module.encode(sample, version)


@both_codecs
def test_the_longest_string(module: ModuleType) -> None:
    sample = Sample(text="x" * 32767)
    for version in (1, 2):
        encoded = module.encode(sample, version)
        assert module.decode(Sample, encoded, version) == (sample, len(encoded))


@both_codecs
def test_a_tagged_struct_is_sent_when_it_is_set_even_to_defaults(module: ModuleType) -> None:
    assert module.encode(Sample(pair=Pair()), 2).hex(" ") == "00 00 00 00 01 00 01 01 00 05 ff ff ff ff 00"
    assert module.encode(Sample(pair=None), 2).hex(" ") == "00 00 00 00 01 00 01 00"


@both_codecs
def test_tagged_fields_come_in_any_order_and_the_last_one_counts(module: ModuleType) -> None:
    """Kafka asks for ascending tags but reads them as they come."""
    body = "00000000 01 00 01"
    sample = Sample(label="b")
    for tags in ("02 03 02 02 61 03 02 02 62", "02 03 02 02 62 01 00", "02 01 03 aabbcc 03 02 02 62"):
        data = bytes.fromhex(body + tags)
        assert module.decode(Sample, data, 2) == (sample, len(data))


@both_codecs
@pytest.mark.parametrize(
    "tags",
    [
        "01 03 03 02 62 00",
        "01 03 01 02 62",
        "01 00 04 0001 0002 00",
        "01 09 05 00",
        "01 09 ff ff ff ff 0f",
        "ff ff ff ff 0f",
        "02 03 02 02 62",
    ],
    ids=["longer", "shorter", "struct cut", "unknown past end", "huge size", "huge count", "one missing"],
)
def test_a_tagged_section_that_lies(module: ModuleType, tags: str) -> None:
    refuses(module, Sample, "00000000 01 00 01" + tags, 2)


@both_codecs
@pytest.mark.parametrize(
    ("version", "body"),
    [
        (1, "00000000 ffff 0000 00000000"),
        (1, "00000000 8000 0000 00000000"),
        (1, "00000000 0000 fffe 00000000"),
        (1, "00000000 0000 ffff ffffffff"),
        (1, "00000000 0000 ffff fffffffe"),
        (1, "00000000 0002 61"),
        (1, "00000000 0001 ff ffff 00000000"),
        (1, "00000000 0000 ffff 00000002 00000001 0000"),
        (2, "00000000 00 00 01 00"),
        (2, "00000000 01 00 00 00"),
        (2, "00000000 02 ff 00 01 00"),
        (2, "00000000 8080808000 00 01 00 00"),
        (2, "00000000 8080808080 00 01 00"),
        (2, "00000000 ffffffff1f 00 01 00"),
        (2, "00000000 818002" + "61" * 32768 + "00 01 00"),
    ],
    ids=[
        "null string",
        "negative length",
        "length of -2",
        "null array",
        "count of -2",
        "string past end",
        "not UTF-8",
        "count past end",
        "compact null string",
        "compact null array",
        "compact not UTF-8",
        "padded zero is null",
        "varint of six bytes",
        "varint of 33 bits",
        "string of 32768 bytes",
    ],
)
def test_bodies_that_lie(module: ModuleType, version: int, body: str) -> None:
    refuses(module, Sample, body, version)


@both_codecs
@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("records", [b"batch", b"", None, [b"ba", memoryview(b"tch")], [], bytearray(300)])
def test_records_in_any_form(module: ModuleType, records: Records, version: int) -> None:
    plain = b"".join(records) if isinstance(records, list) else records
    encoded = module.encode(Carrier(before=1, records=records, after=2), version)
    carrier, position = module.decode(Carrier, encoded, version)
    assert carrier == Carrier(before=1, records=plain, after=2)
    assert position == len(encoded)


def test_records_are_passed_on_without_a_copy() -> None:
    first, second = bytearray(b"ba"), memoryview(b"tch")
    forms: list[Records] = [first, second, [first, second]]
    for records in forms:
        pieces: list[Buffer] = []
        codec.encode_into(Carrier(records=records), 1, pieces)
        for piece in records if isinstance(records, list) else [records]:
            assert any(found is piece for found in pieces)


@both_codecs
def test_records_are_read_as_a_view(module: ModuleType) -> None:
    encoded = bytearray(codec.encode(Carrier(records=b"batch"), 1))
    carrier, _ = module.decode(Carrier, encoded, 1)
    encoded[2:7] = b"BATCH"
    assert carrier.records == b"BATCH"

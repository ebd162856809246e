"""The cache of parsed schemas, which is bounded by their number and by the length of their texts."""

from tests.unit.registry.core.registered import record

from tailrace.base.schema_limits import REGISTRY_PARSED_BYTES_MAX, REGISTRY_PARSED_COUNT_MAX
from tailrace.registry.core.parser import SchemaCache, SchemaParser
from tailrace.registry.core.state import State
from tailrace.schema import avro
from tailrace.schema.language import Schema, SchemaType

Key = tuple[SchemaType, str, tuple[tuple[str, str], ...]]

TEXT = avro.parse(record("x")).text
SCHEMA: Schema = avro.parse(TEXT)


def key(name: str, size_bytes: int = 0) -> Key:
    """Return the key of a schema that imports a text of some length."""
    return SchemaType.AVRO, TEXT, ((name, "x" * (size_bytes - len(TEXT))),)


def find(cache: SchemaCache, *keys: Key) -> list[bool]:
    return [cache.find(each, is_new=False) is not None for each in keys]


def test_texts_are_bounded_in_bytes_and_the_oldest_makes_room() -> None:
    """A cache that was bounded by the number of schemas alone kept a thousand large ones, which are gigabytes."""
    cache = SchemaCache()
    keys = [key(str(number), REGISTRY_PARSED_BYTES_MAX // 2) for number in range(3)]
    for each in keys[:2]:
        cache.add(each, SCHEMA, is_new=False)
    assert find(cache, *keys) == [True, True, False]
    assert find(cache, keys[0]) == [True]
    cache.add(keys[2], SCHEMA, is_new=False)
    assert find(cache, *keys) == [True, False, True], "the one that was used last stays"
    small = key("small", len(TEXT))
    cache.add(small, SCHEMA, is_new=False)
    assert find(cache, small) == [True]
    assert len(cache) == 2


def test_a_schema_that_is_parsed_again_is_counted_once() -> None:
    cache = SchemaCache()
    half, other = key("half", REGISTRY_PARSED_BYTES_MAX // 2), key("other", REGISTRY_PARSED_BYTES_MAX // 2)
    cache.add(other, SCHEMA, is_new=False)
    for is_new in (False, True, True):
        cache.add(half, SCHEMA, is_new=is_new)
    assert find(cache, half, other) == [True, True]


def test_a_schema_above_the_limit_does_not_push_the_others_out() -> None:
    cache = SchemaCache()
    small, large = key("small", len(TEXT)), key("large", REGISTRY_PARSED_BYTES_MAX + 1)
    cache.add(small, SCHEMA, is_new=False)
    cache.add(large, SCHEMA, is_new=False)
    assert find(cache, small, large) == [True, False]


def test_schemas_are_bounded_in_number() -> None:
    cache = SchemaCache()
    for number in range(REGISTRY_PARSED_COUNT_MAX + 10):
        cache.add(key(str(number), len(TEXT)), SCHEMA, is_new=False)
    assert len(cache) == REGISTRY_PARSED_COUNT_MAX


def test_parsers_share_a_cache_from_its_first_schema_on() -> None:
    """A cache without schemas was false, so each parser made one of its own."""
    cache = SchemaCache()
    parsed = SchemaParser(State(), cache).parse("a", SchemaType.AVRO, TEXT)
    assert SchemaParser(State(), cache).parse("b", SchemaType.AVRO, TEXT) is parsed

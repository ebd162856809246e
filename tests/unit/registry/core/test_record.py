"""Records of `_schemas`, as Confluent's registry writes them."""

import json

import pytest
from tests.unit.registry.answers.compare import RECORDS

from tailrace.registry.core.entity import Config, Level, Metadata, Mode, RuleSet
from tailrace.registry.core.record import Change, Entry, Kind, decode, encode, guid_of
from tailrace.schema.language import Reference, SchemaType

SCHEMA_KEY = b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}'

ENTRY = Entry(
    subject="orders-value",
    version=2,
    id=7,
    type=SchemaType.JSON,
    text='{"type":"object"}',
    references=(Reference("user.json", "user", 1),),
    metadata=Metadata(properties={"owner": "ann"}, tags={"a": ["z", "b"]}),
    rule_set=RuleSet.model_validate(
        {"domainRules": [{"name": "r", "kind": "CONDITION", "mode": "WRITE", "type": "CEL"}]}
    ),
)


@pytest.mark.parametrize(
    "change",
    [
        Change(Kind.SCHEMA, "orders-value", 2, ENTRY),
        Change(Kind.SCHEMA, "orders-value", 2, ENTRY.deleted()),
        Change(Kind.SCHEMA, "orders-value", 2),
        Change(Kind.CONFIG, None, value=Config(compatibility_level=Level.FULL, normalize=True)),
        Change(Kind.CONFIG, "a"),
        Change(Kind.MODE, "a", value=Mode.IMPORT),
        Change(Kind.DELETE_SUBJECT, "a", value=3),
        Change(Kind.CLEAR_SUBJECT, "a", value=0),
        Change(Kind.CONTEXT, ".eu", value=0),
        Change(Kind.NOOP, value={".": 5}),
        Change(Kind.NOOP),
    ],
)
def test_a_record_is_read_as_it_was_written(change: Change) -> None:
    assert decode(*encode(change)) == change


def test_keys_are_bytes_for_bytes_those_of_confluent() -> None:
    """Compaction compares keys as bytes, so two registries must write the same key for the same thing."""
    keys = {
        Change(Kind.SCHEMA, "a", 1): b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}',
        Change(Kind.CONFIG, None): b'{"keytype":"CONFIG","magic":0}',
        Change(Kind.MODE, "a"): b'{"keytype":"MODE","subject":"a","magic":0}',
        Change(Kind.DELETE_SUBJECT, "a"): b'{"keytype":"DELETE_SUBJECT","subject":"a","magic":0}',
        Change(Kind.CLEAR_SUBJECT, "a"): b'{"keytype":"CLEAR_SUBJECT","subject":"a","magic":0}',
        Change(Kind.CONTEXT, ".eu"): b'{"keytype":"CONTEXT","tenant":"default","context":".eu","magic":0}',
        Change(Kind.NOOP): b'{"keytype":"NOOP","magic":0}',
    }
    for change, key in keys.items():
        assert encode(change)[0] == key


def test_old_records_say_less() -> None:
    """Confluent's first versions wrote neither the type nor references, and no md5."""
    key = b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}'
    value = json.dumps({"subject": "a", "version": 1, "id": 1, "schema": '"string"', "deleted": False}).encode()
    assert decode(key, value).value == Entry("a", 1, 1, SchemaType.AVRO, '"string"')


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", None),
        (b"[]", None),
        (b"{}", None),
        (b'{"keytype":"OTHER"}', None),
        (b'{"keytype":"SCHEMA","subject":"a","version":1}', b"{}"),
        (b'{"keytype":"SCHEMA","subject":"a","version":1}', b"[1]"),
        (b'{"keytype":"MODE","subject":"a"}', b'{"mode":"LOUD"}'),
        (b"\xff", b"\xff"),
        (SCHEMA_KEY, b'{"subject":"a","version":1,"id":1,"schema":null}'),
        (SCHEMA_KEY, b'{"subject":"a","version":1,"id":1,"schema":"\\ud800"}'),
        (SCHEMA_KEY, b'{"subject":["a"],"version":1,"id":1,"schema":"x"}'),
        (SCHEMA_KEY, b'{"subject":"b","version":1,"id":1,"schema":"x"}'),
        (SCHEMA_KEY, b'{"subject":"a","version":1,"id":99999999999,"schema":"x"}'),
        (
            SCHEMA_KEY,
            b'{"subject":"a","version":1,"id":1,"schema":"x","references":[{"name":"n","subject":"s","version":99999999999}]}',
        ),
        (SCHEMA_KEY, b"[" * 100_000),
        (b'{"keytype":"CONFIG","subject":["a"]}', None),
        (b'{"keytype":"SCHEMA","subject":"a","version":[1]}', None),
        (
            b'{"keytype":"ASSOC","resourceName":["a"],"resourceNamespace":"n","resourceType":"topic",'
            b'"associationType":"value","subject":"s"}',
            None,
        ),
    ],
)
def test_what_is_no_record_of_a_registry_is_refused(key: bytes, value: bytes | None) -> None:
    with pytest.raises(ValueError, match="not a record of a schema registry"):
        decode(key, value)


def test_a_guid_is_the_digest_of_all_that_a_schema_is() -> None:
    """The first is what Confluent's registry 8.3.1 answers for the schema "string"."""
    assert guid_of('"string"') == "095d71cf-1255-6b9d-5e33-0ad575b3df5d"
    assert len({guid_of('"string"'), guid_of('"string"', metadata=Metadata()), ENTRY.guid}) == 3


@pytest.mark.parametrize("story", json.loads(RECORDS.read_text())["stories"])
def test_the_records_of_confluents_registry_are_read_and_written_alike(story: str) -> None:
    """Compaction compares the bytes of keys: a config that one registry deletes must go if the other one wrote it."""
    for key, value in json.loads(RECORDS.read_text())["stories"][story]:
        written_key, written = encode(decode(key.encode(), None if value is None else value.encode()))
        assert written_key.decode() == key
        assert (written is None) == (value is None)
        assert written is None or json.loads(written) == json.loads(value)

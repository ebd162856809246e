"""Registering schemas, their ids, versions and references."""

import pytest
from tests.unit.registry.core.registered import Registered, record

from tailrace.registry.core.entity import Config, Level, Metadata, Mode, RuleSet
from tailrace.registry.core.error import Code, RegistryError
from tailrace.registry.core.record import Change, Kind
from tailrace.registry.core.register import Draft, Found, look_up
from tailrace.schema.language import Reference, SchemaType


def test_ids_count_up_and_versions_count_in_each_subject() -> None:
    registered = Registered()
    first = registered.register("a", record("x"))
    second = registered.register("a", record("x", "y="))
    third = registered.register("b", record("z"))
    assert [(entry.id, entry.version) for entry in (first, second, third)] == [(1, 1), (2, 2), (3, 1)]


def test_the_same_schema_keeps_its_id_and_its_version() -> None:
    registered = Registered()
    first = registered.register("a", record("x"))
    written = len(registered.written)
    assert registered.register("a", '{"fields": [{"type":"string", "name":"x"}], "type":"record", "name":"R"}') == first
    assert len(registered.written) == written, "nothing is written again"
    assert registered.register("b", record("x")).id == first.id, "another subject has the same schema under the same id"


def test_contexts_count_their_own_ids() -> None:
    registered = Registered()
    registered.register("a", record("x"))
    assert registered.register(":.eu:a", record("y")).id == 1
    assert registered.state.contexts == [".", ".eu"]
    assert registered.register(":.eu:b", record("x", "z=")).id == 2


def test_an_incompatible_schema_is_refused_with_the_field_that_breaks_it() -> None:
    registered = Registered()
    registered.register("a", record("x"))
    with pytest.raises(RegistryError) as caught:
        registered.register("a", record("x", "added"))
    assert caught.value.code is Code.INCOMPATIBLE_SCHEMA
    assert caught.value.code.status == 409
    for part in ('"a"', "READER_FIELD_MISSING_DEFAULT_VALUE", "added", "oldSchemaVersion: 1", "BACKWARD"):
        assert part in caught.value.message
    assert registered.register("a", record("x", "added"), force=True).version == 2


@pytest.mark.parametrize(
    ("level", "refused"),
    [
        (Level.NONE, False),
        (Level.BACKWARD, False),
        (Level.BACKWARD_TRANSITIVE, True),
        (Level.FORWARD, True),
        (Level.FORWARD_TRANSITIVE, True),
        (Level.FULL, True),
        (Level.FULL_TRANSITIVE, True),
    ],
)
def test_each_level_compares_with_its_versions_in_its_directions(level: Level, refused: bool) -> None:
    """Version 3 has x without a default: it reads version 2, which has x, and not version 1, which has not."""
    registered = Registered()
    registered.register("a", record("y"))
    registered.register("a", record("y", "x="))
    registered.write([Change(Kind.CONFIG, "a", value=Config(compatibility_level=level))])
    if not refused:
        assert registered.register("a", record("x")).version == 3
        return
    with pytest.raises(RegistryError) as caught:
        registered.register("a", record("x"))
    assert caught.value.code is Code.INCOMPATIBLE_SCHEMA


def test_the_config_of_the_subject_counts_before_that_of_its_context_and_of_all() -> None:
    registered = Registered()
    for scope, level in (
        (None, Level.FULL),
        (":.eu:", Level.NONE),
        ("a", Level.FORWARD),
        (":.__GLOBAL:", Level.BACKWARD),
    ):
        registered.write([Change(Kind.CONFIG, scope, value=Config(compatibility_level=level))])
    found = {
        subject: registered.state.config(subject).compatibility_level for subject in ("a", "b", ":.eu:c", ":.us:d")
    }
    assert found == {"a": Level.FORWARD, "b": Level.FULL, ":.eu:c": Level.NONE, ":.us:d": Level.BACKWARD}


def test_a_compatibility_group_separates_versions() -> None:
    registered = Registered()
    registered.write([Change(Kind.CONFIG, "a", value=Config(compatibility_group="major"))])
    registered.register("a", record("x"), metadata=Metadata(properties={"major": "1"}))
    assert registered.register("a", record("y"), metadata=Metadata(properties={"major": "2"})).version == 2
    with pytest.raises(RegistryError):
        registered.register("a", record("z"), metadata=Metadata(properties={"major": "2"}))


# --- what a schema is made of


def test_metadata_and_rules_make_another_schema() -> None:
    registered = Registered()
    plain = registered.register("a", record("x"))
    owned = registered.register("a", record("x"), metadata=Metadata(properties={"owner": "ann"}))
    ruled = registered.register("a", record("x"), rule_set=RuleSet.model_validate({"domainRules": [{"name": "r"}]}))
    assert len({plain.id, owned.id, ruled.id}) == 3
    assert ruled.metadata == owned.metadata, "a version takes over what the one before it has"


def test_an_empty_schema_repeats_the_last_one_with_new_metadata() -> None:
    registered = Registered()
    registered.register("a", record("x"))
    again = registered.register("a", "", metadata=Metadata(properties={"owner": "ann"}))
    assert (again.version, again.text) == (2, registered.state.versions("a")[0].text)
    with pytest.raises(RegistryError, match="Empty schema"):
        registered.register("b", "")


def test_defaults_and_overrides_of_the_config_are_added() -> None:
    registered = Registered()
    config = Config(
        default_metadata=Metadata(properties={"team": "core", "tier": "1"}),
        override_metadata=Metadata(properties={"tier": "2"}),
    )
    registered.write([Change(Kind.CONFIG, "a", value=config)])
    entry = registered.register("a", record("x"), metadata=Metadata(properties={"team": "web"}))
    assert entry.metadata == Metadata(properties={"team": "web", "tier": "2"})


# --- references


def test_a_reference_brings_the_named_type_of_another_subject() -> None:
    registered = Registered()
    registered.register("user", record("name", name="User"))
    entry = registered.register(
        "order",
        '{"type":"record","name":"Order","fields":[{"name":"by","type":"User"}]}',
        [Reference("User", "user", 1)],
    )
    assert registered.state.referrers(("user", 1)) == [entry]


def test_a_reference_that_does_not_exist_is_refused_by_name() -> None:
    registered = Registered()
    with pytest.raises(RegistryError, match=r"'User'.*'user' has no version 7") as caught:
        registered.register("order", record("x"), [Reference("User", "user", 7)])
    assert caught.value.code is Code.INVALID_SCHEMA
    assert registered.written == []


def test_references_in_a_circle_are_refused() -> None:
    """A circle can only be imported: each of its schemas needs the other one first."""
    registered = Registered()
    registered.register("a", record("x", name="A"))
    entry = registered.state.versions("a")[0]
    for name, other in (("a", "b"), ("b", "a")):
        circular = Change(
            Kind.SCHEMA,
            name,
            1,
            value=type(entry)(name, 1, 5 + ord(name), entry.type, entry.text, (Reference("X", other, 1),)),
        )
        registered.write([circular])
    with pytest.raises(RegistryError, match="circle: a version 1 -> b version 1 -> a version 1"):
        registered.register("c", record("x"), [Reference("A", "a", 1)])


def test_the_latest_version_can_be_referred_to() -> None:
    registered = Registered()
    registered.register("user", record("name", name="User"))
    registered.register("user", record("name", "mail=", name="User"))
    text = '{"type":"record","name":"Order","fields":[{"name":"by","type":"User"}]}'
    latest = registered.register("order", text, [Reference("User", "user", -1)])
    assert registered.register("order", text, [Reference("User", "user", 2)]) == latest


# --- looking up


def test_a_schema_is_found_by_its_text_in_any_notation() -> None:
    registered = Registered()
    entry = registered.register("a", '"string"')
    assert look_up(registered.state, registered.parser, Draft("a", '{ "type": "string" }')) == Found(
        entry, is_exact=True
    )
    assert look_up(registered.state, registered.parser, Draft("a", '"int"')) is None
    assert look_up(registered.state, registered.parser, Draft("b", '"string"')) is None


def test_deleted_versions_are_found_only_if_asked_for() -> None:
    registered = Registered()
    registered.register("a", '"string"')
    registered.delete("a", 1)
    draft = Draft("a", '"string"')
    assert look_up(registered.state, registered.parser, draft) is None
    found = look_up(registered.state, registered.parser, draft, with_deleted=True)
    assert found is not None
    assert found.entry.is_deleted


# --- modes


@pytest.mark.parametrize("mode", [Mode.READONLY, Mode.READONLY_OVERRIDE])
def test_nothing_is_registered_where_one_may_only_read(mode: Mode) -> None:
    registered = Registered()
    registered.write([Change(Kind.MODE, None, value=mode)])
    with pytest.raises(RegistryError, match="read-only") as caught:
        registered.register("a", '"string"')
    assert caught.value.code is Code.NOT_PERMITTED


def test_imported_schemas_bring_their_ids_and_versions() -> None:
    registered = Registered()
    with pytest.raises(RegistryError, match="not in import mode"):
        registered.register("a", '"string"', id=100)
    registered.write([Change(Kind.MODE, "a", value=Mode.IMPORT)])
    with pytest.raises(RegistryError, match="not in read-write mode"):
        registered.register("a", '"string"')
    entry = registered.register("a", '"string"', id=100, version=7)
    assert (entry.id, entry.version) == (100, 7)
    with pytest.raises(RegistryError, match="id 100") as caught:
        registered.register("a", '"int"', id=100)
    assert caught.value.code is Code.NOT_PERMITTED
    assert registered.register("b", '"int"').id == 101, "an id that was imported is not given out again"


def test_a_version_must_be_the_next_one() -> None:
    registered = Registered()
    with pytest.raises(RegistryError, match="not one more"):
        registered.register("a", '"string"', version=5)
    assert registered.register("a", '"string"', version=1).version == 1


@pytest.mark.parametrize("kind", list(SchemaType))
def test_a_text_that_is_no_schema_is_refused(kind: SchemaType) -> None:
    registered = Registered()
    with pytest.raises(RegistryError, match=f"Invalid schema of type {kind}") as caught:
        registered.register("a", "{", type=kind)
    assert caught.value.code is Code.INVALID_SCHEMA


def test_an_avro_schema_with_its_members_in_another_order_is_the_same() -> None:
    registered = Registered()
    entry = registered.register("a", '{"type":"record","name":"R","fields":[],"z":1,"a":{"y":1,"b":2}}')
    other = '{"type":"record","name":"R","a":{"b":2,"y":1},"z":1,"fields":[]}'
    assert look_up(registered.state, registered.parser, Draft("a", other)) == Found(entry, is_exact=False)
    assert registered.register("a", other) == entry


def test_a_version_property_makes_a_new_version_unless_it_names_the_version_it_has() -> None:
    registered = Registered()
    numbered = Metadata(properties={"confluent:version": "5"})
    registered.register("a", '"int"')
    assert registered.register("a", '"int"', metadata=numbered).version == 2
    third = registered.register("a", '"int"', metadata=numbered)
    assert third.version == 3
    assert third.metadata == Metadata(properties={"confluent:version": "3"})


def test_a_draft_of_the_latest_version_is_compared_with_that_one_alone() -> None:
    registered = Registered()
    registered.register("a", '"int"')
    registered.register("a", '"long"')
    assert look_up(registered.state, registered.parser, Draft("a", '"int"', version=-1)) is None


def test_a_new_schema_cannot_refer_to_a_deleted_version() -> None:
    registered = Registered()
    registered.register("user", record("name", name="User"))
    registered.delete("user", 1)
    text = '{"type":"record","name":"Order","fields":[{"name":"by","type":"User"}]}'
    with pytest.raises(RegistryError, match="is deleted") as raised:
        registered.register("order", text, [Reference("User", "user", 1)])
    assert raised.value.code is Code.INVALID_SCHEMA


# --- reserved fields

RESERVING = Metadata(properties={"confluent:reserved": "old, older"})
VALIDATING = Config(validate_fields=True)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (SchemaType.AVRO, record("old")),
        (SchemaType.JSON, '{"type":"object","properties":{"old":{"type":"string"}}}'),
        (SchemaType.PROTOBUF, 'syntax = "proto3"; message M { string old = 1; }'),
    ],
)
def test_a_schema_cannot_use_a_field_that_it_reserves(kind: SchemaType, text: str) -> None:
    registered = Registered()
    assert registered.register("free", text, metadata=RESERVING, type=kind).version == 1
    registered.write([Change(Kind.CONFIG, "a", value=VALIDATING)])
    with pytest.raises(RegistryError, match=r"FIELD_CONFLICTS_WITH_RESERVED_FIELD.*field old,") as raised:
        registered.register("a", text, metadata=RESERVING, type=kind)
    assert raised.value.code is Code.INCOMPATIBLE_SCHEMA


def test_a_schema_cannot_give_a_reserved_field_up() -> None:
    registered = Registered()
    registered.write([Change(Kind.CONFIG, "a", value=VALIDATING)])
    registered.register("a", record("new"), metadata=RESERVING)
    with pytest.raises(RegistryError, match=r"RESERVED_FIELD_REMOVED.*reserves field older"):
        registered.register("a", record("new"), metadata=Metadata(properties={"confluent:reserved": "old"}))


def test_an_id_whose_version_was_overwritten_is_not_given_to_another_schema() -> None:
    """An import may write a version again with another id. Compaction then drops the only record that had the first."""
    registered = Registered()
    registered.write([Change(Kind.MODE, None, value=Mode.IMPORT)])
    registered.register("a", '"string"', id=5, version=1)
    registered.register("a", '"int"', id=2, version=1)
    again = registered.compacted()
    again.write([Change(Kind.MODE, None, value=Mode.READWRITE)])
    assert again.register("b", '"long"').id == 6


def test_a_schema_that_has_two_ids_keeps_the_one_that_is_left() -> None:
    """Only an import gives a schema two ids. When one of them was deleted, the schema was taken for a new one."""
    registered = Registered()
    registered.write([Change(Kind.MODE, None, value=Mode.IMPORT)])
    registered.register("a", '"string"', id=3, version=1)
    registered.register("b", '"string"', id=5, version=1)
    registered.write([Change(Kind.MODE, None, value=Mode.READWRITE)])
    registered.delete("b")
    registered.delete("b", is_permanent=True)
    assert registered.register("c", '"string"').id == 3


def test_an_id_whose_only_version_was_overwritten_means_its_schema_for_good() -> None:
    """The id was free after that, so that an import could give it to another schema: records with it would be read with
    the wrong one. Confluent's registry refuses that too."""
    registered = Registered()
    registered.write([Change(Kind.MODE, None, value=Mode.IMPORT)])
    registered.register("a", record("x"), id=10, version=1)
    registered.register("a", record("y"), id=20, version=1)
    for other in (record("z"), record("y")):
        with pytest.raises(RegistryError) as caught:
            registered.register("b", other, id=10, version=1)
        assert caught.value.code is Code.NOT_PERMITTED
    assert registered.register("b", record("x"), id=10, version=1).id == 10
    assert registered.register("a", record("y"), id=20, version=2).id == 20


def test_an_id_that_was_overwritten_is_free_when_its_version_is_removed() -> None:
    registered = Registered()
    registered.write([Change(Kind.MODE, None, value=Mode.IMPORT)])
    registered.register("a", record("x"), id=10, version=1)
    registered.register("a", record("y"), id=20, version=1)
    registered.delete("a")
    registered.delete("a", is_permanent=True)
    assert registered.register("b", record("z"), id=10, version=1).id == 10

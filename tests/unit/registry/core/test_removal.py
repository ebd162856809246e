"""Deleting versions, subjects and contexts, and what becomes of their ids."""

import pytest
from tests.unit.registry.core.registered import Registered, record

from tailrace.registry.core.entity import Config, Level, Mode
from tailrace.registry.core.error import Code, RegistryError
from tailrace.registry.core.record import Change, Kind
from tailrace.registry.core.removal import delete_context
from tailrace.registry.core.scope import delete_mode, set_mode
from tailrace.schema.language import Reference


def refused(registered: Registered, subject: str, version: int | None = None, *, is_permanent: bool = False) -> Code:
    """Return the code with which a deletion is refused."""
    with pytest.raises(RegistryError) as caught:
        registered.delete(subject, version, is_permanent=is_permanent)
    return caught.value.code


def test_a_soft_delete_hides_a_version_and_keeps_its_id() -> None:
    registered = Registered()
    entry = registered.register("a", '"string"')
    assert registered.delete("a", 1) == (1,)
    assert registered.state.versions("a") == []
    assert registered.state.subjects() == []
    found = registered.state.entry_of_id(entry.id)
    assert found is not None
    assert found.text == entry.text


def test_versions_are_deleted_in_two_steps() -> None:
    registered = Registered()
    registered.register("a", '"string"')
    assert refused(registered, "b", 1) is Code.SUBJECT_NOT_FOUND
    assert refused(registered, "a", 2) is Code.VERSION_NOT_FOUND
    assert refused(registered, "a", 1, is_permanent=True) is Code.VERSION_NOT_SOFT_DELETED
    registered.delete("a", 1)
    assert refused(registered, "a", 1) is Code.VERSION_SOFT_DELETED
    registered.delete("a", 1, is_permanent=True)
    assert refused(registered, "a", 1, is_permanent=True) is Code.SUBJECT_NOT_FOUND


def test_subjects_are_deleted_in_two_steps() -> None:
    registered = Registered()
    registered.register("a", record("x"))
    registered.register("a", record("x", "y="))
    assert refused(registered, "b") is Code.SUBJECT_NOT_FOUND
    assert refused(registered, "a", is_permanent=True) is Code.SUBJECT_NOT_SOFT_DELETED
    assert registered.delete("a") == (1, 2)
    assert refused(registered, "a") is Code.SUBJECT_SOFT_DELETED
    assert registered.delete("a", is_permanent=True) == (1, 2)
    assert registered.state.subjects(with_deleted=True) == []


def test_versions_go_on_counting_after_a_soft_delete_and_start_anew_after_a_hard_one() -> None:
    registered = Registered()
    registered.register("a", '"string"')
    registered.delete("a")
    assert registered.register("a", '"int"').version == 2
    registered.delete("a")
    registered.delete("a", is_permanent=True)
    assert registered.register("a", '"long"').version == 1


def test_an_id_is_never_used_again_even_after_compaction() -> None:
    """Compaction drops the records of a schema that was deleted for good, and with them the highest id."""
    registered = Registered()
    registered.register("a", '"string"')
    registered.register("b", '"int"')
    registered.delete("b")
    registered.delete("b", is_permanent=True)
    again = registered.compacted()
    assert again.state.entry_of_id(2) is None
    assert again.register("c", '"long"').id == 3


def test_a_schema_that_is_registered_again_gets_its_old_id_and_replaces_its_deleted_version() -> None:
    registered = Registered()
    registered.register("a", '"string"')
    registered.delete("a", 1)
    again = registered.register("a", '"string"')
    assert (again.id, again.version) == (1, 2)
    assert [entry.version for entry in registered.state.versions("a", with_deleted=True)] == [2]


def test_what_others_refer_to_cannot_be_deleted() -> None:
    registered = Registered()
    registered.register("user", record("x", name="User"))
    text = '{"type":"record","name":"O","fields":[{"name":"u","type":"User"}]}'
    registered.register("order", text, [Reference("User", "user", 1)])
    assert refused(registered, "user", 1) is Code.REFERENCE_EXISTS
    assert refused(registered, "user") is Code.REFERENCE_EXISTS
    registered.delete("order")
    assert registered.delete("user", 1) == (1,)
    assert refused(registered, "user", 1, is_permanent=True) is Code.REFERENCE_EXISTS, "the order could come back"
    registered.delete("order", is_permanent=True)
    registered.delete("user", 1, is_permanent=True)


def test_the_config_and_the_mode_of_a_subject_end_with_it() -> None:
    registered = Registered()
    registered.register("a", '"string"')
    registered.write([Change(Kind.CONFIG, "a", value=Config(compatibility_level=Level.FULL))])
    registered.write([Change(Kind.MODE, "a", value=Mode.READWRITE)])
    registered.delete("a")
    assert "a" in registered.state.configs
    registered.delete("a", is_permanent=True)
    assert (registered.state.configs, registered.state.modes) == ({}, {})


def test_a_context_is_deleted_when_it_is_empty() -> None:
    registered = Registered()
    registered.register(":.eu:a", '"string"')
    with pytest.raises(RegistryError) as caught:
        delete_context(registered.state, ".eu")
    assert caught.value.code is Code.CONTEXT_NOT_EMPTY
    registered.delete(":.eu:a")
    registered.delete(":.eu:a", is_permanent=True)
    registered.write(delete_context(registered.state, ".eu"))
    assert registered.state.contexts == ["."]


# --- modes


def test_import_needs_a_scope_without_schemas() -> None:
    registered = Registered()
    registered.register("a", '"string"')
    with pytest.raises(RegistryError, match="existing subjects") as caught:
        set_mode(registered.state, "a", Mode.IMPORT, force=False)
    assert caught.value.code is Code.NOT_PERMITTED
    registered.delete("a")
    registered.write(set_mode(registered.state, "a", Mode.IMPORT, force=False))
    assert registered.state.versions("a", with_deleted=True) == []
    assert registered.state.mode("a") is Mode.IMPORT
    assert registered.register("a", '"int"', id=50, version=1).id == 50
    assert registered.compacted().state.max_id(".") == 50


def test_a_forced_import_keeps_what_is_there() -> None:
    registered = Registered()
    registered.register("a", '"string"')
    registered.write(set_mode(registered.state, None, Mode.IMPORT, force=True))
    assert len(registered.state.versions("a")) == 1


def test_the_modes_of_a_context_are_deleted_together() -> None:
    registered = Registered()
    for scope in (":.eu:", ":.eu:a", "b"):
        registered.write([Change(Kind.MODE, scope, value=Mode.READONLY)])
    registered.write(delete_mode(registered.state, ":.eu:", is_recursive=True))
    assert list(registered.state.modes) == ["b"]

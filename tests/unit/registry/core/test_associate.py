"""Associations: their defaults, what excludes what, and deletion together with subjects."""

from dataclasses import replace

import pytest
from tests.unit.registry.core.registered import Registered, record

from tailrace.registry.core import associate
from tailrace.registry.core.associate import Resource, Wanted
from tailrace.registry.core.association import Association, Lifecycle, Search
from tailrace.registry.core.error import Code, RegistryError
from tailrace.registry.core.register import Draft

TOPIC = Resource("orders", "cluster", "id-1")
OWN = ":.cluster:orders-value"


def change(registered: Registered, *wanted: Wanted, resource: Resource = TOPIC, is_create: bool = False) -> None:
    """Carry a request out as the leader does: schemas first, associations last."""
    for index in range(len(wanted)):
        steps = associate.check(registered.state, registered.parser, resource, wanted, is_create=is_create)
        registered.write(associate.register_schema(registered.state, registered.parser, steps[index]))
    registered.write(
        associate.put(associate.check(registered.state, registered.parser, resource, wanted, is_create=is_create))
    )


def found(registered: Registered, resource_id: str = "", subject: str = "") -> list[Association]:
    return registered.state.associations(Search(resource_id, subject=subject))


def schema(*fields: str) -> Draft:
    return Draft("", record(*fields))


def code_of(registered: Registered, *wanted: Wanted, resource: Resource = TOPIC, is_create: bool = False) -> Code:
    written = len(registered.written)
    with pytest.raises(RegistryError) as raised:
        change(registered, *wanted, resource=resource, is_create=is_create)
    assert len(registered.written) == written
    return raised.value.code


def test_an_association_that_is_created_with_a_schema_is_strong_and_frozen_in_the_topics_own_subject() -> None:
    registered = Registered()
    change(registered, Wanted(draft=schema("x")), Wanted("key", draft=schema("k")), is_create=True)
    key, value = found(registered, resource_id="id-1")
    assert (value.subject, value.lifecycle, value.frozen) == (OWN, Lifecycle.STRONG, True)
    assert key.subject == ":.cluster:orders-key"
    assert {registered.state.versions(each.subject)[0].id for each in (key, value)} == {1, 2}


def test_a_put_with_a_schema_is_strong_and_not_frozen() -> None:
    registered = Registered()
    change(registered, Wanted(subject="s", draft=schema("x")))
    assert [(each.subject, each.lifecycle, each.frozen) for each in found(registered, subject="s")] == [
        ("s", Lifecycle.STRONG, False)
    ]


def test_an_association_is_weak_unless_it_says_otherwise() -> None:
    registered = Registered()
    registered.register("s", record("x"))
    change(registered, Wanted(subject="s"), is_create=True)
    change(registered, Wanted(subject="s"), resource=replace(TOPIC, name="other", id="id-2"), is_create=True)
    assert {each.lifecycle for each in found(registered, subject="s")} == {Lifecycle.WEAK}
    assert len(found(registered, subject="s")) == 2


def test_the_same_request_again_changes_nothing() -> None:
    registered = Registered()
    for _ in range(2):
        change(registered, Wanted(draft=schema("x")), is_create=True)
    assert len(found(registered)) == 1
    assert len(registered.state.versions(OWN)) == 1
    written = len(registered.written)
    change(registered, Wanted(draft=schema("x")), is_create=True)
    assert len(registered.written) == written


def test_another_schema_for_a_created_association_is_refused() -> None:
    registered = Registered()
    change(registered, Wanted(draft=schema("x")), is_create=True)
    assert code_of(registered, Wanted(draft=schema("y")), is_create=True) is Code.ASSOCIATION_EXISTS


def test_a_strong_association_excludes_others() -> None:
    registered = Registered()
    other = replace(TOPIC, name="other", id="id-2")
    change(registered, Wanted(subject="s", draft=schema("x")))
    assert code_of(registered, Wanted(subject="s", draft=schema("x")), resource=other) is Code.SUBJECT_ASSOCIATED
    assert code_of(registered, Wanted(subject="s"), resource=other) is Code.STRONG_ASSOCIATION_EXISTS


@pytest.mark.parametrize(
    ("wanted", "resource", "is_create", "code"),
    [
        (Wanted("header", draft=schema("x")), TOPIC, True, Code.INVALID_ASSOCIATION),
        (Wanted(draft=schema("x")), replace(TOPIC, name=""), True, Code.INVALID_ASSOCIATION),
        (Wanted(draft=schema("x")), replace(TOPIC, name="a b"), True, Code.INVALID_ASSOCIATION),
        (Wanted(draft=schema("x")), replace(TOPIC, namespace="x" * 257), True, Code.INVALID_ASSOCIATION),
        (Wanted(draft=schema("x")), replace(TOPIC, type="table"), True, Code.INVALID_ASSOCIATION),
        (Wanted(lifecycle=Lifecycle.WEAK, draft=schema("x")), TOPIC, True, Code.INVALID_ASSOCIATION),
        (Wanted(frozen=False, draft=schema("x")), TOPIC, True, Code.INVALID_ASSOCIATION),
        (Wanted(frozen=True, draft=schema("x")), TOPIC, False, Code.INVALID_ASSOCIATION),
        (Wanted(subject="s", draft=schema("x")), TOPIC, True, Code.INVALID_ASSOCIATION),
        (Wanted(subject="", lifecycle=Lifecycle.WEAK), TOPIC, True, Code.INVALID_ASSOCIATION),
        (Wanted(lifecycle=Lifecycle.WEAK), TOPIC, True, Code.INVALID_ASSOCIATION),
        (Wanted(subject=OWN, lifecycle=Lifecycle.WEAK), TOPIC, True, Code.INVALID_ASSOCIATION),
        (Wanted(subject="s", lifecycle=Lifecycle.WEAK, frozen=True), TOPIC, True, Code.INVALID_ASSOCIATION),
        (Wanted(subject="s"), TOPIC, True, Code.NO_ACTIVE_VERSION),
        (Wanted(draft=Draft("", "{")), TOPIC, True, Code.INVALID_SCHEMA),
    ],
)
def test_a_wrong_association_is_refused(wanted: Wanted, resource: Resource, is_create: bool, code: Code) -> None:
    assert code_of(Registered(), wanted, resource=resource, is_create=is_create) is code


def test_two_associations_of_one_type_are_refused() -> None:
    assert code_of(Registered(), Wanted(subject="a"), Wanted(subject="b")) is Code.INVALID_ASSOCIATION


def test_an_incompatible_schema_is_refused() -> None:
    registered = Registered()
    registered.register("s", record("x"))
    assert code_of(registered, Wanted(subject="s", draft=schema("y"))) is Code.INCOMPATIBLE_SCHEMA


@pytest.mark.parametrize(
    "wanted",
    [Wanted(subject="other", draft=schema("x")), Wanted(lifecycle=Lifecycle.STRONG, frozen=True)],
)
def test_subject_and_frozen_cannot_be_changed(wanted: Wanted) -> None:
    registered = Registered()
    change(registered, Wanted(subject="s", draft=schema("x")))
    assert code_of(registered, wanted) is Code.INVALID_ASSOCIATION


def test_a_lifecycle_can_be_changed() -> None:
    registered = Registered()
    change(registered, Wanted(subject="s", draft=schema("x")))
    change(registered, Wanted(lifecycle=Lifecycle.WEAK))
    assert [each.lifecycle for each in found(registered, resource_id="id-1")] == [Lifecycle.WEAK]


def test_a_subject_with_an_association_keeps_its_last_version() -> None:
    registered = Registered()
    change(registered, Wanted(subject="s", draft=schema("x")))
    with pytest.raises(RegistryError) as raised:
        registered.delete("s")
    assert raised.value.code is Code.SUBJECT_ASSOCIATED
    with pytest.raises(RegistryError) as raised:
        registered.delete("s", 1)
    assert raised.value.code is Code.NO_ACTIVE_VERSION
    registered.register("s", record("x", "y="))
    assert registered.delete("s", 1) == (1,)


def test_deletion_with_cascade_removes_what_a_strong_association_owns() -> None:
    registered = Registered()
    change(registered, Wanted(draft=schema("x")), is_create=True)
    search = Search("id-1")
    with pytest.raises(RegistryError) as raised:
        associate.delete(registered.state, search, is_cascade=False)
    assert raised.value.code is Code.ASSOCIATION_FROZEN
    registered.write(associate.delete(registered.state, search, is_cascade=True))
    assert not registered.state.associations(search)
    assert not registered.state.has_subject(OWN, with_deleted=True)
    assert registered.register(":.cluster:new", record("z")).id == 2


def test_deletion_without_cascade_keeps_the_subject() -> None:
    registered = Registered()
    change(registered, Wanted(subject="s", draft=schema("x")))
    registered.write(associate.delete(registered.state, Search("id-1"), is_cascade=False))
    assert not found(registered)
    assert registered.state.has_subject("s")


def test_associations_survive_compaction() -> None:
    registered = Registered()
    change(registered, Wanted(subject="s", draft=schema("x")))
    assert registered.compacted().state.associations(Search()) == found(registered)

"""Copies of the state, which share what neither of them has changed since."""

from typing import Any

from tests.unit.registry.core.registered import Registered, record

from tailrace.registry.core.state import State
from tailrace.schema.language import Reference


def seen(state: State) -> dict[str, Any]:
    """Return what requests can see of a state."""
    return {
        "subjects": state.subjects(":*:"),
        "versions": {
            subject: state.versions(subject, with_deleted=True) for subject in state.subjects(":*:", with_deleted=True)
        },
        "places": [state.places_of_id(schema_id, ".") for schema_id in range(10)],
        "referrers": state.referrers(("a", 1), with_deleted=True),
        "contexts": state.contexts,
        "max_ids": state.max_ids,
    }


def begin() -> Registered:
    registered = Registered()
    registered.register("a", record("x"))
    registered.register("b", record("x"))
    registered.register("c", record("y", name="S"), [Reference("R", "a", 1)])
    return registered


def change(registered: Registered) -> None:
    """Change every kind of index."""
    registered.register("a", record("x", "y="))
    registered.register("c", record("y", "z=", name="S"), [Reference("R", "a", 1)])
    registered.register(":.other:a", record("x"))
    registered.delete("b")
    registered.delete("b", is_permanent=True)
    registered.delete("c", 1)
    registered.delete("c", 1, is_permanent=True)


def test_a_copy_stays_as_it_is_when_the_state_changes() -> None:
    registered = begin()
    copy, before = registered.state.copy(), seen(registered.state)
    change(registered)
    assert seen(copy) == before
    assert seen(registered.state) != before
    assert seen(registered.state.copy()) == seen(registered.state)


def test_the_state_stays_as_it_is_when_a_copy_changes() -> None:
    registered = begin()
    before = seen(registered.state)
    changed = begin()
    changed.state = registered.state.copy()
    changed.parser = type(changed.parser)(changed.state)
    copy_of_copy = changed.state.copy()
    change(changed)
    assert seen(registered.state) == seen(copy_of_copy) == before
    change(registered)
    assert seen(registered.state) == seen(changed.state)

"""Plans of transactions: which znodes are made and removed besides those that were asked for."""

import pytest

pytest.importorskip("kazoo", reason="kazoo is not installed")

from kazoo import exceptions
from kazoo.protocol import serialization as zk

from tailrace.coordination.store import (
    BadVersionError,
    Check,
    Create,
    Delete,
    EphemeralParentError,
    Node,
    NodeExistsError,
    Operation,
    Put,
)
from tailrace.coordination.zookeeper.plan import Refused, Shadow, plan, refusal_of


def shadow(*nodes: str, bare: tuple[str, ...] = ()) -> Shadow:
    made = Shadow()
    for path in nodes:
        made.place(path, Node(b"", 0))
    for path in bare:
        made.place(path, None)
    return made


def requests(known: Shadow, *operations: Operation) -> list[object]:
    return [step.request for step in plan(known, operations, "/base", [])]


def bare(path: str) -> zk.Create:
    return zk.Create(f"/base{path}", None, [], 0)


def gone(path: str, version: int = -1) -> zk.Delete:
    return zk.Delete(f"/base{path}", version)


def test_parents_that_are_missing_are_made_once_and_without_a_value() -> None:
    node = zk.Create("/base/a/b/c", b"v", [], 0)
    assert requests(shadow(), Create("/a/b/c", b"v")) == [bare("/a"), bare("/a/b"), node]
    assert requests(shadow(bare=("/a",)), Create("/a/b/c", b"v")) == [bare("/a/b"), node]
    assert requests(shadow("/a", bare=("/a/b",)), Create("/a/b/c", b"v")) == [node]
    two = requests(shadow(), Create("/a/b/c", b"v"), Create("/a/b/d", b"", is_ephemeral=True))
    assert two == [bare("/a"), bare("/a/b"), node, zk.Create("/base/a/b/d", b"", [], 1)]


def test_a_node_takes_the_place_of_an_empty_one_but_not_of_one_that_holds_nodes() -> None:
    known = shadow(bare=("/a", "/a/b", "/a/b/c"))
    made = zk.Create("/base/a", b"v", [], 0)
    assert requests(known, Create("/a", b"v")) == [gone("/a/b/c"), gone("/a/b"), gone("/a"), made]
    known.place("/a/b/d", Node(b"", 0))
    assert requests(known, Create("/a", b"v")) == [made]


def test_a_node_goes_with_the_empty_places_below_it() -> None:
    known = shadow("/t", "/t/p/0/s", bare=("/t/p", "/t/p/0", "/t/p/1"))
    assert requests(known, Delete("/t", 3)) == [gone("/t", 3)], "which the servers refuse"
    places = [gone("/t/p/0"), gone("/t/p/1"), gone("/t/p")]
    assert requests(known, Delete("/t/p/0/s", 1), Delete("/t", 3)) == [gone("/t/p/0/s", 1), *places, gone("/t", 3)]


def test_a_bare_place_is_no_node() -> None:
    known = shadow(bare=("/a",))
    for operation in (Put("/a", b"", 0), Delete("/a", -1), Check("/a", 0)):
        assert requests(known, operation) == [zk.CheckVersion("/base/a/nothing is here", -1)]
    known.remove("/a")
    assert requests(known, Check("/a", 0)) == [zk.CheckVersion("/base/a", 0)]


def test_operations_of_a_group_see_what_those_before_them_did() -> None:
    known = shadow("/a")
    steps = requests(known, Delete("/a", 0), Create("/a/b", b""), Delete("/a/b", 0), Create("/a", b""))
    assert steps[2:] == [
        zk.Create("/base/a/b", b"", [], 0),
        gone("/a/b", 0),
        gone("/a"),
        zk.Create("/base/a", b"", [], 0),
    ]


@pytest.mark.parametrize(
    ("error", "meaning", "is_about_structure"),
    [
        (exceptions.NodeExistsError, NodeExistsError, True),
        (exceptions.BadVersionError, BadVersionError, False),
        (exceptions.NoChildrenForEphemeralsError, EphemeralParentError, False),
    ],
)
def test_an_error_is_that_of_the_step_that_failed(
    error: type[Exception], meaning: type[Exception], is_about_structure: bool
) -> None:
    steps = plan(shadow(), [Create("/a", b""), Create("/b", b""), Create("/c", b"")], "", [])
    results = [exceptions.RolledBackError(), error(), exceptions.RuntimeInconsistency()]
    refused = refusal_of(steps, results)
    assert isinstance(refused, Refused)
    assert (type(refused.error), str(refused.error)) == (meaning, "/b")
    assert refused.is_about_structure == is_about_structure
    assert refusal_of(steps, ["/a", "/b", "/c"]) is None


def test_an_error_that_means_nothing_to_us_comes_as_it_is() -> None:
    steps = plan(shadow(), [Create("/a", b"")], "", [])
    assert isinstance(refusal_of(steps, [exceptions.MarshallingError()]), exceptions.MarshallingError)

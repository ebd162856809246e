"""The decisions on ACLs, compared with a set of bindings."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.machines.authorization.binding import AclBinding
from tailrace.machines.authorization.filter import AclFilter
from tailrace.machines.authorization.vocabulary import Operation, PatternType, Permission, Resource
from tailrace.machines.controller.acl import decide_create_acls, decide_delete_acls, has_acl, select_acls
from tailrace.machines.controller.image import ClusterImage

NAMES = st.sampled_from(["a", "ab", "*"])
PRINCIPALS = st.sampled_from(["User:a", "User:b"])
PATTERN_TYPES = (PatternType.LITERAL, PatternType.PREFIXED)
BINDINGS = st.builds(
    AclBinding,
    st.sampled_from([Resource.TOPIC, Resource.GROUP]),
    NAMES,
    st.sampled_from(PATTERN_TYPES),
    PRINCIPALS,
    st.sampled_from(["*", "10.0.0.1"]),
    st.sampled_from([Operation.READ, Operation.ALL]),
    st.sampled_from([Permission.ALLOW, Permission.DENY]),
)
FILTERS = st.builds(
    AclFilter,
    st.sampled_from([Resource.ANY, Resource.TOPIC]),
    st.one_of(st.none(), NAMES),
    st.sampled_from([PatternType.ANY, PatternType.MATCH, *PATTERN_TYPES]),
    st.one_of(st.none(), PRINCIPALS),
)
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("create"), st.lists(BINDINGS, max_size=5)),
        st.tuples(st.just("delete"), st.lists(FILTERS, max_size=2)),
    ),
    max_size=8,
)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(changes=CHANGES)
def test_the_image_has_what_was_created_and_not_deleted(
    changes: list[tuple[str, list[AclBinding] | list[AclFilter]]],
) -> None:
    image, expected = ClusterImage(), set[AclBinding]()
    for _, items in changes:
        bindings = [item for item in items if isinstance(item, AclBinding)]
        filters = [item for item in items if isinstance(item, AclFilter)]
        for record in decide_create_acls(image, bindings):
            image.replay(record)
        expected |= set(bindings)
        removal = decide_delete_acls(image, filters)
        assert removal.removed == [sorted(one for one in expected if each.matches(one)) for each in filters]
        for record in removal.records:
            image.replay(record)
        expected -= {binding for found in removal.removed for binding in found}
        assert sorted(image.acl_bindings()) == sorted(expected) == select_acls(image, AclFilter())
        assert all(has_acl(image, binding) == (binding in expected) for binding in bindings)
        assert all(record.entries for record in image.acls.values())


def test_what_exists_already_needs_no_record() -> None:
    image = ClusterImage()
    binding = AclBinding(Resource.TOPIC, "t", PatternType.LITERAL, "User:a", "*", Operation.READ, Permission.ALLOW)
    (record,) = decide_create_acls(image, [binding, binding])
    image.replay(record)
    assert decide_create_acls(image, [binding]) == []
    assert decide_delete_acls(image, [AclFilter(name="other")]) == ([], [[]])

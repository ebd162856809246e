"""Groups from outside, through both faces of the admin client."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.client.face import Face

import tailrace
from tailrace.client.backoff import Deadline

Shared = Callable[..., str]


@pytest.fixture
def group_id() -> str:
    return f"admin-{uuid.uuid4().hex[:12]}"


def joined(consumer: Any, count: int) -> Any:
    deadline = Deadline(30_000)
    found = 0
    while found < count:
        assert not deadline.is_over
        found += len(consumer.poll(0.1))
    return consumer


def test_a_group_is_listed_described_and_deleted(
    group_broker: str, shared: Shared, group_id: str, membership: dict[str, Any], face: Face
) -> None:
    topic = shared(2, 20)
    is_consumer = membership.get("group_protocol") == "consumer"
    kind = "consumer" if is_consumer else "classic"
    settings: dict[str, Any] = {"auto_offset_reset": "earliest", "client_id": "me", **membership}
    with face.admin(group_broker) as admin:
        with tailrace.Consumer(group_broker, group_id=group_id, **settings).subscribe(topic) as consumer:
            joined(consumer, 20)
            consumer.commit({(topic, 0): 4})
            (listed,) = [found for found in admin.list_groups() if found.group_id == group_id]
            assert (listed.state, listed.group_type, listed.protocol_type) == ("Stable", kind, "consumer")
            assert group_id in {found.group_id for found in admin.list_groups(states=["Stable"], types=[kind])}
            assert group_id not in {found.group_id for found in admin.list_groups(states=["Empty"])}
            described = admin.describe_groups([group_id])[group_id]
            assert (described.state, described.group_type, len(described.members)) == ("Stable", kind, 1)
            assert described.assignor == ("uniform" if is_consumer else membership["partition_assignment_strategy"])
            (member,) = described.members
            assert (member.client_id, member.assignment) == ("me", ((topic, 0), (topic, 1)))
            assert described.owners[topic, 1] is member
            lag = admin.group_lag(group_id, [(topic, 1)])
            assert {target: found.lag for target, found in lag.items()} == {(topic, 0): 6, (topic, 1): None}
            assert lag[topic, 1].end_offset == 10
            refused = admin.delete_groups([group_id])[group_id]
            assert refused.code is tailrace.ErrorCode.NON_EMPTY_GROUP
            assert "stop them before deleting" in str(refused)
            assert "has active members" in str(admin.alter_group_offsets(group_id, {(topic, 0): 1})[topic, 0])
        assert admin.list_group_offsets(group_id)[topic, 1].offset == 10  # committed by leaving
        assert admin.alter_group_offsets(group_id, {(topic, 0): 1, (topic, 1): 2}) == {
            (topic, 0): None,
            (topic, 1): None,
        }
        assert admin.delete_group_offsets(group_id, [(topic, 1)]) == {(topic, 1): None}
        assert {target: found.offset for target, found in admin.list_group_offsets(group_id).items()} == {(topic, 0): 1}
        assert admin.list_group_offsets(group_id, [(topic, 1)]) == {}
        assert admin.delete_groups([group_id]) == {group_id: None}
        for outcome in (admin.describe_groups([group_id])[group_id], admin.delete_groups([group_id])[group_id]):
            assert outcome.code is tailrace.ErrorCode.GROUP_ID_NOT_FOUND
            assert f"there is no group {group_id}" in str(outcome)

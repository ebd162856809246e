"""A broker that is the controller, and topics that take it several commits."""

from collections.abc import Sequence

import pytest
from tests.unit.runtime.members import members

from tailrace.coordination.store import Operation, OutcomeUnknown
from tailrace.machines.controller import topic_step
from tailrace.machines.controller.topic import NewTopic, check_new_name
from tailrace.protocol.errors import ApiError, ErrorCode

COUNT = 10


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of three partitions, for topics of more than four."""
    monkeypatch.setattr(topic_step, "RECORDS_PER_COMMIT_MAX", 3)
    monkeypatch.setattr(topic_step, "TOPIC_RECORDS_TOGETHER_MAX", 4)


async def test_a_large_topic_is_made_grown_and_removed() -> None:
    async with members(1, 2) as cluster:
        broker = cluster.controller
        await broker.controller.create_topic(NewTopic("t", COUNT, 2), broker.topic_defaults)
        for each in cluster.brokers.values():
            await each.replicas.settled()
            assert len([partition for partition in each.replicas.all() if partition.topic == "t"]) == COUNT
        assert sum(partition.is_leader for partition in broker.replicas.all()) == COUNT / 2
        await broker.controller.add_partitions("t", 2 * COUNT, None, validate_only=False)
        assert len([partition for partition in broker.replicas.all() if partition.leader_epoch == 0]) == 2 * COUNT
        await broker.controller.delete_topic("t")
        assert broker.replicas.all() == []
        assert [path for path in cluster.tree.nodes if "/topics/" in path] == []
        await broker.controller.create_topic(NewTopic("t", COUNT, 2), broker.topic_defaults)
        assert len(broker.replicas.all()) == COUNT


@pytest.mark.parametrize("commit_count", range(6))
async def test_what_could_not_be_made_to_the_end_is_removed(monkeypatch: pytest.MonkeyPatch, commit_count: int) -> None:
    async with members(1) as cluster:
        broker, store = cluster.controller, cluster.stores[1]
        commit, left = store.commit, commit_count

        async def commit_some(operations: Sequence[Operation]) -> None:
            nonlocal left
            if not left:
                monkeypatch.undo()
                raise OutcomeUnknown("the connection broke")
            left -= 1
            await commit(operations)

        monkeypatch.setattr(store, "commit", commit_some)
        with pytest.raises(ApiError) as caught:
            await broker.controller.create_topic(NewTopic("t", COUNT, 1), broker.topic_defaults)
        assert caught.value.code is ErrorCode.NOT_CONTROLLER
        assert "t" not in broker.image.topics
        await cluster.until(lambda: not broker.image.hidden)
        assert [path for path in cluster.tree.nodes if "/topics/" in path] == []
        await broker.controller.create_topic(NewTopic("t", COUNT, 1), broker.topic_defaults)
        assert len(broker.replicas.all()) == COUNT


async def test_the_name_of_a_hidden_topic_is_taken() -> None:
    async with members(1) as cluster:
        broker = cluster.controller
        await broker.controller.create_topic(NewTopic("t", COUNT, 1), broker.topic_defaults)
        async with broker.controller.turn:  # so that it is not removed at once
            await broker.controller.commit(topic_step.next_removal(broker.image, "t"))
            with pytest.raises(ApiError, match="is being created or deleted") as caught:
                check_new_name(broker.image, "t")
            assert caught.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
        await cluster.until(lambda: not broker.image.hidden)
        check_new_name(broker.image, "t")

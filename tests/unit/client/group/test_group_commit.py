"""Commits one after the other, with a coordinator whose answers are written out."""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any
from uuid import UUID

import pytest

from tailrace.base.sentinel import NO_BROKER
from tailrace.client.cluster import Cluster
from tailrace.client.error import BrokerUnavailable, CommitFailed
from tailrace.client.fetch.record import ConsumerRecord
from tailrace.client.group import commit_queue as group_commit
from tailrace.client.group.commit_queue import Committer
from tailrace.client.group.committable import read_offsets
from tailrace.client.group.coordinator import Coordinator
from tailrace.client.group.offset import NO_MEMBER, Identity, OffsetAndMetadata
from tailrace.client.metadata import ClusterView, Topic
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.primitive import ZERO_UUID

ONE, TWO = TopicPartition("t", 1), TopicPartition("t", 2)


class Script:
    """A group's coordinator that gives these answers in turn, and then takes everything."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: ErrorCode | Exception) -> None:
        self.asked: list[tuple[int, dict[TopicPartition, int]]] = []
        self.identity = Identity("m", 1)
        self.owned = {ONE, TWO}
        self.read_ids: dict[str, UUID] = {}
        self.asked_ids: list[Mapping[str, UUID]] = []
        self.is_fenced = True
        self._answers = list(answers)
        monkeypatch.setattr(group_commit, "commit_offsets", self._commit)
        cluster = Cluster("localhost:1", retry_backoff_ms=0)
        self.committer = Committer(
            Coordinator(cluster, "g"), lambda: self.identity, lambda target: target in self.owned, 5_000
        )
        self.committer.on_fenced = lambda _: self.is_fenced

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], *, skips_lost: bool = False
    ) -> Coroutine[Any, Any, None]:
        return self.committer.commit(self.committer.prepare(offsets, self.read_ids), skips_lost=skips_lost)

    async def _commit(
        self,
        _: Coordinator,
        identity: Identity,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        ids: Mapping[str, UUID],
    ) -> dict[TopicPartition, ErrorCode]:
        self.asked_ids.append(ids)
        self.asked.append((identity.generation_id, {target: found.offset for target, found in offsets.items()}))
        await asyncio.sleep(0)
        answer = self._answers.pop(0) if self._answers else ErrorCode.NONE
        if isinstance(answer, Exception):
            raise answer
        if answer is ErrorCode.STALE_MEMBER_EPOCH:
            self.identity = Identity("m", identity.generation_id + 1)  # as the next heartbeat would have it
        return dict.fromkeys(offsets, answer)


def at(offset: int, target: TopicPartition = ONE) -> dict[TopicPartition, OffsetAndMetadata]:
    return {target: OffsetAndMetadata(offset)}


def test_an_older_commit_is_done_before_a_newer_one_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(monkeypatch, BrokerUnavailable("gone"), ErrorCode.NOT_COORDINATOR)

    async def work() -> None:
        await asyncio.gather(*(script.commit(at(offset)) for offset in (5, 6, 7)))

    asyncio.run(work())
    assert [offsets[ONE] for _, offsets in script.asked] == [5, 5, 5, 6, 7]
    assert script.committer.changed({**at(7), **at(3, TWO)}) == at(3, TWO)


def test_a_new_epoch_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(monkeypatch, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.REBALANCE_IN_PROGRESS)
    asyncio.run(script.commit(at(5)))
    assert [generation for generation, _ in script.asked] == [1, 2, 2]


def test_what_went_to_another_meanwhile_is_not_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(monkeypatch, ErrorCode.REBALANCE_IN_PROGRESS)
    script.owned = {TWO}
    with pytest.raises(CommitFailed, match="t-1 was assigned to another member"):
        asyncio.run(script.commit(at(5)))
    assert len(script.asked) == 1
    assert script.committer.changed(at(5)) == at(5)


def test_an_offset_is_not_committed_for_a_later_topic_of_the_same_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit waited or was repeated while its topic was deleted and created again. The offset was committed for the
    new topic, and the group skipped its first records."""
    script = Script(monkeypatch, BrokerUnavailable("gone"))
    cluster = script.committer._coordinator.cluster

    def know(topic_id: int) -> None:
        topic = Topic("t", UUID(int=topic_id), False, ())
        cluster.view = ClusterView(None, NO_BROKER, {}, {"t": topic})

    async def work() -> None:
        know(1)
        first, second = (asyncio.create_task(script.commit(at(offset))) for offset in (5, 6))
        await asyncio.sleep(0)
        know(2)
        for task in (first, second):
            with pytest.raises(ApiError, match="UNKNOWN_TOPIC_ID: t was deleted and created again"):
                await task
        await script.commit(at(0))

    asyncio.run(work())
    assert [offsets[ONE] for _, offsets in script.asked] == [5, 0]


def test_an_offset_is_committed_for_the_topic_that_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a topic is deleted the metadata has no id for it. The commit named the topic only, and the broker took it
    for the topic that was created next."""
    script = Script(monkeypatch)
    script.committer._coordinator.cluster.view = ClusterView(
        None, NO_BROKER, {}, {"t": Topic("t", ZERO_UUID, False, ())}
    )
    script.read_ids = {"t": UUID(int=1), "other": UUID(int=2)}
    asyncio.run(script.commit(at(5)))
    assert script.asked_ids == [{"t": UUID(int=1)}]


def test_an_automatic_commit_leaves_out_what_was_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit of two partitions waited while one was revoked. It failed for both."""
    script = Script(monkeypatch)
    wanted = script.commit({**at(5), **at(6, TWO)}, skips_lost=True)
    script.committer.give_up([ONE])
    asyncio.run(wanted)
    assert [offsets for _, offsets in script.asked] == [{TWO: 6}]


def test_a_commit_is_not_repeated_without_a_member(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit was lost, and the group excluded the member. The repetition named no member, and the group was empty by
    then. So it accepted the offset, although other members had committed more."""
    script = Script(monkeypatch, BrokerUnavailable("gone"))

    async def work() -> None:
        commit = asyncio.create_task(script.commit(at(5)))
        await asyncio.sleep(0)
        script.identity = NO_MEMBER
        await commit

    with pytest.raises(CommitFailed, match="has excluded this consumer before the commit"):
        asyncio.run(work())
    assert script.asked == [(1, {ONE: 5})]


def test_a_commit_is_not_repeated_for_a_partition_that_went_and_came_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a commit was repeated, the member lost the partition and got it again, with what others had committed."""
    script = Script(monkeypatch, BrokerUnavailable("gone"))

    async def work() -> None:
        commits = [asyncio.create_task(script.commit(at(offset, target))) for offset, target in ((5, ONE), (6, ONE))]
        other = asyncio.create_task(script.commit(at(7, TWO)))
        await asyncio.sleep(0)
        script.committer.give_up([ONE])
        failures = await asyncio.gather(*commits, return_exceptions=True)
        assert [type(failure) for failure in failures] == [CommitFailed, CommitFailed]
        await other

    asyncio.run(work())
    assert script.asked == [(1, {ONE: 5}), (1, {TWO: 7})]


def test_a_consumer_that_is_no_member_may_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(monkeypatch, BrokerUnavailable("gone"))
    script.identity = NO_MEMBER
    asyncio.run(script.commit(at(5)))
    assert script.asked == [(-1, {ONE: 5})] * 2


@pytest.mark.parametrize("code", [ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_group_that_has_gone_on_is_told_from_one_that_is_about_to(
    monkeypatch: pytest.MonkeyPatch, code: ErrorCode
) -> None:
    script = Script(monkeypatch, code)
    with pytest.raises(CommitFailed, match=f"has excluded this consumer .{code.name}"):
        asyncio.run(script.commit(at(5)))
    script = Script(monkeypatch, code)
    script.is_fenced = False
    asyncio.run(script.commit(at(5)))
    assert len(script.asked) == 2


@pytest.mark.parametrize("code", [ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
def test_what_will_not_pass_is_raised_at_once(monkeypatch: pytest.MonkeyPatch, code: ErrorCode) -> None:
    script = Script(monkeypatch, code)
    with pytest.raises(ApiError, match=f"{code.name}: committing offset 5 of t-1"):
        asyncio.run(script.commit(at(5)))
    assert len(script.asked) == 1


def test_offsets_are_read_as_people_give_them() -> None:
    record = ConsumerRecord("t", 1, 4, 0, None, None, ())
    positions = {ONE: OffsetAndMetadata(5, "", 3)}
    assert read_offsets(record, positions, None) == {ONE: (5, "", 3)}
    assert read_offsets(record._replace(offset=3), positions, None) == {ONE: (4, "", -1)}
    assert read_offsets({("t", 1): 9, TWO: OffsetAndMetadata(2, "note")}, positions, None) == {
        ONE: (9, "", -1),
        TWO: (2, "note", -1),
    }
    for wrong, error in (({("t", 1): -1}, ValueError), ({("t",): 1}, TypeError), ("t", TypeError), ({1: 1}, TypeError)):
        with pytest.raises(error, match="commit a record, a batch, or a mapping"):
            read_offsets(wrong, positions, None)

"""Copying metadata from one store into another."""

import asyncio
import json
from collections.abc import Mapping, Sequence

import pytest

from tailrace.base.limits import MIGRATION_COMMIT_BYTES_MAX
from tailrace.coordination.layout import CLUSTER_ID
from tailrace.coordination.memory import MemoryStore
from tailrace.coordination.migration import MigrationRefused, copy_metadata
from tailrace.coordination.store import Create, Node, Operation, OutcomeUnknown


def cluster(name: str) -> Create:
    return Create(CLUSTER_ID, json.dumps({"version": "1", "id": name}).encode())


async def store_with(*creates: Create) -> MemoryStore:
    store = MemoryStore()
    if creates:
        await store.commit(creates)
    return store


def values(nodes: Mapping[str, Node]) -> dict[str, bytes]:
    return {path: node.value for path, node in nodes.items()}


def test_everything_is_copied() -> None:
    async def scenario() -> None:
        source = await store_with(cluster("a"), Create("/brokers/topics/t", b"1"), Create("/config/topics/t", b"2"))
        target = MemoryStore()
        counts: list[int] = []
        await copy_metadata(source, target, counts.append)
        assert values(await target.tree("/")) == values(await source.tree("/"))
        assert sum(counts) == len(await target.tree("/"))

    asyncio.run(scenario())


def test_much_is_copied_in_several_commits() -> None:
    async def scenario() -> None:
        value = bytes(MIGRATION_COMMIT_BYTES_MAX // 3)
        source = await store_with(cluster("a"), *(Create(f"/config/topics/t{number}", value) for number in range(7)))
        target = MemoryStore()
        counts: list[int] = []
        await copy_metadata(source, target, counts.append)
        assert values(await target.tree("/")) == values(await source.tree("/"))
        assert len(counts) >= 4

    asyncio.run(scenario())


def test_a_copy_that_was_cut_is_made_again() -> None:
    class Breaking(MemoryStore):
        """Breaks after its first commit."""

        commits = 0

        async def commit(self, operations: Sequence[Operation]) -> None:
            self.commits += 1
            if self.commits == 2:
                raise OutcomeUnknown("cut")
            await super().commit(operations)

    async def scenario() -> None:
        value = bytes(MIGRATION_COMMIT_BYTES_MAX // 2)
        source = await store_with(cluster("a"), *(Create(f"/config/topics/t{number}", value) for number in range(5)))
        target = Breaking()
        with pytest.raises(OutcomeUnknown):
            await copy_metadata(source, target, lambda _: None)
        assert len(await target.tree("/")) < len(await source.tree("/"))
        await copy_metadata(source, target, lambda _: None)
        assert values(await target.tree("/")) == values(await source.tree("/"))

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("there", "reason"),
    [
        ([cluster("b")], "already belongs to cluster b"),
        ([cluster("a"), Create("/config/topics/t", b"other")], "/config/topics/t already exists"),
        ([Create("/config/topics/t", b"1")], "no cluster id"),
    ],
)
def test_what_is_there_is_not_overwritten(there: list[Create], reason: str) -> None:
    async def scenario() -> None:
        source = await store_with(cluster("a"), Create("/config/topics/t", b"1"), Create("/config/topics/u", b"2"))
        target = await store_with(*there)
        before = await target.tree("/")
        with pytest.raises(MigrationRefused, match=reason):
            await copy_metadata(source, target, lambda _: None)
        assert await target.tree("/") == before

    asyncio.run(scenario())


def test_a_broker_that_was_never_started_has_nothing_to_copy() -> None:
    async def scenario() -> None:
        with pytest.raises(MigrationRefused, match="never been started"):
            await copy_metadata(MemoryStore(), MemoryStore(), lambda _: None)

    asyncio.run(scenario())

"""Topics too large for one commit: nobody sees half of one, and what a controller leaves half done the next removes."""

from collections.abc import Sequence
from uuid import UUID, uuid4

import pytest
from tests.unit.coordination.zookeeper_process import ZooKeeperProcess

from tailrace.coordination.cluster import ClusterMetadata
from tailrace.coordination.layout import TOPICS
from tailrace.coordination.memory import MemoryStore, MemoryTree
from tailrace.coordination.store import MetadataStore
from tailrace.machines.controller import topic_step
from tailrace.machines.controller.record import (
    ConfigKind,
    ConfigRecord,
    PartitionRecord,
    Record,
    TopicHidden,
    TopicRecord,
    TopicRemoved,
)
from tailrace.machines.controller.topic_step import next_removal, remove_hidden, split_change

COUNT = 10
TOPIC_ID = UUID(int=7)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of three partitions, for topics of more than four."""
    monkeypatch.setattr(topic_step, "RECORDS_PER_COMMIT_MAX", 3)
    monkeypatch.setattr(topic_step, "TOPIC_RECORDS_TOGETHER_MAX", 4)


def states(first: int, count: int, name: str = "t") -> list[PartitionRecord]:
    return [PartitionRecord(name, index, 1, 0, (1,)) for index in range(first, count)]


def creation(count: int = COUNT) -> list[Record]:
    config = ConfigRecord(ConfigKind.TOPIC, "t", {"retention.ms": "1"})
    return [TopicRecord("t", TOPIC_ID, ((1,),) * count), config, *states(0, count)]


async def loaded(store: MetadataStore) -> ClusterMetadata:
    metadata = ClusterMetadata(store)
    await metadata.load()
    return metadata


async def commit_all(metadata: ClusterMetadata, steps: Sequence[Sequence[Record]]) -> None:
    for step in steps:
        await metadata.commit(step)


async def clean(metadata: ClusterMetadata) -> None:
    for group in remove_hidden(metadata.image):
        await metadata.commit(group)


def is_whole(metadata: ClusterMetadata, count: int = COUNT) -> bool:
    topic = metadata.image.topics.get("t")
    return topic is not None and sorted(topic.leadership) == list(range(count)) and topic.partition_count == count


@pytest.mark.usefixtures("small")
async def test_a_controller_that_fails_while_it_makes_a_topic_leaves_nothing() -> None:
    step_count = len(list(split_change((await loaded(MemoryStore())).image, creation())))
    assert step_count == 6
    for done_count in range(step_count + 1):
        tree = MemoryTree()
        metadata = await loaded(MemoryStore(tree))
        heard: list[Record] = []
        metadata.listen(heard.extend)
        await commit_all(metadata, list(split_change(metadata.image, creation()))[:done_count])
        is_done = done_count == step_count
        following = await loaded(MemoryStore(tree))
        for each in (metadata, following):
            assert is_whole(each) is is_done
            assert ("t" in each.image.topics) is is_done
            assert each.image.config(ConfigKind.TOPIC, "t") == ({"retention.ms": "1"} if is_done else {})
        assert sorted(map(type_name, heard)) == heard_of(done_count, is_done)
        await clean(following)
        assert following.image.hidden == {}
        assert metadata.image.hidden == {}
        assert bool(await following.store.tree("/")) is is_done
        assert is_whole(metadata) is is_done


def type_name(record: Record) -> str:
    return type(record).__name__


def heard_of(done_count: int, is_done: bool) -> list[str]:
    """Nobody hears of partitions before the topic is there, and then of all of them."""
    words = ["TopicHidden"] if done_count else []
    return [
        *(["ConfigRecord", *["PartitionRecord"] * COUNT] if is_done else []),
        *words,
        *(["TopicRecord"] if is_done else []),
    ]


@pytest.mark.usefixtures("small")
async def test_a_controller_that_fails_while_it_removes_a_topic_has_removed_it() -> None:
    done_count = 0
    while True:
        tree = MemoryTree()
        metadata = await loaded(MemoryStore(tree))
        await commit_all(metadata, list(split_change(metadata.image, creation())))
        heard: list[Record] = []
        metadata.listen(heard.extend)
        is_over = False
        for _ in range(done_count):
            records = next_removal(metadata.image, "t")
            is_over = not records
            await metadata.commit(records)
        following = await loaded(MemoryStore(tree))
        for each in (metadata, following):
            assert ("t" in each.image.topics) is (done_count == 0)
            assert (TOPIC_ID in each.image.topics_by_id) is (done_count == 0)
        if done_count:
            assert heard[:2] == [TopicRemoved("t"), TopicHidden("t", TOPIC_ID)]
            await clean(following)
            assert await following.store.tree("/") == {}
            assert metadata.image.hidden == {}
        if is_over:
            break
        done_count += 1
    assert done_count == 6  # hidden, three groups, the rest with the topic, nothing


@pytest.mark.usefixtures("small")
async def test_a_controller_that_fails_while_it_grows_a_topic_changes_nothing() -> None:
    grown: list[Record] = [TopicRecord("t", TOPIC_ID, ((1,),) * 20), *states(COUNT, 20)]
    for done_count in range(6):
        tree = MemoryTree()
        metadata = await loaded(MemoryStore(tree))
        await commit_all(metadata, list(split_change(metadata.image, creation())))
        steps = list(split_change(metadata.image, grown))
        assert len(steps) == 5
        await commit_all(metadata, steps[:done_count])
        following = await loaded(MemoryStore(tree))
        assert is_whole(following, 20 if done_count >= 5 else COUNT)
        assert is_whole(metadata, 20 if done_count >= 5 else COUNT)
        # Grown again by the next controller, and by another count, or removed with what nobody saw.
        again: list[Record] = [
            TopicRecord("t", TOPIC_ID, ((1,),) * 23),
            *states(following.image.topics["t"].partition_count, 23),
        ]
        if done_count % 2:
            await commit_all(following, list(split_change(following.image, again)))
            assert is_whole(metadata, 23)
        while records := next_removal(following.image, "t"):
            await following.commit(records)
        assert await following.store.tree("/") == {}


async def test_small_topics_are_made_and_removed_at_once() -> None:
    metadata = await loaded(MemoryStore())
    assert list(split_change(metadata.image, creation())) == [creation()]
    await metadata.commit(creation())
    assert next_removal(metadata.image, "t") == [TopicRemoved("t")]


async def test_zookeeper_takes_a_topic_of_thousands_of_partitions(zookeeper: ZooKeeperProcess) -> None:
    """In one transaction it would be larger than a ZooKeeper server reads. Long names make it so with fewer."""
    from tailrace.coordination.store import CommitTooLargeError
    from tailrace.coordination.zookeeper.link import ZooKeeperServers
    from tailrace.coordination.zookeeper.zookeeper import ZooKeeperStore

    name, count = "n" * 249, 1800
    records: list[Record] = [TopicRecord(name, TOPIC_ID, ((1, 2, 3),) * count), *states(0, count, name)]
    store = ZooKeeperStore(ZooKeeperServers(zookeeper.address), root=f"/{uuid4().hex}")
    await store.open(30_000)
    try:
        metadata = await loaded(store)
        with pytest.raises(CommitTooLargeError):
            await metadata.commit(records)
        await commit_all(metadata, list(split_change(metadata.image, records)))
        assert len(metadata.image.topics[name].leadership) == count
        with pytest.raises(CommitTooLargeError):
            await metadata.commit([TopicRemoved(name)])
        while removed := next_removal(metadata.image, name):
            await metadata.commit(removed)
        assert await store.tree("/") == {}
        # Not even the places are left where the partitions were.
        assert [path for path in store._shadow.bare if path.startswith(f"{TOPICS}/")] == []
    finally:
        await store.close()

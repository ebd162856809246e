"""The image follows the store, and a restart finds the same image there."""

import asyncio
from collections.abc import Sequence
from itertools import permutations
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.coordination.cluster import ClusterMetadata
from tailrace.coordination.layout import TOPIC_IDS, Stored, node_of, topic_id_node, topic_id_path
from tailrace.coordination.memory import MemoryStore
from tailrace.coordination.store import BadVersionError, Check, Create, Delete, NodeExistsError, NoNodeError, Watcher
from tailrace.machines.authorization.vocabulary import Operation, PatternType, Permission, Resource
from tailrace.machines.controller.entity import entity_name
from tailrace.machines.controller.image import ClusterImage
from tailrace.machines.controller.record import (
    CLUSTER_DEFAULT,
    BrokerAdmitted,
    BrokerForgotten,
    BrokerRecord,
    BrokerRemoved,
    ConfigKind,
    ConfigRecord,
    ControllerRecord,
    ControllerRemoved,
    PartitionRecord,
    Record,
    TopicRecord,
    TopicRemoved,
)
from tailrace.machines.controller.security_record import AclEntry, AclPattern, AclRecord, TokenRecord, TokenRemoved

BROKERS = (1,)


def contents(image: ClusterImage) -> object:
    topics = {
        name: (topic.topic_id, topic.assignment, topic.leadership, image.config(ConfigKind.TOPIC, name))
        for name, topic in image.topics.items()
    }
    configs = [image.config(ConfigKind.BROKER, name) for name in ("1", CLUSTER_DEFAULT)]
    clients = [
        (kind, {name: image.config(kind, name) for name in image.configured(kind)})
        for kind in (ConfigKind.USER, ConfigKind.CLIENT, ConfigKind.USER_CLIENT, ConfigKind.IP)
    ]
    security = clients, image.acls, image.tokens, sorted(image.acl_bindings())
    return topics, set(image.topics_by_id), configs, image.brokers, image.admitted, image.controller_id, security


def topic(name: str, topic_id: int, partition_count: int = 1) -> list[Record]:
    leaders: list[Record] = [PartitionRecord(name, index, 1, 0, (1,)) for index in range(partition_count)]
    return [TopicRecord(name, UUID(int=topic_id), ((1,),) * partition_count), *leaders]


def acls(name: str, *principals: str) -> AclRecord:
    entries = tuple(AclEntry(principal, "*", Operation.READ, Permission.ALLOW) for principal in principals)
    return AclRecord(AclPattern(Resource.TOPIC, PatternType.LITERAL, name), entries)


async def loaded(store: MemoryStore) -> ClusterMetadata:
    metadata = ClusterMetadata(store)
    await metadata.load()
    return metadata


class DeafStore(MemoryStore):
    """One whose changes of others never arrive."""

    def watch(self, watcher: Watcher) -> None:
        """Forget who wants to know."""


NAMES = st.sampled_from(["a", "a-b", "a.b", "z"])
CONFIGS = st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from(["1", "2"]), max_size=2)
ENTITIES = st.sampled_from(["u", "v", "<default>"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), NAMES, st.integers(1, 3)),
        st.tuples(st.just("grow"), NAMES, st.integers(1, 2)),
        st.tuples(st.just("delete"), NAMES, st.none()),
        st.tuples(st.just("topic config"), NAMES, CONFIGS),
        st.tuples(st.just("broker config"), st.sampled_from(["1", CLUSTER_DEFAULT]), CONFIGS),
        st.tuples(st.sampled_from(["register", "admit", "go", "forget", "control"]), st.just(""), st.integers(1, 2)),
        st.tuples(st.sampled_from(["user", "client", "ip"]), ENTITIES, CONFIGS),
        st.tuples(st.just("user client"), st.builds("{}/{}".format, ENTITIES, ENTITIES), CONFIGS),
        st.tuples(st.just("acl"), NAMES, st.sets(st.sampled_from(["User:a", "User:b"]))),
        st.tuples(st.just("token"), NAMES, st.integers(0, 2)),
        st.tuples(st.just("reload"), st.just(""), st.none()),
    ),
    max_size=25,
)
KINDS = {
    "user": ConfigKind.USER,
    "client": ConfigKind.CLIENT,
    "ip": ConfigKind.IP,
    "user client": ConfigKind.USER_CLIENT,
}


@settings(max_examples=120, deadline=None, derandomize=True)
@given(steps=STEPS)
def test_an_image_read_from_the_store_equals_the_one_that_lived_through_it(
    steps: Sequence[tuple[str, str, object]],
) -> None:
    async def live() -> None:
        store = MemoryStore()
        metadata = await loaded(store)
        for number, step in enumerate(steps):
            if step[0] == "reload":
                metadata = await loaded(store)  # versions must be right again, or later commits are refused
            else:
                await metadata.commit(_records(metadata.image, number, *step))
            assert contents((await loaded(store)).image) == contents(metadata.image)

    asyncio.run(live())


def _records(image: ClusterImage, number: int, action: str, name: str, argument: object) -> list[Record]:
    there = image.topics.get(name)
    match action, argument:
        case "create", int(partition_count) if there is None:
            return [*topic(name, number, partition_count), ConfigRecord(ConfigKind.TOPIC, name, {"x": "0"})]
        case "grow", int(added) if there is not None:
            first = there.partition_count
            grown = TopicRecord(name, there.topic_id, there.assignment + ((1,),) * added)
            return [grown, *(PartitionRecord(name, first + index, 1, 0, (1,)) for index in range(added))]
        case "delete", None if there is not None:
            return [TopicRemoved(name)]
        case "topic config", dict(values) if there is not None:
            return [ConfigRecord(ConfigKind.TOPIC, name, values)]
        case "broker config", dict(values):
            return [ConfigRecord(ConfigKind.BROKER, name, values)]
        case _, dict(values) if action in KINDS:
            return [ConfigRecord(KINDS[action], name, values)]
        case "acl", set(principals):
            return [acls(name, *sorted(principals))]
        case "token", int(expiry):
            return [TokenRecord(name, "User:a", "User:b", (), 0, expiry, 9) if expiry else TokenRemoved(name)]
        case "register", int(broker_id):
            return [BrokerRecord(broker_id, 0, is_stopping=broker_id in image.brokers)]
        case "admit", int(broker_id):
            return [BrokerAdmitted(broker_id, number)]
        case "go", int(broker_id):
            return [BrokerRemoved(broker_id)]
        case "forget", int(broker_id):
            return [BrokerForgotten(broker_id)]
        case "control", int(broker_id):
            return [ControllerRemoved() if image.controller_id == broker_id else ControllerRecord(broker_id, number)]
    return []


async def test_listeners_hear_of_records_after_the_image_has_them() -> None:
    metadata = await loaded(MemoryStore())
    heard: list[tuple[list[Record], bool]] = []
    metadata.listen(lambda records: heard.append((list(records), "t" in metadata.image.topics)))
    records = topic("t", 1)
    await metadata.commit(records)
    await metadata.commit([TopicRemoved("t")])
    assert heard == [(records, True), ([TopicRemoved("t")], False)]


async def test_removing_a_topic_leaves_no_node_behind() -> None:
    store = MemoryStore()
    metadata = await loaded(store)
    await metadata.commit([*topic("t", 1, 3), ConfigRecord(ConfigKind.TOPIC, "t", {"x": "1"})])
    await metadata.commit([TopicRemoved("t")])
    assert await store.tree("/") == {}


async def test_a_user_and_its_clients_leave_no_node_behind_in_whatever_order_they_go() -> None:
    user, first, second = entity_name("u"), entity_name("u", "c"), entity_name("u", None)
    pairs = [(ConfigKind.USER, user), (ConfigKind.USER_CLIENT, first), (ConfigKind.USER_CLIENT, second)]
    for came in permutations(pairs):
        for went in permutations(pairs):
            store = MemoryStore()
            metadata = await loaded(store)
            for kind, name in came:
                await metadata.commit([ConfigRecord(kind, name, {"x": name})])
            for count, (kind, name) in enumerate(went):
                assert metadata.image.config(kind, name) == {"x": name}
                await metadata.commit([ConfigRecord(kind, name, {})])
                assert sum(len(metadata.image.configured(other)) for other in ConfigKind) == 2 - count
            assert await store.tree("/") == {}


async def test_acls_and_tokens_leave_no_node_behind() -> None:
    store = MemoryStore()
    metadata = await loaded(store)
    await metadata.commit([acls("t", "User:a"), TokenRecord("x", "User:a", "User:a", (), 1, 2, 3)])
    assert [binding.principal for binding in metadata.image.acl_bindings()] == ["User:a"]
    await metadata.commit([acls("t"), TokenRemoved("x")])
    assert not metadata.image.acls
    assert not metadata.image.tokens
    assert await store.tree("/") == {}


async def test_nothing_to_do_is_no_commit() -> None:
    store = MemoryStore()
    metadata = await loaded(store)
    groups: list[object] = []
    store.watch(groups.append)
    await metadata.commit([])
    await metadata.commit([ConfigRecord(ConfigKind.TOPIC, "t", {})])
    await metadata.commit([ConfigRecord(ConfigKind.USER, "u", {})])
    await metadata.commit([ConfigRecord(ConfigKind.USER_CLIENT, "u/c", {})])
    await metadata.commit([acls("t"), TokenRemoved("x")])
    assert groups == []


@pytest.mark.parametrize(
    ("theirs", "mine", "error"),
    [
        (topic("new", 2), topic("new", 3), NodeExistsError),
        ([TopicRemoved("t")], [ConfigRecord(ConfigKind.TOPIC, "t", {"x": "2"})], NoNodeError),
        ([ConfigRecord(ConfigKind.TOPIC, "t", {"x": "3"})], [TopicRemoved("t")], BadVersionError),
        (topic("t", 1, 2), topic("t", 1, 3), BadVersionError),
    ],
)
async def test_who_decided_on_an_old_image_changes_nothing(
    theirs: list[Record], mine: list[Record], error: type[Exception]
) -> None:
    store = DeafStore()
    await (await loaded(store)).commit([*topic("t", 1), ConfigRecord(ConfigKind.TOPIC, "t", {"x": "1"})])
    fast, slow = await loaded(store), await loaded(store)
    await fast.commit(theirs)
    before = await store.tree("/")
    with pytest.raises(error):
        await slow.commit(mine)
    assert await store.tree("/") == before


@pytest.mark.parametrize(
    "mine",
    [
        [PartitionRecord("t", 0, 1, 0, (1,))],
        [ConfigRecord(ConfigKind.TOPIC, "t", {"x": "2"})],
        topic("t", 1, 2),
        [TopicRemoved("t")],
    ],
)
async def test_what_was_decided_about_a_deleted_topic_does_not_change_the_next_one(mine: list[Record]) -> None:
    """The nodes of both have the same versions. A leader of the first one changed the ISR of the second one."""
    store = DeafStore()
    created = [*topic("t", 1), ConfigRecord(ConfigKind.TOPIC, "t", {"x": "1"})]
    await (await loaded(store)).commit(created)
    slow = await loaded(store)
    await (await loaded(store)).commit([TopicRemoved("t")])
    await (await loaded(store)).commit([*topic("t", 2), ConfigRecord(ConfigKind.TOPIC, "t", {"x": "1"})])
    before = await store.tree("/")
    with pytest.raises(NoNodeError):
        await slow.commit(mine)
    assert await store.tree("/") == before


async def test_topics_of_an_earlier_version_get_the_nodes_of_their_ids_and_lose_those_of_others() -> None:
    """Such a version wrote the first of these topics, and deleted a second one."""
    store = MemoryStore()
    earlier: list[Stored] = [TopicRecord("t", UUID(int=1), ((1,),)), PartitionRecord("t", 0, 1, 0, (1,))]
    await store.commit([Create(*node_of(record)) for record in earlier])
    await store.commit([Create(*topic_id_node(UUID(int=9), "gone"))])
    await (await loaded(store)).commit(topic("u", 2))
    await (await loaded(store)).mend_topic_ids(Check("/brokers/topics/t", 0))
    assert [path for path in await store.tree("/") if path.startswith(TOPIC_IDS)] == [
        topic_id_path(UUID(int=number)) for number in (1, 2)
    ]
    heard: list[object] = []
    store.watch(heard.append)
    await (await loaded(store)).mend_topic_ids(Check("/brokers/topics/t", 0))
    assert heard == []
    await store.commit([Delete(topic_id_path(UUID(int=1)), 0)])
    with pytest.raises(BadVersionError):
        await (await loaded(store)).mend_topic_ids(Check("/brokers/topics/t", 7))


async def test_configs_that_come_just_before_a_topic_is_deleted_do_not_pass_to_the_next_one() -> None:
    store = DeafStore()
    await (await loaded(store)).commit(topic("t", 1))
    deleting = await loaded(store)
    await (await loaded(store)).commit([ConfigRecord(ConfigKind.TOPIC, "t", {"x": "1"})])
    await deleting.commit([TopicRemoved("t")])
    await (await loaded(store)).commit([*topic("t", 2), ConfigRecord(ConfigKind.TOPIC, "t", {})])
    assert (await loaded(store)).image.config(ConfigKind.TOPIC, "t") == {}


async def test_a_client_of_a_user_is_not_created_below_a_node_that_another_broker_removed() -> None:
    """The store cannot create a node above others, so the user could have had no configs ever after."""
    store = DeafStore()
    await (await loaded(store)).commit([ConfigRecord(ConfigKind.USER, "u", {"x": "1"})])
    fast, slow = await loaded(store), await loaded(store)
    await fast.commit([ConfigRecord(ConfigKind.USER, "u", {})])
    with pytest.raises(NoNodeError):
        await slow.commit([ConfigRecord(ConfigKind.USER_CLIENT, "u/c", {"x": "1"})])
    assert await store.tree("/") == {}


async def test_changes_of_another_broker_arrive() -> None:
    store = MemoryStore()
    mine, theirs = await loaded(store), await loaded(store)
    await theirs.commit(topic("t", 1))
    assert contents(mine.image) == contents(theirs.image)
    await mine.commit([TopicRemoved("t")])
    assert contents(theirs.image) == contents(ClusterImage())


async def test_nodes_of_others_do_not_disturb() -> None:
    store = MemoryStore()
    metadata = await loaded(store)
    heard: list[Sequence[Record]] = []
    metadata.listen(heard.append)
    await store.commit([Create("/cluster/id", b"not json")])
    assert [list(records) for records in heard] == [[]]

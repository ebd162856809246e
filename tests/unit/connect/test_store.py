"""The topics of the Connect service: what one service writes, the next one reads, and only the newest writes."""

import uuid
from collections.abc import Iterator

import pytest

from tailrace.connect.core.record import (
    Phase,
    Status,
    Store,
    Target,
    TopicUse,
    config_row,
    logger_row,
    offset_row,
    removal_rows,
    status_row,
    target_row,
    task_rows,
    task_status_row,
    topic_row,
)
from tailrace.connect.store import ConnectStore, Replaced, StoreError, TopicNames
from tailrace.testing import Broker

CONFIG = {"connector.class": "FileStreamSource", "file": "a.txt", "topic": "lines"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def names() -> TopicNames:
    unique = uuid.uuid4().hex[:8]
    return TopicNames(f"configs-{unique}", f"status-{unique}", f"offsets-{unique}")


def open_store(broker: Broker, names: TopicNames, worker_id: str = "127.0.0.1:8083") -> ConnectStore:
    return ConnectStore({"bootstrap.servers": broker.bootstrap_servers}, names, names.configs, worker_id)


async def test_what_was_written_is_there_after_a_start(broker: Broker, names: TopicNames) -> None:
    status = Status(Phase.FAILED, "127.0.0.1:8083", 1, "a reason")
    use = TopicUse("lines", "a-b", 0, 1_700_000_000_000)
    async with open_store(broker, names) as store:
        await store.append([config_row("a-b", CONFIG), *task_rows("a-b", [CONFIG]), target_row("a-b", Target.STOPPED)])
        await store.append([status_row("a-b", status), task_status_row("a-b", 0, status), topic_row(use)])
        await store.append([offset_row("a-b", {"filename": "a.txt"}, {"position": 7}), logger_row("root", "DEBUG")])
    async with open_store(broker, names) as store:
        connector = store.state.find("a-b")
        assert connector is not None
        assert (connector.config, connector.tasks, connector.target) == (CONFIG, [CONFIG], Target.STOPPED)
        assert store.state.statuses == {"a-b": status}
        assert store.state.task_statuses_of("a-b") == {0: status}
        assert store.state.topics == {"a-b": {"lines": use}}
        assert store.state.offsets == {"a-b": {'{"filename": "a.txt"}': {"position": 7}}}
        assert store.state.levels == {"root": "DEBUG"}
        assert store.generation == 2
        await store.append([*removal_rows("a-b"), status_row("a-b", None), topic_row(use, is_used=False)])
        assert (store.state.names, store.state.statuses, store.state.topics) == ([], {}, {"a-b": {}})


async def test_a_newer_service_takes_over(broker: Broker, names: TopicNames) -> None:
    async with open_store(broker, names, "host:1") as older, open_store(broker, names, "host:2") as newer:
        with pytest.raises(Replaced, match="has taken over"):
            await older.append([target_row("a", Target.PAUSED)])
        await newer.append([target_row("a", Target.PAUSED)])


async def test_an_older_service_notices_without_writing(broker: Broker, names: TopicNames) -> None:
    async with open_store(broker, names, "host:1") as older:
        async with open_store(broker, names, "host:2"):
            with pytest.raises(Replaced, match="the Connect service at host:2 has taken over"):
                await older.watch()


async def test_records_that_cannot_be_read_are_skipped(broker: Broker, names: TopicNames) -> None:
    async with open_store(broker, names) as store:
        await store.append([config_row("good", CONFIG)])
    broker.produce(names.configs, [(b"connector-bad", b"{"), (b"connector-worse", b"[]"), (b"other", b"{}")])
    broker.produce(names.offsets, [(b"{", b"{}"), (b"[1]", b"{}")])
    async with open_store(broker, names) as store:
        assert store.state.names == ["good"]


async def test_a_topic_that_loses_records_is_refused(broker: Broker, names: TopicNames) -> None:
    broker.create_topic(names.configs, 1)
    with pytest.raises(StoreError, match="policy delete, which would delete connectors"):
        await open_store(broker, names).__aenter__()


async def test_configs_need_one_partition(broker: Broker, names: TopicNames) -> None:
    broker.create_topic(names.configs, 2)
    with pytest.raises(StoreError, match="has 2 partitions; configs need exactly one"):
        await open_store(broker, names).__aenter__()


def test_topics_are_told_apart(names: TopicNames) -> None:
    assert [names.store_of(names.of(store)) for store in Store] == list(Store)

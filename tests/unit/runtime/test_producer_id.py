"""Producer ids: no two producers ever get the same one."""

import asyncio
from pathlib import Path

import pytest

from tailrace.base.invariant import InvariantError
from tailrace.base.limits import PRODUCER_ID_BLOCK_SIZE
from tailrace.coordination.embedded import EmbeddedStore
from tailrace.coordination.layout import PRODUCER_ID_BLOCK
from tailrace.coordination.memory import MemoryStore, MemoryTree
from tailrace.coordination.store import ANY_VERSION, Delete, Node
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.runtime.producer_id import ProducerIds


async def take(ids: ProducerIds, count: int) -> list[int]:
    return [await ids.next() for _ in range(count)]


async def test_ids_count_up_over_the_end_of_a_block() -> None:
    ids = ProducerIds(MemoryStore(), 1)
    assert await take(ids, PRODUCER_ID_BLOCK_SIZE + 3) == list(range(PRODUCER_ID_BLOCK_SIZE + 3))


async def test_a_restart_begins_another_block() -> None:
    store = MemoryStore()
    first = await take(ProducerIds(store, 1), 3)
    second = await take(ProducerIds(store, 1), 3)
    assert (first, second[0]) == ([0, 1, 2], PRODUCER_ID_BLOCK_SIZE)


async def test_a_block_is_reserved_before_its_first_id_is_given_out(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path / "metadata.sqlite")
    assert await ProducerIds(store, 1).next() == 0
    await store.close()
    again = EmbeddedStore(tmp_path / "metadata.sqlite")
    assert await ProducerIds(again, 1).next() == PRODUCER_ID_BLOCK_SIZE
    await again.close()


async def test_brokers_that_share_a_store_never_share_an_id() -> None:
    class SlowStore(MemoryStore):
        async def get(self, path: str) -> Node | None:
            node = await super().get(path)
            await asyncio.sleep(0)  # long enough for the other broker to be faster
            return node

    store = SlowStore()
    brokers = [ProducerIds(store, number) for number in range(3)]
    taken = await asyncio.gather(*(take(ids, PRODUCER_ID_BLOCK_SIZE + 1) for ids in brokers))
    everything = [producer_id for each in taken for producer_id in each]
    assert len(set(everything)) == len(everything)


async def test_a_store_that_lost_its_blocks_gives_out_no_id_twice() -> None:
    store = MemoryStore()
    ids = ProducerIds(store, 1)
    await take(ids, PRODUCER_ID_BLOCK_SIZE)
    await store.commit([Delete(PRODUCER_ID_BLOCK, ANY_VERSION)])
    with pytest.raises(InvariantError, match="producer ids from 0 are reserved again"):
        await ids.next()


async def test_many_producers_may_ask_at_once() -> None:
    store = MemoryStore()
    ids = ProducerIds(store, 1)
    assert sorted(await asyncio.gather(*(ids.next() for _ in range(50)))) == list(range(50))
    node = await store.get(PRODUCER_ID_BLOCK)
    assert node is not None
    assert node.version == 0


async def test_a_store_out_of_reach_is_no_bug_and_no_id_is_given_twice() -> None:
    store = MemoryStore(MemoryTree())
    ids = ProducerIds(store, 1)
    store.lose_next_answer()
    with pytest.raises(ApiError) as caught:
        await ids.next()
    assert caught.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert caught.value.code.retriable
    with pytest.raises(ApiError):
        await ids.next()
    store.resume()
    assert await ids.next() == PRODUCER_ID_BLOCK_SIZE

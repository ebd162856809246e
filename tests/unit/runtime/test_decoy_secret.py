"""The secret of decoys: one for all brokers of a cluster, random, and stored once."""

import asyncio

from tests.unit.sample import BrokerInMemory

from tailrace.base.clock import SystemClock
from tailrace.coordination.layout import DECOY_SECRET
from tailrace.coordination.memory import MemoryStore, MemoryTree
from tailrace.coordination.store import SessionState
from tailrace.runtime.decoy_secret import load_decoy_secret


async def test_brokers_that_start_together_get_the_same() -> None:
    async def turn() -> None:
        await asyncio.sleep(0)  # both find that there is none before one of them stores its own

    tree = MemoryTree()
    stores = [MemoryStore(tree, SystemClock(), pause=turn) for _ in range(3)]
    first, *others = await asyncio.gather(*map(load_decoy_secret, stores))
    assert len(first) == 32
    assert others == [first, first]
    assert await load_decoy_secret(MemoryStore(MemoryTree(), SystemClock())) != first


async def test_a_broker_that_is_not_answered_looks_again() -> None:
    store = MemoryStore(MemoryTree(), SystemClock())
    store.lose_next_answer()
    loading = asyncio.create_task(load_decoy_secret(store))
    while store.session_state is SessionState.CONNECTED:
        await asyncio.sleep(0)
    store.resume()
    assert await loading == await load_decoy_secret(store)


async def test_a_broker_keeps_its_secret_and_does_not_show_it() -> None:
    machine = BrokerInMemory()
    async with machine.running() as broker:
        assert await machine.store.get(DECOY_SECRET) is None  # no client logs in
        assert broker.decoy_secret == b""
    login = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl_enabled_mechanisms": "SCRAM-SHA-256"}
    async with machine.running(**login) as broker:
        secret = broker.decoy_secret
        assert "decoy_secret" not in repr(broker)
    async with machine.running(**login) as broker:
        assert broker.decoy_secret == secret

"""Pauses end by themselves, earlier when a quota was raised, and at once when their connection is lost."""

import asyncio

from tailrace.server.quota.pause import Pause, Pauses

LONG_MS = 3_600_000.0


async def test_a_pause_ends_by_itself() -> None:
    pauses = Pauses()
    began = asyncio.get_running_loop().time()
    await Pause(pauses, 20.0, lambda: 0.0).wait()
    assert asyncio.get_running_loop().time() - began >= 0.02
    assert not pauses.running


async def test_a_raised_quota_shortens_pauses() -> None:
    pauses = Pauses()
    rest_ms = LONG_MS
    waits = [asyncio.create_task(Pause(pauses, LONG_MS, lambda: rest_ms).wait()) for _ in range(3)]
    await asyncio.sleep(0)
    assert len(pauses.running) == 3
    pauses.reconsider()
    await asyncio.sleep(0)
    assert len(pauses.running) == 3
    rest_ms = 0.0
    pauses.reconsider()
    await asyncio.gather(*waits)
    assert not pauses.running


async def test_a_lowered_quota_does_not_lengthen_a_pause() -> None:
    pauses = Pauses()
    wait = asyncio.create_task(Pause(pauses, 20.0, lambda: LONG_MS).wait())
    await asyncio.sleep(0)
    pauses.reconsider()
    await wait


async def test_a_lost_connection_ends_its_pause() -> None:
    pauses = Pauses()
    pause = Pause(pauses, LONG_MS, lambda: LONG_MS)
    wait = asyncio.create_task(pause.wait())
    await asyncio.sleep(0)
    pause.end()
    await wait
    over = Pause(pauses, LONG_MS, lambda: LONG_MS)
    over.end()  # before the wait has begun
    await over.wait()

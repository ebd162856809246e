"""Registry servers in the event loop of a test."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from tailrace.registry.process import Options, RegistryServer


@contextlib.asynccontextmanager
async def serving(options: Options) -> AsyncIterator[RegistryServer]:
    """Run a registry, and wait until it takes every request."""
    server, is_ready = RegistryServer(options), asyncio.Event()
    running = asyncio.create_task(server.run(is_ready.set))
    waiting = asyncio.create_task(is_ready.wait())
    await asyncio.wait([running, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if running.done():
        running.result()
    try:
        yield server
    finally:
        server.stop()
        await running


@contextlib.asynccontextmanager
async def starting(options: Options) -> AsyncIterator[RegistryServer]:
    """Run a registry without waiting until it takes requests."""
    server = RegistryServer(options)
    running = asyncio.create_task(server.run(lambda: None))
    try:
        yield server
    finally:
        server.stop()
        await running

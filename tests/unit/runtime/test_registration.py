"""What a broker says of its clean stops when it registers, and what its folders carry."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tailrace.base.clock import SystemClock
from tailrace.coordination.cluster import ClusterMetadata
from tailrace.coordination.memory import MemoryStore, MemoryTree
from tailrace.machines.controller.record import REVOKED, BrokerAdmitted, BrokerRecord
from tailrace.runtime.log.folder import UNCLEAN
from tailrace.runtime.registration import Registration
from tailrace.storage.checkpoint import CleanStop

WAIT_MS = 10_000


@asynccontextmanager
async def process(tree: MemoryTree, found: CleanStop | None) -> AsyncIterator[tuple[Registration, ClusterMetadata]]:
    """A broker that starts with what its folders carry, registers, and ends with its session."""
    store = MemoryStore(tree, SystemClock())
    metadata = ClusterMetadata(store)
    await metadata.load()
    registration = Registration(metadata, 1, found_stop=found)
    await registration.register(WAIT_MS)
    try:
        yield registration, metadata
    finally:
        await store.close()


def registered(registration: Registration) -> BrokerRecord:
    record = registration.record
    assert record is not None
    return record


async def admit(metadata: ClusterMetadata, record: BrokerRecord) -> None:
    await metadata.commit([BrokerAdmitted(1, record.epoch, record.incarnation)])


async def test_a_broker_that_was_never_admitted_is_clean_if_it_stopped_so() -> None:
    async with process(MemoryTree(), CleanStop()) as (registration, _):
        assert registered(registration).is_clean
        assert registration.clean_stop is not None
        assert registration.clean_stop.broker_epoch == -1


async def test_who_was_killed_is_unclean_until_it_is_admitted() -> None:
    async with process(MemoryTree(), None) as (registration, metadata):
        record = registered(registration)
        assert not record.is_clean
        assert registration.clean_stop == CleanStop(UNCLEAN, record.incarnation)
        await admit(metadata, record)
        assert registration.clean_stop == CleanStop(record.epoch, record.incarnation)


@pytest.mark.parametrize("found", [None, CleanStop()], ids=["killed before", "clean before"])
async def test_who_stops_before_it_hears_of_its_admission_has_lost_nothing(found: CleanStop | None) -> None:
    """It took itself for unclean, lost its place in every ISR, and a broker without the records was elected.

    Seed 364 of simulated clusters with transactions found it.
    """
    tree = MemoryTree()
    async with process(tree, found) as (registration, metadata):
        first = registered(registration)
        left = registration.clean_stop
        await admit(metadata, first)  # as a controller does that has not seen it go
    async with process(tree, left) as (registration, _):
        assert registered(registration).is_clean


async def test_who_only_passed_through_leaves_what_it_found() -> None:
    """A process that never got as far as an admission says nothing else than the one before it."""
    tree = MemoryTree()
    async with process(tree, CleanStop()) as (registration, metadata):
        await admit(metadata, registered(registration))
        left = registration.clean_stop
    async with process(tree, left) as (registration, _):
        left = registration.clean_stop
    async with process(tree, left) as (registration, _):
        assert registered(registration).is_clean


@pytest.mark.parametrize("found", [CleanStop(5, "another"), CleanStop(5), CleanStop(UNCLEAN)])
async def test_folders_of_an_older_time_are_unclean(found: CleanStop) -> None:
    tree = MemoryTree()
    async with process(tree, None) as (registration, metadata):
        await admit(metadata, registered(registration))
    async with process(tree, found) as (registration, _):
        assert not registered(registration).is_clean


async def test_nobody_is_clean_while_it_is_dealt_with() -> None:
    tree = MemoryTree()
    async with process(tree, CleanStop()) as (registration, metadata):
        await admit(metadata, registered(registration))
        left = registration.clean_stop
        await metadata.commit([BrokerAdmitted(1, REVOKED)])
    async with process(tree, left) as (registration, _):
        assert not registered(registration).is_clean

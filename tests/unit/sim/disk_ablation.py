"""Safeguards of disks, elections, acknowledgements, producer ids and configs, each taken away by a patch."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from tailrace.base.limits import PRODUCER_ID_BLOCK_SIZE
from tailrace.coordination.cluster import ClusterMetadata
from tailrace.coordination.layout import PRODUCER_ID_BLOCK, node_of
from tailrace.coordination.store import ANY_VERSION, Put
from tailrace.machines.controller.election import Rule
from tailrace.machines.controller.record import ConfigRecord, PartitionRecord, Record
from tailrace.machines.replica.leader import LeaderReplica
from tailrace.runtime.live_config import LiveConfig
from tailrace.runtime.producer_id import ProducerIds
from tailrace.runtime.replication.role import Role
from tailrace.storage.error import StorageError
from tailrace.storage.folder import Folder


@contextmanager
def failed_flushes_are_forgiven() -> Iterator[None]:
    """A folder stays online after a failed fsync, although the kernel has dropped what it could not write."""
    fail = Folder.fail

    def forgive(folder: Folder, error: StorageError) -> None:
        if not error.is_sync:
            fail(folder, error)

    with patch.object(Folder, "fail", forgive):
        yield


@contextmanager
def any_replica_may_lead() -> Iterator[None]:
    """Every topic allows unclean elections, whatever its config says."""
    election_rule = LiveConfig.election_rule

    def allow(config: LiveConfig, topic: str) -> Rule:
        return replace(election_rule(config, topic), is_unclean_allowed=True)

    with patch.object(LiveConfig, "election_rule", allow):
        yield


@contextmanager
def one_replica_is_enough() -> Iterator[None]:
    """A leader that is alone in its ISR acknowledges, whatever min.insync.replicas says."""
    lead, committed_offset = Role.lead, LeaderReplica.committed_offset

    def lead_alone(role: Role, record: PartitionRecord, count: int, _min_isr: int, end_offset: int) -> Role:
        return lead(role, record, count, 1, end_offset)

    def commit_alone(machine: LeaderReplica, *state: Any) -> int:
        elr, machine.elr = machine.elr, ()
        try:
            return committed_offset(machine, *state)
        finally:
            machine.elr = elr

    with patch.object(Role, "lead", lead_alone), patch.object(LeaderReplica, "committed_offset", commit_alone):
        with patch.object(LeaderReplica, "is_under_min_isr", property(lambda _: False)):
            yield


@contextmanager
def producer_ids_are_not_reserved() -> Iterator[None]:
    """A broker hands out the ids after the reserved ones without reserving them, if any were reserved before."""
    reserve = ProducerIds._reserve

    async def guess(ids: ProducerIds) -> None:
        node = await ids._store.get(PRODUCER_ID_BLOCK)
        if node is None:
            await reserve(ids)
        else:
            ids._next = json.loads(node.value)["block_end"] + 1
            ids._end = ids._next + PRODUCER_ID_BLOCK_SIZE

    with patch.object(ProducerIds, "_reserve", guess):
        yield


@contextmanager
def configs_are_overwritten() -> Iterator[None]:
    """A broker writes the configs of a topic over whatever is there."""
    commit = ClusterMetadata.commit

    async def overwrite(metadata: ClusterMetadata, records: Sequence[Record], guards: Sequence[Any] = ()) -> None:
        known = metadata.store.nodes  # type: ignore[attr-defined]
        is_known = all(isinstance(record, ConfigRecord) and node_of(record)[0] in known for record in records)
        if records and is_known:
            nodes = [node_of(record) for record in records if isinstance(record, ConfigRecord)]
            await metadata.store.commit([Put(*node, ANY_VERSION) for node in nodes])
        else:
            await commit(metadata, records, guards)

    with patch.object(ClusterMetadata, "commit", overwrite):
        yield


ABLATIONS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "failed flushes are forgiven": failed_flushes_are_forgiven,
    "any replica may lead": any_replica_may_lead,
    "one replica is enough": one_replica_is_enough,
    "producer ids are not reserved": producer_ids_are_not_reserved,
    "configs are overwritten": configs_are_overwritten,
}

FOUND = {
    "failed flushes are forgiven": {"Violation", "lost-write", "unseen", "inconsistent-offsets", "misplaced"},
    "any replica may lead": {"an unclean election"},
    "one replica is enough": {"min.insync.replicas is"},
    "producer ids are not reserved": {"producer id"},
    "configs are overwritten": {"lost-config"},
}
"""What a simulation without the safeguard finds, among others."""

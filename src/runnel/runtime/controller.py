"""The shell around the controller's decisions: one at a time, committed, then carried out.

Every broker has one; it decides only while its broker is the controller, and says NOT_CONTROLLER otherwise. Commits
are conditional on that too. Leaders change their own partitions at the same time, and whoever comes second decides
again on what the first one left.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from uuid import UUID, uuid4

from runnel.base.limits import DECISION_ATTEMPTS_MAX, RECORDS_PER_COMMIT_MAX
from runnel.coordination.cluster import ClusterMetadata
from runnel.coordination.store import (
    BadVersionError,
    CommitTooLargeError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    OutcomeUnknown,
)
from runnel.machines.controller.departure import decide_unregister
from runnel.machines.controller.election import Election, RuleOf
from runnel.machines.controller.image import Topic
from runnel.machines.controller.leader_election import decide_balance, decide_elect
from runnel.machines.controller.move import Move, decide_moves
from runnel.machines.controller.record import ConfigKind, ConfigRecord, Record
from runnel.machines.controller.topic import Defaults, NewTopic, decide_add_partitions, decide_create, decide_delete
from runnel.machines.controller.topic_step import next_removal, split_change
from runnel.protocol.errors import ApiError, ErrorCode
from runnel.runtime.election import ControllerElection
from runnel.storage.error import StorageError

log = logging.getLogger("runnel.runtime")

_RESERVED_IDS = {UUID(int=0), UUID(int=1)}  # Kafka: no topic, and the metadata topic
_CONFLICTS = (BadVersionError, NodeExistsError, NoNodeError, NotEmptyError)


class Controller:
    """Changes of topics, leaders, replicas and dynamic configuration."""

    def __init__(
        self,
        metadata: ClusterMetadata,
        election: ControllerElection,
        rule_of: RuleOf,
        carried_out: Callable[[], Awaitable[None]],
    ) -> None:
        self._metadata = metadata
        self._election = election
        self._rule_of = rule_of
        self._carried_out = carried_out
        # A decision reads the image; until it is committed this controller makes no other on the same image.
        self.turn = asyncio.Lock()

    # --- topics

    async def create_topic(self, new: NewTopic, defaults: Defaults, *, validate_only: bool = False) -> Topic:
        """Make a topic; it is ready for use when this returns."""
        topic_id = uuid4()
        while topic_id in _RESERVED_IDS:
            topic_id = uuid4()
        image = self._metadata.image
        records = await self._change(lambda: decide_create(image, new, topic_id, defaults), validate_only)
        if validate_only:
            return Topic(new.name, UUID(int=0), records[0].assignment)  # type: ignore[union-attr]
        return image.topics.get(new.name) or Topic(new.name, topic_id, records[0].assignment)  # type: ignore[union-attr]

    async def add_partitions(
        self, name: str, count: int, assignments: Sequence[Sequence[int]] | None, *, validate_only: bool
    ) -> None:
        """Grow a topic to `count` partitions."""
        image = self._metadata.image
        await self._change(lambda: decide_add_partitions(image, name, count, assignments), validate_only)

    async def delete_topic(self, name: str) -> None:
        """Remove a topic and its data."""
        image = self._metadata.image
        await self._change(lambda: decide_delete(image, name))
        while name in image.hidden:
            await self._change(lambda: next_removal(image, name))

    async def write_config(
        self,
        kind: ConfigKind,
        name: str,
        change: Callable[[Mapping[str, str]], Mapping[str, str]],
        *,
        validate_only: bool,
    ) -> None:
        """Replace a dynamic configuration by what `change` makes of it; `change` raises for what is not allowed.

        Any broker may do this, because clients send it to any: it concerns one node that nobody else decides about.
        """
        image = self._metadata.image
        await self._change(
            lambda: [ConfigRecord(kind, name, change(image.config(kind, name)))], validate_only, is_anybodys=True
        )

    # --- leaders and replicas

    async def elect_leader(self, name: str, partition: int, election: Election) -> None:
        """Have a partition led by its first replica, or by anybody."""
        image = self._metadata.image
        await self._change(lambda: decide_elect(image, name, partition, election, self._rule_of(name)))

    async def move_partitions(
        self, name: str, moves: Sequence[Move], *, may_change_factor: bool
    ) -> Mapping[int, ApiError]:
        """Send partitions of a topic to other brokers, or call them back; the errors of those that cannot be."""
        image = self._metadata.image
        errors: dict[int, ApiError] = {}

        def decide() -> list[Record]:
            moved = decide_moves(image, name, moves, self._rule_of(name), may_change_factor=may_change_factor)
            errors.clear()
            errors.update(moved.errors)
            return moved.records

        await self._change(decide)
        return errors

    async def balance_leaders(self, imbalance_percent_max: int) -> int:
        """Have brokers lead again what they should; how many partitions that were."""
        image, count = self._metadata.image, 0
        while records := await self._change(
            lambda: decide_balance(image, self._rule_of, imbalance_percent_max, RECORDS_PER_COMMIT_MAX)
        ):
            count += len(records)
        return count

    async def unregister_broker(self, broker_id: int) -> None:
        """Send a broker away, if it is there, and forget it."""
        image = self._metadata.image
        await self._change(lambda: decide_unregister(image, broker_id, self._rule_of))
        # One that registers meanwhile was started again, and is a new broker.
        while broker_id in image.admitted and broker_id not in image.brokers:
            await self._change(lambda: decide_unregister(image, broker_id, self._rule_of))

    # --- how

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller."""
        return self._election.is_controller

    def check(self) -> None:
        """Raise unless this broker is the controller."""
        if not self.is_active:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "This is not the correct controller for this cluster.")

    async def commit(self, records: Sequence[Record]) -> None:
        """Commit what was decided on the image as it is now, if this broker is still the controller."""
        await self._metadata.commit(records, [self._election.guard])

    async def _change(
        self, decide: Callable[[], list[Record]], validate_only: bool = False, *, is_anybodys: bool = False
    ) -> list[Record]:
        async with self.turn:
            records = await self._commit_decision(decide, validate_only, is_anybodys)
        if not validate_only:
            await self._carried_out()
        return records

    async def _commit_decision(
        self, decide: Callable[[], list[Record]], validate_only: bool, is_anybodys: bool
    ) -> list[Record]:
        for _ in range(DECISION_ATTEMPTS_MAX):
            if not is_anybodys:
                self.check()
            records = decide()
            if validate_only:
                return records
            try:
                if is_anybodys:
                    await self._metadata.commit(records)
                else:
                    for step in split_change(self._metadata.image, records):
                        await self.commit(step)
            except _CONFLICTS:
                continue  # a leader or another controller was faster, and the image knows
            except CommitTooLargeError as error:
                message = "This is too large for one change of the cluster's metadata: make it in several, with fewer "
                raise ApiError(ErrorCode.POLICY_VIOLATION, message + "partitions each.") from error
            except OutcomeUnknown as error:
                raise ApiError(ErrorCode.NOT_CONTROLLER, "The metadata store is out of reach.") from error
            except StorageError as error:
                # An outcome for this one change: others of the same request may have been made already.
                log.error("the metadata could not be written: %s", error)
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "the metadata could not be written") from error
            return records
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "Others change the same things all the time.")

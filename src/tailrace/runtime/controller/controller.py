"""The shell around the controller's decisions: one at a time, committed, then carried out.

Every broker has one. It decides only while its broker is the controller, and raises NOT_CONTROLLER otherwise. Its
commits are conditional on that, too. Leaders change the states of their partitions at the same time; if a leader's
write comes first, the controller decides again on the new state.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from uuid import UUID, uuid4

from tailrace.base.limits import DECISION_ATTEMPTS_MAX, RECORDS_PER_COMMIT_MAX
from tailrace.base.text import printable
from tailrace.config.broker import broker_option
from tailrace.coordination.cluster import ClusterMetadata
from tailrace.coordination.store import (
    BadVersionError,
    CommitTooLargeError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    OutcomeUnknown,
)
from tailrace.machines.controller.departure import decide_unregister
from tailrace.machines.controller.election import Election, RuleOf
from tailrace.machines.controller.image import Topic
from tailrace.machines.controller.leader_election import decide_balance, decide_elect
from tailrace.machines.controller.move import Move, decide_moves
from tailrace.machines.controller.record import CLUSTER_DEFAULT, ConfigKind, ConfigRecord, Record
from tailrace.machines.controller.topic import Defaults, NewTopic, decide_add_partitions, decide_create, decide_delete
from tailrace.machines.controller.topic_step import next_removal, split_change
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.runtime.controller.election import ControllerElection
from tailrace.security.scram.mechanism import SCRAM_MECHANISMS
from tailrace.storage.error import StorageError

log = logging.getLogger("tailrace.runtime")

_RESERVED_IDS = {UUID(int=0), UUID(int=1)}  # Kafka: no topic, and the metadata topic
CONFLICTS = (BadVersionError, NodeExistsError, NoNodeError, NotEmptyError)


class Controller:
    """Changes topics, leaders, replicas and dynamic configs."""

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
        # A decision reads the image. Until it is committed, this controller makes no other decision on the same image.
        self.turn = asyncio.Lock()

    # --- topics

    async def create_topic(self, new: NewTopic, defaults: Defaults, *, validate_only: bool = False) -> Topic:
        """Create a topic; it is ready for use when this returns."""
        topic_id = uuid4()
        while topic_id in _RESERVED_IDS:
            topic_id = uuid4()
        image = self._metadata.image
        records = await self._change(lambda: decide_create(image, new, topic_id, defaults), validate_only)
        if validate_only:
            return Topic(new.name, UUID(int=0), records[0].assignment)  # type: ignore[union-attr]
        assignment = records[0].assignment  # type: ignore[union-attr]
        counts = len(assignment), len(assignment[0])
        log.info("created topic %s with %d partitions and replication factor %d", new.name, *counts)
        return image.topics.get(new.name) or Topic(new.name, topic_id, records[0].assignment)  # type: ignore[union-attr]

    async def add_partitions(
        self, name: str, count: int, assignments: Sequence[Sequence[int]] | None, *, validate_only: bool
    ) -> None:
        """Grow a topic to `count` partitions."""
        image = self._metadata.image
        await self._change(lambda: decide_add_partitions(image, name, count, assignments), validate_only)
        if not validate_only:
            log.info("topic %s now has %d partitions", name, count)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and its data."""
        image = self._metadata.image
        await self._change(lambda: decide_delete(image, name))
        while name in image.hidden:
            await self._change(lambda: next_removal(image, name))
        log.info("deleted topic %s", name)

    async def write_config(
        self,
        kind: ConfigKind,
        name: str,
        change: Callable[[Mapping[str, str]], Mapping[str, str]],
        *,
        validate_only: bool,
    ) -> None:
        """Replace dynamic configs with the result of `change`, which raises if a config is not allowed.

        Every broker may do this, because clients send such requests to any broker, and no decision of the controller
        concerns the node that is written.
        """
        image = self._metadata.image
        before: Mapping[str, str] = {}
        after: Mapping[str, str] = {}

        def decide() -> list[Record]:
            nonlocal before, after
            before = image.config(kind, name)
            after = change(before)
            return [ConfigRecord(kind, name, after)]

        await self._change(decide, validate_only, for_any_broker=True)
        if not validate_only and before != after:
            log.info("changed configs of %s: %s", _resource(kind, name), _difference(kind, before, after))

    async def change_as_any_broker(self, decide: Callable[[], list[Record]]) -> None:
        """Commit a decision that needs no controller: it concerns nodes that no decision of the controller does."""
        await self._change(decide, for_any_broker=True)

    # --- leaders and replicas

    async def elect_leader(self, name: str, partition: int, election: Election) -> None:
        """Elect the preferred leader of a partition, or any live replica."""
        image = self._metadata.image
        await self._change(lambda: decide_elect(image, name, partition, election, self._rule_of(name)))

    async def move_partitions(
        self, name: str, moves: Sequence[Move], *, may_change_factor: bool
    ) -> Mapping[int, ApiError]:
        """Reassign partitions of a topic or cancel that; return an error for each partition that is refused."""
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
        """Elect preferred leaders where they lead too few partitions; return the number of elections."""
        image, count = self._metadata.image, 0
        while records := await self._change(
            lambda: decide_balance(image, self._rule_of, imbalance_percent_max, RECORDS_PER_COMMIT_MAX)
        ):
            count += len(records)
        return count

    async def unregister_broker(self, broker_id: int) -> None:
        """Remove a broker from the cluster, whether it is alive or not."""
        image = self._metadata.image
        await self._change(lambda: decide_unregister(image, broker_id, self._rule_of))
        # A broker that registers meanwhile was restarted, and is a new broker.
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
        """Commit a decision on the present image, if this broker is still the controller."""
        await self._metadata.commit(records, [self._election.guard])

    async def _change(
        self, decide: Callable[[], list[Record]], validate_only: bool = False, *, for_any_broker: bool = False
    ) -> list[Record]:
        async with self.turn:
            records = await self._commit_decision(decide, validate_only, for_any_broker)
        if not validate_only:
            await self._carried_out()
        return records

    async def _commit_decision(
        self, decide: Callable[[], list[Record]], validate_only: bool, for_any_broker: bool
    ) -> list[Record]:
        for _ in range(DECISION_ATTEMPTS_MAX):
            if not for_any_broker:
                self.check()
            records = decide()
            if validate_only:
                return records
            try:
                if for_any_broker:
                    await self._metadata.commit(records)
                else:
                    for step in split_change(self._metadata.image, records):
                        await self.commit(step)
            except CONFLICTS:
                continue  # a leader or another controller wrote first, and the image has its change
            except CommitTooLargeError as error:
                message = "The request is too large for one commit of the metadata; split it into requests with fewer "
                message += "changes." if for_any_broker else "partitions."
                raise ApiError(ErrorCode.POLICY_VIOLATION, message) from error
            except OutcomeUnknown as error:
                raise ApiError(ErrorCode.NOT_CONTROLLER, "The metadata store cannot be reached.") from error
            except StorageError as error:
                # An error of this change only: others of the same request may be committed already.
                log.error("the metadata could not be written: %s", error)
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "the metadata could not be written") from error
            return records
        raise ApiError(
            ErrorCode.REQUEST_TIMED_OUT, f"Other brokers wrote first in {DECISION_ATTEMPTS_MAX} attempts; try again."
        )


def _resource(kind: ConfigKind, name: str) -> str:
    if kind is ConfigKind.BROKER and name == CLUSTER_DEFAULT:
        return "all brokers"
    return f"{kind.name.lower().replace('_', ' and ')} {printable(name)}"


def _difference(kind: ConfigKind, before: Mapping[str, str], after: Mapping[str, str]) -> str:
    changed = [name for name in sorted(after) if before.get(name) != after[name]]
    changes = [f"{name}={'***' if _is_secret(kind, name) else after[name]}" for name in changed]
    changes += [f"{name} removed" for name in sorted(before.keys() - after.keys())]
    return printable(", ".join(changes))


def _is_secret(kind: ConfigKind, name: str) -> bool:
    if kind is ConfigKind.USER:
        return name in SCRAM_MECHANISMS
    option = broker_option(name)
    return option is not None and option.sensitive

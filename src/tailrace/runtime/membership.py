"""A broker's membership in its cluster: how it joins, stays and leaves.

The broker registers, stands for election as controller, and waits until the controller, which may be itself, admits it.
A single broker takes the same steps as one of many.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence

from tailrace.coordination.cluster import ClusterMetadata
from tailrace.machines.controller.leader_election import has_leaders_to_hand_over
from tailrace.machines.controller.record import Record
from tailrace.runtime.background import Run
from tailrace.runtime.controller.controller import Controller
from tailrace.runtime.controller.election import ControllerElection
from tailrace.runtime.controller.settlement import Settlement
from tailrace.runtime.live_config import LiveConfig
from tailrace.runtime.registration import Registration

log = logging.getLogger("tailrace.runtime")


class NotAdmitted(Exception):
    """The controller did not admit the broker in time."""


class Membership:
    """The registration, the election of the controller, and the controller's work."""

    def __init__(
        self,
        metadata: ClusterMetadata,
        registration: Registration,
        live_config: LiveConfig,
        carried_out: Callable[[], Coroutine[None, None, None]],
    ) -> None:
        """`carried_out` returns when this broker has applied every change of topics so far."""
        self._metadata = metadata
        self._config = live_config.current
        self._broker_id = live_config.current().node_id
        self.registration = registration
        self.election = ControllerElection(metadata, self._broker_id, lambda: registration.record is not None)
        self.controller = Controller(metadata, self.election, live_config.election_rule, carried_out)
        self._settlement = Settlement(
            metadata, self.election, self.controller, live_config.election_rule, live_config.current
        )
        self._changed = asyncio.Event()
        self._is_leaving = False

    def on_records(self, records: Sequence[Record]) -> None:
        """Note a change of the image."""
        self.registration.on_records(records)
        self.election.on_records(records)
        self._settlement.on_records(records)
        self._changed.set()

    async def join(self, start: Callable[[Run], None]) -> None:
        """Register, become the controller if there is none, and return when the controller has admitted this broker.

        `start` runs the tasks that keep the broker a member, in the background.
        """
        wait_ms = self._config().initial_broker_registration_timeout_ms
        await self.registration.register(wait_ms)
        await self.election.stand_while_vacant()
        for run in (self.registration.run, self.election.run, self._settlement.run, self._settlement.balance):
            start(run)
        if not await self._becomes(lambda: self.registration.is_admitted, wait_ms):
            raise NotAdmitted(
                f"broker {self._broker_id} was not admitted within {wait_ms} ms; the controller is broker "
                f"{self._metadata.image.controller_id}, and its log says why"
            )

    async def leave(self) -> None:
        """Hand leadership over to other brokers, if there are any, before this broker stops."""
        config = self._config()
        if self._is_leaving or not config.controlled_shutdown_enable or self.registration.record is None:
            return
        self._is_leaving = True
        image = self._metadata.image
        if not any(image.is_active(other) for other in image.brokers if other != self._broker_id):
            return
        wait_ms = max(1, config.controlled_shutdown_max_retries) * config.controlled_shutdown_retry_backoff_ms
        try:
            async with asyncio.timeout(wait_ms / 1000):
                await self.registration.announce_stop()
        except TimeoutError:
            pass
        if not await self._becomes(lambda: not self._leads_for_others(), wait_ms):
            log.warning("broker %d stops while it leads partitions that other brokers could lead", self._broker_id)

    def _leads_for_others(self) -> bool:
        return has_leaders_to_hand_over(self._metadata.image, self._broker_id)

    async def _becomes(self, condition: Callable[[], bool], wait_ms: float) -> bool:
        try:
            async with asyncio.timeout(wait_ms / 1000):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return condition()
        return True

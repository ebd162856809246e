"""A broker joins its cluster, stays in it, and leaves.

It registers, stands for election, and waits for the controller, who may be itself, to admit it. A single broker
takes the same way as one of many.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence

from runnel.config.broker import BrokerConfig
from runnel.coordination.cluster import ClusterMetadata
from runnel.machines.controller.election import RuleOf
from runnel.machines.controller.leader_election import has_leaders_to_hand_over
from runnel.machines.controller.record import Endpoint, Record
from runnel.runtime.controller import Controller
from runnel.runtime.election import ControllerElection
from runnel.runtime.endless import Endless
from runnel.runtime.error import NotAdmitted
from runnel.runtime.registration import Registration
from runnel.runtime.settlement import Settlement
from runnel.storage.checkpoint import CleanStop

log = logging.getLogger("runnel.runtime")


class Membership:
    """Registration, election and the controller's work, held together."""

    def __init__(
        self,
        metadata: ClusterMetadata,
        config: Callable[[], BrokerConfig],
        rule_of: RuleOf,
        carried_out: Callable[[], Coroutine[None, None, None]],
    ) -> None:
        self._metadata = metadata
        self._config = config
        self._broker_id = config().node_id
        self.registration = Registration(metadata, self._broker_id, config().broker_rack)
        self.election = ControllerElection(metadata, self._broker_id, lambda: self.registration.record is not None)
        self.controller = Controller(metadata, self.election, rule_of, carried_out)
        self.settlement = Settlement(metadata, self.election, self.controller, rule_of, config)
        self._changed = asyncio.Event()
        self._is_leaving = False

    def on_records(self, records: Sequence[Record]) -> None:
        """Take note of a change of the image."""
        self.registration.on_records(records)
        self.election.on_records(records)
        self.settlement.on_records(records)
        self._changed.set()

    async def join(self, endpoints: Sequence[Endpoint], clean_stop: CleanStop | None) -> None:
        """Register, and be the controller if there is none; `clean_stop` is what the folders carry."""
        wait_ms = self._config().initial_broker_registration_timeout_ms
        await self.registration.register(endpoints, clean_stop, wait_ms)
        await self.election.stand_while_vacant()

    async def admitted(self) -> None:
        """Return when the controller has admitted the broker; needs the tasks to run."""
        wait_ms = self._config().initial_broker_registration_timeout_ms
        if not await self._becomes(lambda: self.registration.is_admitted, wait_ms):
            raise NotAdmitted(
                f"broker {self._broker_id} was not admitted within {wait_ms} ms; the controller is broker "
                f"{self._metadata.image.controller_id}, and its log says why"
            )

    def tasks(self) -> list[Endless]:
        """What runs as long as the broker."""
        return [self.registration.run, self.election.run, self.settlement.run, self.settlement.balance]

    async def leave(self) -> None:
        """Have others lead what this broker leads, if there are any, before it stops."""
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
            log.warning("this broker stops though it leads partitions that others could lead")

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

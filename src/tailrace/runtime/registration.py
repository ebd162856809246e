"""This broker's registration: a node in the metadata store that lives as long as the broker's session.

The registration's epoch is the number of the transaction that created the node. The registration says whether the
broker is clean, that is, whether it has lost nothing since the controller last admitted it: either it stopped cleanly
and its folders carry the epoch in which it was admitted, or it never stopped and only its session ended. A broker that
is not clean loses its place in every ISR before it is admitted again (KIP-966).

A process may stop before it learns that it was admitted, or even that it was registered. So admissions and folders
also carry the incarnation of the process: what the admitted process itself left behind is clean, whatever its epoch.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from uuid import uuid4

from tailrace.base.invariant import invariant
from tailrace.coordination.cluster import ClusterMetadata
from tailrace.coordination.store import BadVersionError, NodeExistsError, NoNodeError, OutcomeUnknown
from tailrace.machines.controller.record import UNREGISTERED, BrokerRecord, BrokerRemoved, Endpoint, Record
from tailrace.runtime.log.folder import UNCLEAN
from tailrace.storage.checkpoint import CleanStop

log = logging.getLogger("tailrace.runtime")

NEVER = -1
"""In place of the epoch in which a broker was admitted: it has not been admitted yet."""


class DuplicateBroker(Exception):
    """Another broker with the same id is registered."""


class Registration:
    """Registers the broker, and registers it again when its session has ended."""

    def __init__(
        self,
        metadata: ClusterMetadata,
        broker_id: int,
        *,
        rack: str | None = None,
        endpoints: Sequence[Endpoint] = (),
        found_stop: CleanStop | None,
    ) -> None:
        """`found_stop` is the clean stop that the folders are marked with; None if they cannot prove one."""
        self._metadata = metadata
        self._broker_id = broker_id
        self._wanted = BrokerRecord(broker_id, 0, tuple(endpoints), rack, incarnation=uuid4().hex)
        self._found_stop = found_stop
        self._clean_epoch = UNCLEAN  # the admission since which nothing has been lost
        self._was_admitted = False
        self._has_begun = False
        self._moved = asyncio.Event()

    @property
    def record(self) -> BrokerRecord | None:
        """The registration of this process; None while there is none."""
        record = self._metadata.image.brokers.get(self._broker_id)
        return record if record is not None and record.incarnation == self._wanted.incarnation else None

    @property
    def announced(self) -> BrokerRecord:
        """What other brokers know of this broker, or will know once it is registered."""
        return self.record or self._wanted

    @property
    def is_admitted(self) -> bool:
        """Whether the controller has dealt with the registration."""
        return self.record is not None and self._metadata.image.is_live(self._broker_id)

    @property
    def clean_stop(self) -> CleanStop | None:
        """The mark that a clean stop may now leave on the folders: the admission since which nothing has been lost.

        None if the broker never tried to register: then the folders keep the marks that they had.
        """
        if not self._has_begun:
            return None
        self._note_admission()
        return CleanStop(self._clean_epoch, self._wanted.incarnation)

    def advertise(self, endpoints: Sequence[Endpoint]) -> None:
        """Set where other brokers and clients find this broker; listeners know their ports only once they are open."""
        invariant(not self._has_begun, f"broker {self._broker_id} changes its endpoints after it registered")
        self._wanted = replace(self._wanted, endpoints=tuple(endpoints))

    async def register(self, wait_ms: float) -> None:
        """Register for the first time.

        Waits for the session of an earlier process to end, and raises `DuplicateBroker` if it does not.
        """
        self._has_begun = True
        try:
            async with asyncio.timeout(wait_ms / 1000):
                await self._register()
        except TimeoutError:
            other = self._metadata.image.brokers.get(self._broker_id)
            raise DuplicateBroker(
                f"broker {self._broker_id} is running already, at {_address(other)}; each broker needs its own node.id"
                if other is not None
                else f"broker {self._broker_id} could not be registered: the metadata store does not answer"
            ) from None

    async def run(self) -> None:
        """Register again whenever the registration is gone, until an operator unregisters the broker."""
        while True:
            if self.record is None:
                if self._is_unregistered():
                    log.critical(
                        "broker %d was unregistered; it leads nothing and stays outside the cluster until it is "
                        "restarted",
                        self._broker_id,
                    )
                    return
                await self._register()
            await self._moved.wait()
            self._moved.clear()

    def _is_unregistered(self) -> bool:
        """Whether more has ended than a session: the admission is gone, too."""
        admitted = self._metadata.image.admitted.get(self._broker_id, UNREGISTERED)
        return self._was_admitted and admitted == UNREGISTERED

    async def announce_stop(self) -> None:
        """Ask the controller to elect other leaders, because this broker is about to stop."""
        self._wanted = replace(self._wanted, is_stopping=True)
        while (record := self.record) is not None and not record.is_stopping:
            try:
                await self._metadata.commit([replace(record, is_stopping=True)])
            except (BadVersionError, NoNodeError):
                continue
            except OutcomeUnknown:
                await self._metadata.store.wait_connected()

    def on_records(self, records: Sequence[Record]) -> None:
        """Note what became of the registration."""
        for record in records:
            match record:
                case BrokerRemoved(self._broker_id) | BrokerRecord(self._broker_id):
                    self._moved.set()
        self._note_admission()

    def _is_clean(self) -> bool:
        """Whether nothing has been lost since the admission that the controller knows of."""
        self._note_admission()
        return self._clean_epoch == self._metadata.image.admitted.get(self._broker_id, NEVER)

    def _note_admission(self) -> None:
        image = self._metadata.image
        admitted = image.admitted.get(self._broker_id, NEVER)
        incarnation = image.admitted_incarnations.get(self._broker_id, "")
        if incarnation == self._wanted.incarnation:
            self._clean_epoch = admitted
            self._was_admitted = True
        elif self._found_stop is not None and _is_after(self._found_stop, admitted, incarnation):
            self._clean_epoch = admitted

    async def _register(self) -> None:
        is_told = False
        while self.record is None:
            other = self._metadata.image.brokers.get(self._broker_id)
            try:
                if other is None:
                    await self._metadata.commit([replace(self._wanted, is_clean=self._is_clean())])
                    continue
            except NodeExistsError:
                continue
            except OutcomeUnknown:
                await self._metadata.store.wait_connected()
                continue
            if not is_told:
                is_told = True
                log.warning(
                    "broker %d is still registered from %s; waiting for that session to end",
                    self._broker_id,
                    _address(other),
                )
            await self._moved.wait()
            self._moved.clear()
        self._note_admission()


def _is_after(stop: CleanStop, admitted: int, incarnation: str) -> bool:
    """Whether this admission was the last one before a clean stop, or there was none.

    A broker that was never admitted is in no ISR, or comes from a version without admissions.
    """
    return admitted in (NEVER, stop.broker_epoch) or bool(incarnation and incarnation == stop.incarnation)


def _address(record: BrokerRecord | None) -> str:
    if record is None or not record.endpoints:
        return "an unknown address"
    return ", ".join(f"{end.host or 'localhost'}:{end.port}" for end in record.endpoints)

"""This broker's place among the brokers of the cluster: a node that lives as long as its session.

The registration's epoch is the number of the transaction that made the node. It says whether the broker is clean,
which is to say that it has lost nothing since the controller admitted it last: either it stopped cleanly and its
folders carry the epoch in which it was admitted, or it never stopped and only its session ended. Who cannot say so
loses its place in every ISR before it is admitted again (KIP-966).

A process may stop before it hears that it was admitted, or even that it was registered. So admissions and folders
also carry its incarnation: what the admitted process itself left behind is clean, whatever its epoch was.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from uuid import uuid4

from runnel.coordination.cluster import ClusterMetadata
from runnel.coordination.store import BadVersionError, NodeExistsError, NoNodeError, OutcomeUnknown
from runnel.machines.controller.record import UNREGISTERED, BrokerRecord, BrokerRemoved, Endpoint, Record
from runnel.runtime.error import DuplicateBroker
from runnel.storage.checkpoint import CleanStop

log = logging.getLogger("runnel.runtime")

NEVER = -1
"""In the place of the epoch in which a broker was admitted: it was not yet."""

UNCLEAN = -2
"""In the place of the epoch in which a broker was admitted: it cannot say that it lost nothing."""


class Registration:
    """Registers the broker, and registers it again when its session ended."""

    def __init__(self, metadata: ClusterMetadata, broker_id: int, rack: str | None) -> None:
        self._metadata = metadata
        self._broker_id = broker_id
        self._wanted = BrokerRecord(broker_id, 0, rack=rack, incarnation=uuid4().hex)
        # What the folders carried at the start, and the admission since which nothing has been lost.
        self._found_stop: CleanStop | None = None
        self._clean_epoch = UNCLEAN
        self._was_admitted = False
        self.has_begun = False
        self._moved = asyncio.Event()

    @property
    def record(self) -> BrokerRecord | None:
        """The registration of this process, None while it has none."""
        record = self._metadata.image.brokers.get(self._broker_id)
        return record if record is not None and record.incarnation == self._wanted.incarnation else None

    @property
    def is_admitted(self) -> bool:
        """Whether the controller has dealt with the registration."""
        return self.record is not None and self._metadata.image.is_live(self._broker_id)

    @property
    def clean_stop(self) -> CleanStop:
        """What a clean stop now may write on the folders: the admission since which nothing has been lost."""
        self._take_note()
        return CleanStop(self._clean_epoch, self._wanted.incarnation)

    async def register(self, endpoints: Sequence[Endpoint], found: CleanStop | None, wait_ms: float) -> None:
        """Register for the first time; `found` is what the folders carry, None if they cannot say.

        Waits for the session of an earlier process to end, and raises `DuplicateBroker` if it does not.
        """
        self._wanted = replace(self._wanted, endpoints=tuple(endpoints))
        self._found_stop = found
        self.has_begun = True
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
        """Register again whenever the registration is gone, until somebody has sent the broker away."""
        while True:
            if self.record is None:
                if self._is_sent_away():
                    log.critical(
                        "broker %d was unregistered; it leads nothing and stays outside the cluster until it starts "
                        "again",
                        self._broker_id,
                    )
                    return
                await self._register()
            await self._moved.wait()
            self._moved.clear()

    def _is_sent_away(self) -> bool:
        """Whether the end of the registration is not only that of a session: the admission is gone, too."""
        admitted = self._metadata.image.admitted.get(self._broker_id, UNREGISTERED)
        return self._was_admitted and admitted == UNREGISTERED

    async def announce_stop(self) -> None:
        """Ask to lead nothing more."""
        self._wanted = replace(self._wanted, is_stopping=True)
        while (record := self.record) is not None and not record.is_stopping:
            try:
                await self._metadata.commit([replace(record, is_stopping=True)])
            except (BadVersionError, NoNodeError):
                continue
            except OutcomeUnknown:
                await self._metadata.store.wait_connected()

    def on_records(self, records: Sequence[Record]) -> None:
        """Take note of what became of the registration."""
        for record in records:
            match record:
                case BrokerRemoved(self._broker_id) | BrokerRecord(self._broker_id):
                    self._moved.set()
        self._take_note()

    def _is_clean(self) -> bool:
        """Whether nothing has been lost since the admission that the controller knows of."""
        admitted = self._metadata.image.admitted.get(self._broker_id, NEVER)
        return self.clean_stop.broker_epoch == admitted

    def _take_note(self) -> None:
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
                log.warning("broker %d is registered from %s; waiting for it to go", self._broker_id, _address(other))
            await self._moved.wait()
            self._moved.clear()
        self._take_note()


def _is_after(stop: CleanStop, admitted: int, incarnation: str) -> bool:
    """Whether this admission was the last one before a clean stop, or there was none.

    A broker that was never admitted is in no ISR, or comes from a time before there were admissions.
    """
    return admitted in (NEVER, stop.broker_epoch) or bool(incarnation and incarnation == stop.incarnation)


def _address(record: BrokerRecord | None) -> str:
    if record is None or not record.endpoints:
        return "an unknown address"
    return ", ".join(f"{end.host or 'localhost'}:{end.port}" for end in record.endpoints)

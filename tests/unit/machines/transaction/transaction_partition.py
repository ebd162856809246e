"""Partitions for the model of transactions: the real producer state, over a log that is only counted."""

from tailrace.machines.transaction.decision import EndMarkers
from tailrace.machines.transaction.transaction import Identity
from tailrace.protocol.errors import ApiError
from tailrace.records.batch import BatchHeader, read_header
from tailrace.records.builder import BatchBuilder
from tailrace.records.control import ControlType, EndTransactionMarker, build_end_transaction_marker
from tailrace.storage.producer_state import NO_TRANSACTION, ProducerState

NEVER_MS = 2**62


class ModelPartition:
    """A log that remembers which transaction each record was in, and how each ended."""

    def __init__(self) -> None:
        self.producers = ProducerState(expiration_ms=NEVER_MS)
        self.end_offset = 0
        self.open_serials: dict[int, int] = {}  # by producer id
        self.outcomes: dict[int, bool] = {}  # by the serial number of the transaction, whether it was committed

    def write(self, identity: Identity, serial: int) -> bool:
        """A record of a transaction, which may be refused for its epoch."""
        header = self._data_header(identity)
        try:
            self.producers.check(header)
        except ApiError:
            return False
        self.producers.replay(header, self.end_offset, b"")
        self.end_offset += 1
        known = self.open_serials.setdefault(identity.producer_id, serial)
        assert known == serial, f"a record of transaction {serial} came into {known}"
        return True

    def _data_header(self, identity: Identity) -> BatchHeader:
        entry = self.producers.entries.get(identity.producer_id)
        is_same = entry is not None and entry.producer_epoch == identity.producer_epoch
        sequence = entry.last_sequence + 1 if entry is not None and is_same else 0
        builder = BatchBuilder(
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        builder.append(0, b"key", b"value")
        return read_header(builder.build())

    def end(self, markers: EndMarkers) -> bool:
        """A marker, which may be refused because it comes too late."""
        try:
            self.producers.check_marker(
                markers.producer_id,
                markers.producer_epoch,
                coordinator_epoch=markers.coordinator_epoch,
                transaction_version=markers.transaction_version,
            )
        except ApiError:
            return False
        marker = EndTransactionMarker(
            ControlType.COMMIT if markers.is_commit else ControlType.ABORT, markers.coordinator_epoch
        )
        batch = build_end_transaction_marker(
            marker, producer_id=markers.producer_id, producer_epoch=markers.producer_epoch, timestamp_ms=0
        )
        self.producers.replay(read_header(batch), self.end_offset, batch)
        self.end_offset += 1
        serial = self.open_serials.pop(markers.producer_id, None)
        if serial is not None:
            assert serial not in self.outcomes
            self.outcomes[serial] = markers.is_commit
        return True

    @property
    def open_producers(self) -> set[int]:
        entries = self.producers.entries.values()
        return {entry.producer_id for entry in entries if entry.current_txn_first_offset != NO_TRANSACTION}

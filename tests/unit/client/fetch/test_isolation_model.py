"""What readers of committed records see, against a model, one by one and as columns.

Producers write into one log in any order, with and without transactions. Compaction takes batches away.
A fetch begins at any offset, ends behind any batch, and brings the list that a broker would send along.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.client.fetch.record import read_consumer_records
from tailrace.client.fetch.request import Fetched
from tailrace.protocol.messages.fetch import FetchResponseAbortedTransaction
from tailrace.records.batch import assign_offsets
from tailrace.records.builder import BatchBuilder
from tailrace.records.compression import Compression
from tailrace.records.control import ControlType, EndTransactionMarker, build_end_transaction_marker

PRODUCERS = (7, 8, 9)
PLAIN = -1


@dataclass
class Written:
    """A batch, and what became of the transaction that it is part of."""

    data: bytes
    base_offset: int
    offsets: list[int] = field(default_factory=list)  # of its records; a marker shows none
    outcome: ControlType | None = None
    producer_id: int = PLAIN

    @property
    def next_offset(self) -> int:
        return self.base_offset + max(1, len(self.offsets))


@dataclass
class Aborted:
    """A transaction as the index of a segment knows it."""

    producer_id: int
    first_offset: int
    last_offset: int


class Model:
    """A log, and who may see which of its records."""

    def __init__(self) -> None:
        self.batches: list[Written] = []
        self.aborted: list[Aborted] = []
        self._next_offset = 0
        self._open: dict[int, list[Written]] = {}

    def write(self, producer_id: int, count: int, compression: Compression) -> None:
        is_transactional = producer_id != PLAIN
        builder = BatchBuilder(
            compression,
            producer_id=producer_id,
            producer_epoch=0 if is_transactional else -1,
            is_transactional=is_transactional,
        )
        offsets = list(range(self._next_offset, self._next_offset + count))
        for offset in offsets:
            builder.append(1000, None, b"%d" % offset)
        batch = Written(self._place(builder.build()), self._next_offset, offsets, producer_id=producer_id)
        if is_transactional:
            self._open.setdefault(producer_id, []).append(batch)
        self._add(batch)

    def end(self, producer_id: int, outcome: ControlType) -> None:
        """Write a marker, as a coordinator may also do where nothing was written."""
        written = self._open.pop(producer_id, [])
        for batch in written:
            batch.outcome = outcome
        if outcome is ControlType.ABORT and written:
            self.aborted.append(Aborted(producer_id, written[0].base_offset, self._next_offset))
        marker = build_end_transaction_marker(
            EndTransactionMarker(outcome, 0), producer_id=producer_id, producer_epoch=0, timestamp_ms=1000
        )
        self._add(Written(self._place(marker), self._next_offset))

    def _place(self, batch: bytes) -> bytes:
        data = bytearray(batch)
        assign_offsets(data, 0, self._next_offset, 0)
        return bytes(data)

    def _add(self, batch: Written) -> None:
        self.batches.append(batch)
        self._next_offset = batch.next_offset

    @property
    def last_stable_offset(self) -> int:
        return min((batches[0].base_offset for batches in self._open.values()), default=self._next_offset)


Step: TypeAlias = tuple[int, int, Compression] | tuple[int, ControlType]

steps = st.one_of(
    st.tuples(
        st.sampled_from([PLAIN, *PRODUCERS]),
        st.integers(1, 4),
        st.sampled_from([Compression.NONE, Compression.NONE, Compression.GZIP]),
    ),
    st.tuples(st.sampled_from(PRODUCERS), st.sampled_from([ControlType.COMMIT, ControlType.ABORT])),
)


@settings(max_examples=120)
@given(st.lists(steps, max_size=30), st.data())
def test_readers_see_what_was_committed(story: list[Step], data: st.DataObject) -> None:
    model = Model()
    for step in story:
        model.write(*step) if len(step) == 3 else model.end(*step)
    stable = [batch for batch in model.batches if batch.next_offset <= model.last_stable_offset]
    # Compaction may take any data, and never a marker before the data that it ends.
    kept = [batch for batch in stable if not batch.offsets or data.draw(st.integers(0, 5))]
    start = data.draw(st.integers(0, model.last_stable_offset))
    fetched = [batch for batch in kept if batch.next_offset > start]
    fetched = fetched[: data.draw(st.integers(0, len(fetched)))]
    check(model, fetched, start)


def check(model: Model, fetched: list[Written], start: int) -> None:
    end = fetched[-1].next_offset if fetched else start
    listed = [
        FetchResponseAbortedTransaction(producer_id=item.producer_id, first_offset=item.first_offset)
        for item in model.aborted
        if item.last_offset >= start and item.first_offset < end
    ]
    expected = [
        offset
        for batch in fetched
        for offset in batch.offsets
        if offset >= start and (batch.producer_id == PLAIN or batch.outcome is ControlType.COMMIT)
    ]
    raw = b"".join(batch.data for batch in fetched)
    answer = Fetched("t", 0, start, end, model.last_stable_offset, raw, listed)
    assert [record.offset for record in answer.records()] == expected
    assert [(record.offset, record.value) for record in read_consumer_records(answer)] == [
        (offset, b"%d" % offset) for offset in expected
    ]
    assert columns(answer) == [(offset, b"%d" % offset) for offset in expected]


def columns(answer: Fetched) -> list[tuple[int, bytes]]:
    pytest.importorskip("pyarrow")
    from tailrace.records.arrow.decode import ColumnDecoder

    found: list[tuple[int, bytes]] = []
    for decoded in ColumnDecoder("t", 0, ("offset", "value")).decode(answer.data, answer.offset, None, answer.aborted):
        rows = decoded.record_batch
        found += zip(rows.column("offset").to_pylist(), rows.column("value").to_pylist(), strict=True)
    return found

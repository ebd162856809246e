"""The note of a batch, which a table keeps in the metadata of the commit that writes it. Pure.

The note says which batch of which flow a commit holds, so that a batch which comes again is recognised, and up to which
offsets of topics the table has been written, so that the version of the table that holds a record can be found.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tailrace.client.topic_partition import TopicPartition
from tailrace.spark.position import Offsets, from_json, to_json

FLOW = "tailrace.flow"
QUERY = "tailrace.query"
BATCH = "tailrace.batch"
OFFSETS = "tailrace.offsets"
PLAN = "tailrace.plan"


@dataclass(frozen=True, slots=True)
class BatchNote:
    """A batch of a flow, the offsets after its last records, and the fingerprint of its plan.

    Notes of earlier versions lack the fingerprint.
    """

    flow: str
    query_id: str
    batch_id: int
    offsets: Offsets = field(default_factory=dict)
    plan: str | None = None

    def to_properties(self) -> dict[str, str]:
        """Return the note as the properties of a commit."""
        noted = {
            FLOW: self.flow,
            QUERY: self.query_id,
            BATCH: str(self.batch_id),
            OFFSETS: json.dumps(to_json(self.offsets), separators=(",", ":")),
        }
        return noted if self.plan is None else noted | {PLAN: self.plan}


def read_note(properties: Mapping[str, Any]) -> BatchNote | None:
    """Return the note in the properties of a commit; None if a program other than a flow has written it."""
    try:
        offsets, plan = from_json(json.loads(properties[OFFSETS])), properties.get(PLAN)
        batch_id = int(properties[BATCH])
        return BatchNote(str(properties[FLOW]), str(properties[QUERY]), batch_id, offsets, plan and str(plan))
    except (KeyError, ValueError, TypeError, AttributeError):
        return None


class Noted(NamedTuple):
    """A version of a table, the time of its commit, and its note."""

    version: int
    time_ms: int
    note: BatchNote


def find_version(noted: Iterable[Noted], partition: TopicPartition, offset: int) -> Noted | None:
    """Return the first version that holds a record; None if no version does. The versions come newest first.

    Only the newest run of a flow counts: a flow that was reset has written the table again.
    """
    query_id, found = None, None
    for each in noted:
        end = each.note.offsets.get(partition)
        if end is None or query_id not in (None, each.note.query_id):
            continue
        query_id = each.note.query_id
        if end <= offset:
            break
        found = each
    return found


def find_plan(noted: Iterable[Noted], flow: str, query_id: str, batch_id: int) -> str | None:
    """Return the fingerprint of the last batch of a query; None if its note has none, or has expired.

    The versions come newest first.
    """
    for each in noted:
        if (each.note.flow, each.note.query_id) == (flow, query_id):
            return each.note.plan if each.note.batch_id == batch_id else None
    return None

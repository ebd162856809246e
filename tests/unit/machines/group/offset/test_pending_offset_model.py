"""Random commits in and out of transactions: what counts is what the log says, however and whenever it is read."""

import random
from collections.abc import Hashable
from itertools import pairwise
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from tests.unit.machines.group.offset.test_group_offset import delete_group, delete_offset
from tests.unit.machines.group.script import GROUP, Entry, Marker, Script

from tailrace.machines.group.coordinator import GroupCoordinator
from tailrace.machines.group.record.format import decode_record
from tailrace.machines.group.record.offset import OffsetCommitKey, OffsetCommitValue
from tailrace.machines.log_replay import ReplayKeys, newest
from tailrace.protocol.errors import ErrorCode
from tailrace.records.batch import NO_PRODUCER_ID

PARTITIONS = (0, 1)
STEPS = st.lists(
    st.tuples(st.sampled_from(["plain", "pending", "commit", "abort", "delete", "delete group"]), st.integers(0, 3)),
    max_size=30,
)


def take_step(script: Script, action: str, choice: int, offset: int) -> None:
    producer_id, partition = divmod(choice, 2)
    match action:
        case "plain":
            script.commit(offset, partition=partition)
        case "pending":
            script.transactional_commit(offset, partition=partition, producer_id=producer_id)
        case "commit" | "abort":
            script.end_transaction(producer_id, is_commit=action == "commit")
        case "delete":
            if GROUP in script.machine.groups:
                delete_offset(script, partition=partition)
        case "delete group":
            delete_group(script)


def state(machine: GroupCoordinator) -> Any:
    """All that a coordinator knows from its log."""
    return (
        sorted(machine.groups),
        sorted(machine.offsets.store.entries(), key=lambda entry: entry[:3]),
        sorted(machine.offsets.pending.entries(), key=str),
    )


def load(script: Script, seed: int) -> GroupCoordinator:
    """A coordinator that has read the log in pieces, of each what counts."""
    machine = GroupCoordinator(script.classic, script.offsets, str)
    choose = random.Random(seed)
    cuts = sorted(choose.sample(range(len(script.log) + 1), min(2, len(script.log))))
    for start, end in pairwise([0, *cuts, len(script.log)]):
        keys = ReplayKeys()
        entries: list[tuple[Hashable, tuple[int, Entry]]] = []
        for offset, entry in enumerate(script.log[start:end], start):
            if isinstance(entry, Marker):
                entries.append((keys.of_end(entry.producer_id), (offset, entry)))
            else:
                entries.append((keys.of_record(*entry), (offset, entry)))
        for offset, entry in newest(entries).values():
            if isinstance(entry, Marker):
                machine.replay_transaction_end(entry.producer_id, is_commit=entry.is_commit)
            else:
                machine.replay(decode_record(*entry[:2]), offset, entry[2])
    return machine


def judge(script: Script, partition: int) -> tuple[int, bool]:
    """What the log says of a partition: the offset that counts, and whether a transaction is about to change it."""
    committed: dict[int, int] = {}  # by where the record stands
    pending: dict[int, dict[int, int]] = {}
    for place, entry in enumerate(script.log):
        if isinstance(entry, Marker):
            ended = pending.pop(entry.producer_id, {})
            committed |= ended if entry.is_commit else {}
            continue
        record = decode_record(*entry[:2])
        if not isinstance(record.key, OffsetCommitKey) or record.key.partition != partition:
            continue
        if not isinstance(record.value, OffsetCommitValue):
            committed, pending = {}, {}
        elif entry[2] == NO_PRODUCER_ID:
            committed[place] = record.value.offset
        else:
            pending.setdefault(entry[2], {})[place] = record.value.offset
    return committed[max(committed)] if committed else -1, any(pending.values())


@given(STEPS, st.integers(0, 1000))
@example([("pending", 0), ("commit", 0), ("pending", 0), ("abort", 0)], 0).via("two transactions in one piece")
@example([("pending", 0), ("delete", 0), ("plain", 0)], 0).via("a tombstone that a value follows")
def test_the_log_read_in_pieces_says_what_was_decided_live(steps: list[tuple[str, int]], seed: int) -> None:
    script = Script()
    for offset, (action, choice) in enumerate(steps):
        take_step(script, action, choice, offset)
        # The broker may crash here.
        assert state(load(script, seed)) == state(script.machine)
        for partition in PARTITIONS:
            counts, is_unstable = judge(script, partition)
            assert script.fetch(partition=partition)[0] == counts
            stable = script.fetch_stable(partition=partition)
            assert stable == (ErrorCode.UNSTABLE_OFFSET_COMMIT if is_unstable else counts)

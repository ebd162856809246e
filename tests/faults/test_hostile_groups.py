"""Members that no client would be, over sockets to a live broker.

Each gets Kafka's error code or, where Kafka hangs up, a closed connection. What they leave behind is bounded, and a
well-behaved member of the same group notices nothing.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from itertools import chain
from typing import Any

import pytest
from tests.clients.ask.group import beat, join, leave, new_group, sync
from tests.clients.ask.group_offset import commit
from tests.clients.raw import CLOSED, Wire
from tests.faults.live import Live
from tests.least_peak import least_growth

from tailrace.base.limits import GROUP_PENDING_MEMBERS_MAX, MIB
from tailrace.protocol.errors import ErrorCode

HUGE = 10 * MIB
MEMORY_GROWTH_MAX = 40 * MIB


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with Live(tmp_path_factory.mktemp("groups"), {"group.initial.rebalance.delay.ms": "0"}) as running:
        yield running


class Good:
    """A member that does all right."""

    def __init__(self, live: Live) -> None:
        self.asker = live.asker
        self.group = new_group(self.asker)
        self.id = join(self.asker, self.group)["member_id"]
        self.generation = join(self.asker, self.group, self.id)["generation_id"]
        assert sync(self.asker, self.group, self.id, self.generation)["error_code"] == 0

    def rejoin(self) -> None:
        """Take part in the next generation."""
        answer = join(self.asker, self.group, self.id, protocols=[{"name": "range", "metadata": b"new"}])
        assert answer["error_code"] == ErrorCode.NONE
        self.generation = answer["generation_id"]
        assert sync(self.asker, self.group, self.id, self.generation)["error_code"] == 0

    def beat(self) -> int:
        return beat(self.asker, self.group, self.id, self.generation)


@pytest.fixture
def good(live: Live) -> Iterator[Good]:
    """A member whom nothing of this disturbs."""
    member = Good(live)
    yield member
    assert member.beat() == ErrorCode.NONE
    assert leave(member.asker, member.group, (member.id, None)) == [0, [0]]
    live.wait_until_gone()


def test_an_unknown_member(good: Good) -> None:
    asker, group = good.asker, good.group
    topic = asker.topic()
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert join(asker, group, "nobody")["error_code"] == unknown
    assert sync(asker, group, "nobody", good.generation)["error_code"] == unknown
    assert beat(asker, group, "nobody", good.generation) == unknown
    assert leave(asker, group, ("nobody", None)) == [0, [unknown]]
    assert commit(asker, group, topic, member_id="nobody", generation_id_or_member_epoch=good.generation) == unknown
    # Without a name and a generation it is a consumer that manages itself, which a group with members refuses.
    assert commit(asker, group, topic) == unknown


def test_an_old_generation(good: Good) -> None:
    asker, group, old = good.asker, good.group, good.generation
    good.rejoin()
    assert good.generation == old + 1
    for wrong in (old, good.generation + 1):
        assert beat(asker, group, good.id, wrong) == ErrorCode.ILLEGAL_GENERATION
        assert sync(asker, group, good.id, wrong)["error_code"] == ErrorCode.ILLEGAL_GENERATION
        code = commit(asker, group, asker.topic(), member_id=good.id, generation_id_or_member_epoch=wrong)
        assert code == ErrorCode.ILLEGAL_GENERATION


def test_much_to_say_about_itself(good: Good) -> None:
    """Kafka takes what fits into a request, and then cannot write it down; here it is refused at once."""
    for protocols in (
        [{"name": "range", "metadata": b"x" * HUGE}],
        [{"name": f"{number}", "metadata": b"x" * (HUGE // 1000)} for number in range(1000)],
    ):
        answer = join(good.asker, good.group, protocols=protocols)
        assert answer["error_code"] == ErrorCode.INVALID_REQUEST


def test_much_to_say_about_an_offset(good: Good) -> None:
    """A string of the protocol ends at 32,767 bytes, and a commit's sooner; nothing of it is stored."""
    asker, topic = good.asker, good.asker.topic()
    group = new_group(asker)
    assert commit(asker, group, topic, metadata="x" * 32_767) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    body = _commit_with_long_metadata(group, topic)
    with asker.wire() as wire:
        wire.send_frame(body)
        assert wire.receive() == CLOSED
    answer = asker.fields("OffsetFetch", 5, group_id=group, topics=None)
    assert answer["topics"] == []


def _compact(text: bytes) -> bytes:
    return _varint(len(text) + 1) + text


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _header(key: int, version: int) -> bytes:
    return key.to_bytes(2, "big") + version.to_bytes(2, "big") + (7).to_bytes(4, "big") + b"\0\1t\0"


def _commit_with_long_metadata(group: str, topic: str) -> bytes:
    """OffsetCommit v8 as no encoder would write it."""
    partition = bytes(4) + (5).to_bytes(8, "big") + b"\xff" * 4 + _compact(b"x" * HUGE) + b"\0"
    topics = b"\2" + _compact(topic.encode()) + b"\2" + partition + b"\0"
    return _header(8, 8) + _compact(group.encode()) + b"\xff" * 4 + b"\1" + b"\0" + topics + b"\0"


@pytest.mark.parametrize(
    ("key", "version", "rest"),
    [
        (11, 6, bytes(8) + b"\1\0\1\1\0"),
        (12, 4, bytes(4) + b"\1\0\0"),
        (13, 4, b"\1\0"),
        (14, 4, bytes(4) + b"\1\0\1\0"),
        (10, 3, b"\0\0"),
        (68, 1, b"\1" + bytes(4)),
    ],
    ids=["JoinGroup", "Heartbeat", "LeaveGroup", "SyncGroup", "FindCoordinator", "ConsumerGroupHeartbeat"],
)
def test_a_group_with_a_name_of_ten_megabytes(key: int, version: int, rest: bytes, good: Good) -> None:
    """Kafka holds the strings of all versions to 32,767 bytes, and hangs up at longer ones."""
    with good.asker.wire() as wire:
        wire.send_frame(_header(key, version) + _compact(b"g" * HUGE) + rest)
        assert wire.receive() == CLOSED


def test_a_group_without_a_name(good: Good) -> None:
    asker = good.asker
    wrong = ErrorCode.INVALID_GROUP_ID
    assert join(asker, "")["error_code"] == wrong
    assert sync(asker, "", good.id, 1)["error_code"] == wrong
    assert beat(asker, "", good.id, 1) == wrong
    assert leave(asker, "", (good.id, None))[0] == wrong


def test_the_longest_name_that_a_group_can_have(good: Good) -> None:
    """It is a group as any other."""
    name = "g" * 32_767
    answer = join(good.asker, name)
    assert answer["error_code"] == ErrorCode.MEMBER_ID_REQUIRED
    answer = join(good.asker, name, answer["member_id"])
    assert answer["error_code"] == ErrorCode.NONE
    assert leave(good.asker, name, (answer["member_id"], None)) == [0, [0]]


def test_thousands_of_heartbeats_at_once(live: Live, good: Good) -> None:
    """A thousand a second and more: all are answered in order, and none leaves a deadline or anything else behind."""
    count, in_flight = 5000, 500

    def deadline_entries() -> int:
        return live.call(lambda: len(live.server.broker.groups._timers._deadlines._heap))

    with good.asker.wire() as wire:
        beats = {"group_id": good.group, "generation_id": good.generation, "member_id": good.id}
        _flood(wire, beats, in_flight)
        gc.collect()
        entries_before = deadline_entries()

        def flood() -> None:
            for _ in range(count // in_flight):
                assert _flood(wire, beats, in_flight) == [ErrorCode.NONE] * in_flight

        assert least_growth(flood, MEMORY_GROWTH_MAX) < MEMORY_GROWTH_MAX
        assert deadline_entries() <= entries_before


def _flood(wire: Wire, fields: dict[str, Any], count: int) -> list[int | str]:
    fields = {**fields, "group_instance_id": None}
    frames = (wire.frame("Heartbeat", 3, fields) for _ in range(count))
    wire.send(b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames))
    answers = [wire.answer("Heartbeat", 3) for _ in range(count)]
    return [answer["error_code"] if isinstance(answer, dict) else answer for answer in answers]


def test_thousands_who_ask_for_an_id_and_never_come(live: Live, good: Good) -> None:
    """KIP-394: an id that is given out is remembered for a session; there is a bound, and room again later."""
    fields = {
        "session_timeout_ms": 1_800_000,
        "rebalance_timeout_ms": 10_000,
        "member_id": "",
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"x" * 100_000}],
    }
    gc.collect()
    pending: list[str] = []
    groups = chain([good.group], iter(lambda: new_group(good.asker), None))

    def fill() -> None:
        """Take all ids of one more group, and ask as often again."""
        group = next(groups)
        for _ in range(GROUP_PENDING_MEMBERS_MAX):
            member_id = ask(group, ErrorCode.MEMBER_ID_REQUIRED)
            pending.extend([member_id] if group == good.group else [])
        for _ in range(GROUP_PENDING_MEMBERS_MAX):
            ask(group, ErrorCode.GROUP_MAX_SIZE_REACHED)

    with good.asker.wire() as wire:

        def ask(group: str, error: ErrorCode) -> str:
            wire.send_frame(wire.frame("JoinGroup", 5, {**fields, "group_id": group}))
            answer = wire.answer("JoinGroup", 5)
            assert isinstance(answer, dict)
            assert answer["error_code"] == error
            return str(answer["member_id"])

        assert least_growth(fill, MEMORY_GROWTH_MAX) < MEMORY_GROWTH_MAX
    assert good.beat() == ErrorCode.NONE
    assert leave(good.asker, good.group, *((member_id, None) for member_id in pending))[0] == ErrorCode.NONE
    assert good.beat() == ErrorCode.REBALANCE_IN_PROGRESS  # as Kafka has it, though none of them had joined
    good.rejoin()
    assert join(good.asker, good.group)["error_code"] == ErrorCode.MEMBER_ID_REQUIRED

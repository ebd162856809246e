"""Commits whose client has closed its side: a late one must not take the group back behind a newer one.

A client that got no reply in time closes the connection and repeats the commit on another. If the network has held
the first one, it arrives after the client has been told of newer commits.
"""

import asyncio
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.clients.ask.group import new_group
from tests.clients.ask.group_offset import commit, commit_fields, fetch
from tests.faults.live import LOOPS, Live, api_versions, framed, wait_until
from tests.unit.server.test_connection import reset

from tailrace.protocol.errors import ErrorCode

OLD, NEW = 5, 19
VERSION = 8
HELD = "held"


class Gate:
    """Holds the requests of one client until it is opened."""

    def __init__(self) -> None:
        self.waiting = 0
        self._is_open = asyncio.Event()

    async def intercept(self, context: Any, _request: Any) -> None:
        if context.header.client_id == HELD:
            self.waiting += 1
            await self._is_open.wait()

    def open(self) -> None:
        self._is_open.set()


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture(params=LOOPS)
def live(request: pytest.FixtureRequest, tmp_path: Path, gate: Gate) -> Iterator[Live]:
    with Live(tmp_path, loop=request.param, intercept=gate.intercept) as running:
        yield running


class Group:
    """The committed offset of a partition, by one client for each step."""

    def __init__(self, live: Live) -> None:
        self.live = live
        self.topic: str = live.asker.topic()
        self.group: str = new_group(live.asker)

    def commit(self, offset: int) -> None:
        assert commit(self.live.asker, self.group, self.topic, VERSION, offset=offset) == ErrorCode.NONE

    def frame(self, wire: Any, offset: int, client_id: str = "ask") -> bytes:
        return framed(wire.frame("OffsetCommit", VERSION, commit_fields(self.group, self.topic, offset), client_id))

    @property
    def committed(self) -> int:
        _, topics = fetch(self.live.asker, self.group, [{"name": self.topic, "partition_indexes": [0]}])
        return int(topics[self.topic][0][1])


@pytest.fixture
def group(live: Live) -> Group:
    return Group(live)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux sends data and the end in one segment on request")
def test_a_commit_that_arrives_together_with_the_end_of_its_connection_is_not_executed(group: Group) -> None:
    """It was read, executed, and took the group back to 5, because the broker had not read the end yet."""
    group.commit(NEW)
    wire = group.live.wire()
    wire._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    wire.send(group.frame(wire, OLD))
    wire._socket.close()
    group.live.wait_until_gone()
    assert group.committed == NEW


@pytest.mark.parametrize("end", [socket.socket.close, reset], ids=["closed", "reset"])
def test_a_commit_whose_client_leaves_while_it_waits_is_not_executed(
    group: Group, gate: Gate, end: Callable[[socket.socket], None]
) -> None:
    wire = group.live.wire()
    wire.send(group.frame(wire, OLD, HELD))
    wait_until(lambda: gate.waiting == 1, "the commit is held")
    group.commit(NEW)
    end(wire._socket)
    group.live.call(gate.open)
    group.live.wait_until_gone()
    assert group.committed == NEW


def test_a_commit_behind_another_request_is_not_executed_after_the_client_has_left(group: Group, gate: Gate) -> None:
    wire = group.live.wire()
    wire.send(framed(wire.frame("ApiVersions", 0, {}, HELD)) + group.frame(wire, OLD))
    wait_until(lambda: gate.waiting == 1, "the first request is held")
    group.commit(NEW)
    wire._socket.close()
    group.live.call(gate.open)
    group.live.wait_until_gone()
    assert group.committed == NEW


def test_a_client_that_only_finishes_sending_learns_that_its_commit_is_refused(group: Group, gate: Gate) -> None:
    """Its requests are executed, except for commits: the broker cannot know that the client still reads."""
    group.commit(NEW)
    with group.live.wire() as wire:
        wire.send(framed(wire.frame("ApiVersions", 0, {}, HELD)) + group.frame(wire, OLD))
        wait_until(lambda: gate.waiting == 1, "the first request is held")
        wire._socket.shutdown(socket.SHUT_WR)
        group.live.call(gate.open)
        versions, refused = wire.answer("ApiVersions", 0), wire.answer("OffsetCommit", VERSION)
        assert isinstance(versions, dict)
        assert versions["error_code"] == ErrorCode.NONE
        assert isinstance(refused, dict)
        assert refused["topics"][0]["partitions"][0]["error_code"] == ErrorCode.REQUEST_TIMED_OUT
    assert group.committed == NEW


def test_commits_sent_ahead_by_a_client_that_stays_are_executed_in_order(group: Group) -> None:
    with group.live.wire() as wire:
        wire.send(b"".join([api_versions(), group.frame(wire, OLD), group.frame(wire, NEW)]))
        assert [isinstance(wire.receive(), bytes) for _ in range(3)] == [True, True, True]
    assert group.committed == NEW

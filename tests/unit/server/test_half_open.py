"""What thousands of half-open connections cost, in a process that does nothing else."""

import resource
import struct
from pathlib import Path

import pytest
from tests.faults.live import LOOPS, Live, is_closed, wait_until
from tests.least_peak import resident_bytes
from tests.own_process import in_own_process

from tailrace.base.limits import FRAME_FIRST_BYTES_MIN, FRAME_GROWTH_FACTOR

HALF_OPEN_COUNT = 2000
HALF_OPEN_BYTES_MAX = 32 * 1024
"""Process memory for each such connection, the peer's Python socket included; measured: 4 to 7 KiB."""

ANNOUNCED = struct.pack(">i", 100 * 1024 * 1024) + b"\x00\x00\x00\x09"


@pytest.mark.parametrize("loop", LOOPS)
def test_thousands_of_half_open_frames_cost_little_and_disturb_nobody(tmp_path: Path, loop: str) -> None:
    in_own_process(open_half, tmp_path, loop)


def open_half(folder: Path, loop: str) -> None:
    _, descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
    count = min(HALF_OPEN_COUNT, (descriptors - 1000) // 2)
    with Live(folder, {"socket.listen.backlog.size": "4096"}, loop=loop) as live:
        topic = live.asker.topic()
        live.assert_serves(topic)
        before_bytes = resident_bytes()
        peers = []
        for _ in range(count):
            peer = live.socket()
            peer.sendall(ANNOUNCED)
            peers.append(peer)
        wait_until(lambda: live.count() >= count, "all are accepted")
        begun_bytes = count * FRAME_GROWTH_FACTOR * FRAME_FIRST_BYTES_MIN
        wait_until(lambda: live.in_flight_bytes >= begun_bytes, "all have begun a frame")
        assert (resident_bytes() - before_bytes) / count < HALF_OPEN_BYTES_MAX
        live.assert_serves(topic)
        live.sweep_later(31)
        assert all(map(is_closed, peers))
        for peer in peers:
            peer.close()
        live.wait_until_gone()
        live.assert_serves(topic)

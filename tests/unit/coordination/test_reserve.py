"""Room that is kept for metadata."""

import errno
import os
from pathlib import Path

import pytest

from tailrace.base.limits import METADATA_RESERVE_BYTES
from tailrace.coordination.reserve import Reserve


def test_room_is_taken_and_given_up(tmp_path: Path) -> None:
    path = tmp_path / "store.reserve"
    reserve = Reserve(tmp_path / "store.sqlite")
    assert not reserve.give_up()
    reserve.take()
    assert path.stat().st_blocks * 512 >= METADATA_RESERVE_BYTES
    assert reserve.give_up()
    assert not path.exists()


@pytest.mark.parametrize("free_bytes", [0, 5000, 300_000, METADATA_RESERVE_BYTES - 1])
def test_as_much_is_taken_as_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_bytes: int) -> None:
    taken = [0]

    def allocate(_file: int, _offset: int, size_bytes: int) -> None:
        if size_bytes > free_bytes:
            raise OSError(errno.ENOSPC, "full")
        taken.append(size_bytes)

    monkeypatch.setattr(os, "posix_fallocate", allocate)
    Reserve(tmp_path / "store.sqlite").take()
    assert 0 <= free_bytes - taken[-1] < 8192


def test_a_folder_that_cannot_be_written_has_none(tmp_path: Path) -> None:
    Reserve(tmp_path / "missing" / "store.sqlite").take()
    assert list(tmp_path.iterdir()) == []

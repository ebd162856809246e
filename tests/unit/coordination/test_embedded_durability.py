"""The embedded store after a kill, and after a kill that left half a write behind."""

import asyncio
import random
import resource
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.own_process import in_own_process

from tailrace.coordination.embedded import EmbeddedStore
from tailrace.coordination.store import ANY_VERSION, Create, Delete, Node, Operation, Put
from tailrace.storage.error import StorageError

LEFT, RIGHT = "/pair/left", "/pair/right"

COUNTING = f"""
import asyncio, sys
from pathlib import Path
from tailrace.coordination.embedded import EmbeddedStore
from tailrace.coordination.store import ANY_VERSION, Create, Put

async def count():
    print("open", flush=True)
    store = EmbeddedStore(Path(sys.argv[1]))
    node = await store.get({LEFT!r})
    number = int(node.value) if node else 0
    if node is None:
        await store.commit([Create({LEFT!r}, b"0"), Create({RIGHT!r}, b"0")])
    while True:
        number += 1
        value = b"%d" % number
        await store.commit([Put({LEFT!r}, value, ANY_VERSION), Put({RIGHT!r}, value, ANY_VERSION)])
        print(number, flush=True)

asyncio.run(count())
"""


async def read_pair(path: Path) -> tuple[Node | None, Node | None]:
    store = EmbeddedStore(path)
    try:
        return await store.get(LEFT), await store.get(RIGHT)
    finally:
        await store.close()


def count_and_kill(path: Path, line_count: int) -> int:
    """Let another process count until so many lines came from it, kill it, and return the last count it told."""
    process = subprocess.Popen([sys.executable, "-c", COUNTING, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process:
        lines = [process.stdout.readline() for _ in range(line_count)]
        process.kill()
        lines += process.stdout.readlines()
    numbers = [int(line) for line in lines if line.strip().isdigit()]
    return numbers[-1] if numbers else 0


def test_every_acknowledged_commit_survives_a_kill_and_none_is_half_there(tmp_path: Path) -> None:
    path = tmp_path / "metadata.sqlite"
    told = 0
    for line_count in (1, 1, 2, 7, 1, 23, 4):
        told = max(told, count_and_kill(path, line_count))
        left, right = asyncio.run(read_pair(path))
        assert left == right
        found = int(left.value) if left else 0
        assert told <= found <= told + 1, "all that was told is there, and at most the one commit under way"
        told = found
    assert told > 30


# --- at any byte


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a store that made ten commits and was then killed."""
    folder = tmp_path_factory.mktemp("written")

    async def write() -> None:
        store = EmbeddedStore(folder / "live.sqlite")
        await store.commit([Create(LEFT, b"0"), Create(RIGHT, b"0")])
        for number in range(1, 10):
            value = b"%d" % number
            await store.commit([Put(LEFT, value, ANY_VERSION), Put(RIGHT, value, ANY_VERSION)])
        for suffix in ("", "-wal"):
            shutil.copy(folder / f"live.sqlite{suffix}", folder / f"killed.sqlite{suffix}")
        await store.close()

    asyncio.run(write())
    return folder / "killed.sqlite"


def state_after(written: Path, wal: bytes, folder: Path) -> int:
    """The number of commits that a store made of these files knows, after it has shown that it still works."""
    path = folder / "again.sqlite"
    shutil.copy(written, path)
    (folder / "again.sqlite-wal").write_bytes(wal)
    (folder / "again.sqlite-shm").unlink(missing_ok=True)

    async def look() -> int:
        store = EmbeddedStore(path)
        try:
            nodes = await store.tree("/pair")
            await store.commit([Create("/works", b"")])
        finally:
            await store.close()
        if not nodes:
            return 0
        left, right = nodes[LEFT], nodes[RIGHT]
        assert left == right
        assert int(left.value) == left.version
        return left.version + 1

    return asyncio.run(look())


def test_a_log_cut_at_any_byte_holds_a_prefix_of_the_commits(written: Path, tmp_path: Path) -> None:
    wal = Path(f"{written}-wal").read_bytes()
    frame_bytes = 4096 + 24
    boundaries = {
        32 + frame_bytes * number + shift for number in range(len(wal) // frame_bytes) for shift in (-1, 0, 1)
    }
    cuts = sorted({*range(0, len(wal), 997), *boundaries, *range(40), len(wal)})
    states = [state_after(written, wal[:cut], tmp_path) for cut in cuts]
    assert states == sorted(states), "more bytes never hold fewer commits"
    assert set(states) == set(range(11)), "each commit is the last one somewhere"


def test_garbage_behind_the_log_is_no_commit(written: Path, tmp_path: Path) -> None:
    wal = Path(f"{written}-wal").read_bytes()
    dice = random.Random(1)
    tails = [
        b"\0" * 5000,
        b"\xff" * 24,
        wal[32 : 32 + 4120],
        wal,
        *(dice.randbytes(size) for size in (1, 24, 4120, 9000)),
    ]
    assert [state_after(written, wal + tail, tmp_path) for tail in tails] == [10] * len(tails)


def test_a_flipped_bit_ends_the_log_before_it(written: Path, tmp_path: Path) -> None:
    wal = Path(f"{written}-wal").read_bytes()
    dice = random.Random(2)
    for _ in range(40):
        position = dice.randrange(len(wal))
        damaged = bytearray(wal)
        damaged[position] ^= 1 << dice.randrange(8)
        commits_before = max(0, (position - 32) // 4120)
        assert state_after(written, bytes(damaged), tmp_path) <= max(1, commits_before)


# --- a disk that is full


@contextmanager
def largest_file(size_bytes: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_refuses_commits_and_an_empty_one_takes_them_again(tmp_path: Path) -> None:
    """A failed commit left its transaction open, and every later one failed too. The error was SQLite's own, which
    nobody above takes for a disk's."""
    in_own_process(_fill_the_disk, tmp_path)


def _fill_the_disk(tmp_path: Path) -> None:
    asyncio.run(_commit_to_a_full_disk(tmp_path))


async def _commit_to_a_full_disk(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path / "metadata.sqlite")
    heard: list[object] = []
    store.watch(heard.append)
    await store.commit([Create("/a", b"1")])
    large: list[Operation] = [Create(f"/large/{number}", b"x" * 100_000) for number in range(20)]
    with largest_file(1_000_000):
        for _ in range(2):
            with pytest.raises(StorageError, match=r"metadata\.sqlite"):
                await store.commit([Put("/a", b"2", 0), *large])
    assert await store.tree("/") == {"/a": Node(b"1", 0, created=1)}
    assert len(heard) == 1
    await store.commit([Put("/a", b"2", 0), *large])
    assert await store.get("/a") == Node(b"2", 1, created=1)
    await store.close()


def test_a_file_that_is_no_store_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "metadata.sqlite").write_bytes(b"this is no database " * 100)
    with pytest.raises(StorageError, match=r"metadata\.sqlite"):
        EmbeddedStore(tmp_path / "metadata.sqlite")


async def test_a_store_is_synced_at_every_commit(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path / "metadata.sqlite")
    database: sqlite3.Connection = store._database
    assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert database.execute("PRAGMA synchronous").fetchone() == (2,)
    await store.close()


# --- what counts


async def reopened(path: Path, *groups: list[Operation]) -> dict[str, Node]:
    """Open a store, commit, and tell what the next one to open it finds."""
    store = EmbeddedStore(path)
    for group in groups:
        await store.commit(group)
    await store.close()
    store = EmbeddedStore(path)
    try:
        return await store.tree("/")
    finally:
        await store.close()


async def test_ephemeral_nodes_go_with_the_process_but_count(tmp_path: Path) -> None:
    path = tmp_path / "metadata.sqlite"
    ephemeral: list[Operation] = [Create("/e", b"", is_ephemeral=True), Put("/e", b"more", 0)]
    assert await reopened(path, [Create("/a", b"")], ephemeral) == {"/a": Node(b"", 0, 1)}
    assert await reopened(path, ephemeral, [Create("/b", b"")]) == {"/a": Node(b"", 0, 1), "/b": Node(b"", 0, 4)}
    assert await reopened(path, [Delete("/b", 0)], [Create("/b", b"")]) == {
        "/a": Node(b"", 0, 1),
        "/b": Node(b"", 0, 5),
    }


async def test_what_was_durable_and_became_ephemeral_does_not_come_back(tmp_path: Path) -> None:
    path = tmp_path / "metadata.sqlite"
    turn: list[Operation] = [Delete("/a", 0), Create("/a", b"", is_ephemeral=True)]
    assert await reopened(path, [Create("/a", b"")], turn) == {}
    assert await reopened(path, [Create("/a", b"", is_ephemeral=True)], [Delete("/a", 0), Create("/a", b"")]) == {
        "/a": Node(b"", 0, 4)
    }


async def test_a_file_of_the_version_that_did_not_count_is_read(tmp_path: Path) -> None:
    path = tmp_path / "metadata.sqlite"
    database = sqlite3.connect(path)
    database.execute(
        "CREATE TABLE node (path TEXT PRIMARY KEY, value BLOB NOT NULL, version INTEGER NOT NULL) WITHOUT ROWID"
    )
    database.execute("INSERT INTO node VALUES ('/old', x'01', 3)")
    database.commit()
    database.close()
    assert await reopened(path) == {"/old": Node(b"\x01", 3, 0)}
    assert await reopened(path, [Put("/old", b"2", 3), Create("/new", b"")]) == {
        "/new": Node(b"", 0, 1),
        "/old": Node(b"2", 4, 0),
    }

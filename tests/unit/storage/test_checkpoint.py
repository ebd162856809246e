"""Kafka's text files, as Kafka writes them, and what is made of broken ones."""

from uuid import UUID

import pytest

from tailrace.storage.checkpoint import (
    CleanStop,
    read_clean_mark,
    read_offsets,
    read_properties,
    read_topic_id,
    take_clean_mark,
    write_clean_mark,
    write_offsets,
    write_properties,
    write_topic_id,
)
from tailrace.storage.memory_fs import MemoryFileSystem

TOPIC_ID = UUID(bytes=bytes(range(200, 216)))


@pytest.fixture
def fs() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    fs.make_directory("/data/t-0")
    return fs


def test_offsets_are_a_version_a_count_and_lines(fs: MemoryFileSystem) -> None:
    offsets = {("b.c", 10): 5, ("a", 0): 2**62}
    write_offsets(fs, "/data/file", offsets)
    assert fs.read_file("/data/file") == b"0\n2\na 0 4611686018427387904\nb.c 10 5\n"
    assert read_offsets(fs, "/data/file") == offsets


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"0",
        b"0\n",
        b"0\n0\n",
        b"1\n1\na 0 5\n",
        b"0\n2\na 0 5\n",
        b"0\n1\na 0\n",
        b"0\n1\na 0 x\n",
        b"0\n1\na 0 -5\n",
        b"\xff\xfe\n1\na 0 5\n",
    ],
)
def test_a_missing_or_broken_file_has_no_offsets(fs: MemoryFileSystem, data: bytes | None) -> None:
    if data is not None:
        fs.write_file("/data/file", data)
    assert read_offsets(fs, "/data/file") == {}


def test_every_cut_of_a_checkpoint_is_refused_or_whole(fs: MemoryFileSystem) -> None:
    offsets = {("topic", 0): 12, ("topic", 1): 345}
    write_offsets(fs, "/data/file", offsets)
    whole = fs.read_file("/data/file")
    assert whole is not None
    for size in range(len(whole) - 4):
        fs.write_file("/data/file", whole[:size])
        assert read_offsets(fs, "/data/file") == {}


def test_topic_id_is_kafka_s_base64(fs: MemoryFileSystem) -> None:
    write_topic_id(fs, "/data/t-0", TOPIC_ID)
    assert fs.read_file("/data/t-0/partition.metadata") == b"version: 0\ntopic_id: yMnKy8zNzs_Q0dLT1NXW1w"
    assert read_topic_id(fs, "/data/t-0") == TOPIC_ID


@pytest.mark.parametrize("data", [None, b"", b"version: 0\n", b"version: 0\ntopic_id: x", b"\xff\xff"])
def test_a_broken_topic_id_is_none(fs: MemoryFileSystem, data: bytes | None) -> None:
    if data is not None:
        fs.write_file("/data/t-0/partition.metadata", data)
    assert read_topic_id(fs, "/data/t-0") is None


def test_the_clean_mark_is_taken_once(fs: MemoryFileSystem) -> None:
    assert not take_clean_mark(fs, "/data")
    write_clean_mark(fs, "/data", CleanStop(12))
    assert fs.read_file("/data/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":12}'
    assert take_clean_mark(fs, "/data")
    assert not take_clean_mark(fs, "/data")
    # Synced, so that it does not come back.
    fs.sync_directory("/")
    fs.lose_power()
    assert not take_clean_mark(fs, "/data")


@pytest.mark.parametrize("stop", [CleanStop(12), CleanStop(-2, "of a process")])
def test_the_clean_mark_says_who_stopped(fs: MemoryFileSystem, stop: CleanStop) -> None:
    assert read_clean_mark(fs, "/data") is None
    write_clean_mark(fs, "/data", stop)
    assert read_clean_mark(fs, "/data") == stop


@pytest.mark.parametrize("data", [b"", b"{}", b'{"brokerEpoch":"x"}', b"[]"])
def test_a_mark_that_says_nothing_is_still_one(fs: MemoryFileSystem, data: bytes) -> None:
    fs.write_file("/data/.kafka_cleanshutdown", data)
    assert read_clean_mark(fs, "/data") == CleanStop()


def test_properties(fs: MemoryFileSystem) -> None:
    assert read_properties(fs, "/data/meta.properties") is None
    write_properties(fs, "/data/meta.properties", {"version": "1", "node.id": "1"})
    assert fs.read_file("/data/meta.properties") == b"node.id=1\nversion=1\n"
    fs.write_file("/data/meta.properties", b"#Tue Jan 1\n\nversion = 1\ncluster.id=a=b\n")
    assert read_properties(fs, "/data/meta.properties") == {"version": "1", "cluster.id": "a=b"}

"""A broker opens only folders that are its own."""

import os
from pathlib import Path

import pytest
from tests.unit.runtime.test_broker_life import append, create, stored
from tests.unit.sample import BrokerInMemory

from tailrace.config.broker import BrokerConfig
from tailrace.runtime.opener import start_broker
from tailrace.storage.checkpoint import read_properties, write_properties
from tailrace.storage.folder_identity import FolderIdentity, ForeignFolder, read_identity

META = "/data/meta.properties"


async def make_machine() -> BrokerInMemory:
    """A broker that was stopped, with one record."""
    machine = BrokerInMemory()
    async with machine.running() as broker:
        await create(broker)
        append(broker, b"a")
    return machine


async def test_a_new_folder_says_whose_it_is() -> None:
    machine = BrokerInMemory()
    async with machine.running(log_dirs="/data,/more") as broker:
        identities = [read_identity(machine.fs, folder) for folder in ("/data", "/more")]
    assert all(found is not None and found[:2] == (broker.cluster_id, 1) for found in identities)
    assert len({found.directory_id for found in identities if found is not None}) == 2
    properties = read_properties(machine.fs, META)
    assert properties is not None
    assert sorted(properties) == ["cluster.id", "directory.id", "node.id", "version"]


async def test_it_keeps_saying_so() -> None:
    machine = await make_machine()
    before = machine.fs.read_file(META)
    async with machine.running() as broker:
        assert stored(broker) == [b"a"]
    assert machine.fs.read_file(META) == before


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cluster.id": "another"}, "belong to cluster another, but this broker joins cluster "),
        ({"node.id": "9"}, "belong to broker 9, not to broker 1"),
        ({"version": "2"}, "unknown version '2'"),
        ({"version": "0"}, "no numeric broker.id"),
        ({"node.id": "one"}, "no numeric node.id"),
        ({"cluster.id": ""}, "has no cluster.id"),
    ],
)
async def test_what_says_something_else_is_refused_and_untouched(changes: dict[str, str], words: str) -> None:
    machine = await make_machine()
    good = read_properties(machine.fs, META)
    assert good is not None
    write_properties(machine.fs, META, good | changes)
    before = sorted(machine.fs.list_directory("/data"))
    with pytest.raises(ForeignFolder) as caught:
        await machine.start()
    assert words in str(caught.value)
    assert str(caught.value).startswith(META)
    assert sorted(machine.fs.list_directory("/data")) == before
    write_properties(machine.fs, META, good)
    async with machine.running() as broker:
        assert [log_dir.was_clean for log_dir in broker.log_dirs] == [True]


@pytest.mark.parametrize("garbage", [b"", b"\xff\x00\xfe", b"nonsense\n"])
async def test_garbage_is_refused(garbage: bytes) -> None:
    machine = await make_machine()
    machine.fs.write_file(META, garbage)
    with pytest.raises(ForeignFolder, match="has no version"):
        await machine.start()


async def test_logs_without_a_word_are_refused_and_the_error_says_what_to_do() -> None:
    machine = await make_machine()
    machine.fs.remove(META)
    with pytest.raises(ForeignFolder, match="holds logs but no meta") as caught:
        await machine.start()
    line = next(word for word in str(caught.value).split() if word.startswith("cluster.id="))
    machine.fs.write_file(META, f"version=1\n{line}\nnode.id=1\n".encode())
    async with machine.running() as broker:
        assert stored(broker) == [b"a"]


async def test_a_foreign_second_folder_leaves_the_first_alone() -> None:
    machine = await make_machine()
    machine.fs.make_directory("/other/t-7")
    with pytest.raises(ForeignFolder, match="/other holds logs"):
        await machine.start(log_dirs="/data,/other")
    assert machine.fs.exists("/data/.kafka_cleanshutdown")


async def test_a_folder_and_a_copy_of_it_are_refused_and_untouched() -> None:
    """Kafka refuses them as well. Both have the same logs, and one of each would be served at random."""
    machine = await make_machine()
    machine.fs.make_directory("/more")
    machine.fs.make_directory("/copy")
    for folder in ("/more", "/copy"):
        machine.fs.write_file(f"{folder}/meta.properties", machine.fs.read_file(META) or b"")
    machine.fs.write_file("/more/meta.properties", (machine.fs.read_file(META) or b"") + b"directory.id=other\n")
    with pytest.raises(ForeignFolder, match=r"/copy and /data have the same directory\.id"):
        await machine.start(log_dirs="/data,/more,/copy")
    assert machine.fs.exists("/data/.kafka_cleanshutdown")
    machine.fs.write_file("/copy/meta.properties", (machine.fs.read_file(META) or b"") + b"directory.id=third\n")
    async with machine.running(log_dirs="/data,/more,/copy") as broker:
        assert stored(broker) == [b"a"]


async def test_folders_from_before_they_had_ids_are_no_copies() -> None:
    machine = await make_machine()
    cluster_id = (read_properties(machine.fs, META) or {})["cluster.id"]
    machine.fs.make_directory("/more")
    for folder in ("/data", "/more"):
        machine.fs.write_file(f"{folder}/meta.properties", f"version=1\ncluster.id={cluster_id}\nnode.id=1\n".encode())
    async with machine.running(log_dirs="/data,/more") as broker:
        assert len(broker.log_dirs) == 2


async def test_the_file_of_a_broker_with_zookeeper_is_read() -> None:
    machine = await make_machine()
    cluster_id = (read_properties(machine.fs, META) or {})["cluster.id"]
    machine.fs.write_file(META, f"#\n#a date\nversion=0\nbroker.id=1\ncluster.id={cluster_id}\n".encode())
    assert read_identity(machine.fs, "/data") == FolderIdentity(cluster_id, 1, None)
    async with machine.running() as broker:
        assert stored(broker) == [b"a"]


async def test_a_folder_whose_metadata_is_lost_is_refused(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=theirs\nnode.id=1\n")
    config = BrokerConfig({"node.id": "1", "log.dirs": str(tmp_path)})
    with pytest.raises(ForeignFolder, match="belongs to cluster theirs, but cluster-metadata"):
        await start_broker(config)
    assert os.listdir(tmp_path) == ["meta.properties"]

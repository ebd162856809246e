"""Kafka's small text files: offset checkpoints, a partition's topic id, the mark of a clean stop.

A checkpoint file is a version, a count and that many lines, each of the same number of
words. All are replaced atomically. One that cannot be read is as good as none: every number
in them can be found again by reading more of the logs.
"""

import base64
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple
from uuid import UUID

from runnel.storage.fs import FileSystem, write_atomically

RECOVERY_POINT_FILE_NAME = "recovery-point-offset-checkpoint"
LOG_START_FILE_NAME = "log-start-offset-checkpoint"
CLEANER_FILE_NAME = "cleaner-offset-checkpoint"
HIGH_WATERMARK_FILE_NAME = "replication-offset-checkpoint"
PARTITION_FILE_NAME = "partition.metadata"
CLEAN_FILE_NAME = ".kafka_cleanshutdown"
META_FILE_NAME = "meta.properties"
_VERSION = "0"


class CorruptCheckpoint(Exception):  # noqa: N818  says what is wrong with the file
    """A checkpoint file does not read as one."""


def encode_lines(lines: Iterable[str]) -> bytes:
    lines = list(lines)
    return "".join(f"{line}\n" for line in (_VERSION, str(len(lines)), *lines)).encode()


def decode_lines(data: bytes, columns: int) -> Iterator[list[str]]:
    """The words of each line; an empty file has none."""
    if not data:
        return
    lines = data.decode("utf-8", "replace").splitlines()
    if len(lines) < 2 or lines[0].strip() != _VERSION or lines[1].strip() != str(len(lines) - 2):
        raise CorruptCheckpoint("the version or the count is wrong")
    for line in lines[2:]:
        words = line.split()
        if len(words) != columns:
            raise CorruptCheckpoint(f"{len(words)} words instead of {columns}")
        yield words


def write_offsets(fs: FileSystem, path: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Write an offset for each partition."""
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items())]
    write_atomically(fs, path, encode_lines(lines))


def read_offsets(fs: FileSystem, path: str) -> dict[tuple[str, int], int]:
    """Read an offset for each partition; a missing or broken file gives none."""
    return read_known_offsets(fs, path) or {}


def read_known_offsets(fs: FileSystem, path: str) -> dict[tuple[str, int], int] | None:
    """Read an offset for each partition, or return None where a missing or broken file tells nothing of any."""
    data = fs.read_file(path)
    offsets: dict[tuple[str, int], int] = {}
    if not data:
        return None
    try:
        for topic, partition, offset in decode_lines(data, columns=3):
            offsets[topic, int(partition)] = int(offset)
    except (CorruptCheckpoint, ValueError):
        return None
    return {key: offset for key, offset in offsets.items() if offset >= 0}


def write_topic_id(fs: FileSystem, directory: str, topic_id: UUID) -> None:
    """Say in a partition's folder which topic it belongs to, before any record is in it."""
    encoded = base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
    write_atomically(fs, os.path.join(directory, PARTITION_FILE_NAME), f"version: 0\ntopic_id: {encoded}".encode())


def read_topic_id(fs: FileSystem, directory: str) -> UUID | None:
    """The topic id in a partition's folder, None if there is none to be read."""
    data = fs.read_file(os.path.join(directory, PARTITION_FILE_NAME))
    if data is None:
        return None
    for line in data.decode("utf-8", "replace").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "topic_id":
            try:
                return UUID(bytes=base64.urlsafe_b64decode(value.strip() + "=="))
            except ValueError:
                return None
    return None


class CleanStop(NamedTuple):
    """By which a folder proves what was not lost: the broker epoch, as in KIP-966, and the process that stopped."""

    broker_epoch: int = -1
    incarnation: str = ""


UNKNOWN_STOP = CleanStop()
"""That of a broker that belongs to no cluster."""


def write_clean_mark(fs: FileSystem, directory: str, stop: CleanStop) -> None:
    """Say that everything in the folder was flushed. Kafka passes over what it does not know in the mark."""
    content: dict[str, int | str] = {"version": 0, "brokerEpoch": stop.broker_epoch}
    if stop.incarnation:
        content["incarnation"] = stop.incarnation
    data = json.dumps(content, separators=(",", ":")).encode()
    write_atomically(fs, os.path.join(directory, CLEAN_FILE_NAME), data)


def read_clean_mark(fs: FileSystem, directory: str) -> CleanStop | None:
    """What the mark of a clean stop says, None where there is no mark."""
    data = fs.read_file(os.path.join(directory, CLEAN_FILE_NAME))
    if data is None:
        return None
    try:
        content = json.loads(data)
        return CleanStop(int(content["brokerEpoch"]), str(content.get("incarnation", "")))
    except (ValueError, TypeError, KeyError):
        return UNKNOWN_STOP  # Kafka's own mark was an empty file for long


def take_clean_mark(fs: FileSystem, directory: str) -> bool:
    """Whether the last stop was clean. The mark is removed: a crash while loading is no clean stop."""
    path = os.path.join(directory, CLEAN_FILE_NAME)
    is_clean = fs.exists(path)
    fs.remove(path)
    # Also when it is not there: a start that was killed may have removed it without a sync, and after
    # a power loss it would be back and vouch for logs that have grown since.
    fs.sync_directory(directory)
    return is_clean


def write_properties(fs: FileSystem, path: str, properties: Mapping[str, str]) -> None:
    """Write Java properties, as in meta.properties."""
    lines = [f"{name}={value}\n" for name, value in sorted(properties.items())]
    write_atomically(fs, path, "".join(lines).encode())


def read_properties(fs: FileSystem, path: str) -> dict[str, str] | None:
    """Read simple Java properties, None if there is no such file."""
    data = fs.read_file(path)
    if data is None:
        return None
    properties: dict[str, str] = {}
    for line in data.decode("utf-8", "replace").splitlines():
        if line.strip() and not line.lstrip().startswith(("#", "!")):
            name, _, value = line.partition("=")
            properties[name.strip()] = value.strip()
    return properties

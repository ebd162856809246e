"""Kafka's small text files: offset checkpoints, a partition's topic id, the clean-shutdown file.

A checkpoint file holds a version, a count and that many lines, each with the same number of
words. Files are replaced atomically. An unreadable file is treated as missing: every number
in these files can be recovered by reading more of the logs.
"""

import base64
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple
from uuid import UUID

from tailrace.storage.fs import FileSystem, write_atomically

RECOVERY_POINT_FILE_NAME = "recovery-point-offset-checkpoint"
LOG_START_FILE_NAME = "log-start-offset-checkpoint"
CLEANER_FILE_NAME = "cleaner-offset-checkpoint"
HIGH_WATERMARK_FILE_NAME = "replication-offset-checkpoint"
PARTITION_FILE_NAME = "partition.metadata"
CLEAN_FILE_NAME = ".kafka_cleanshutdown"
META_FILE_NAME = "meta.properties"
_VERSION = "0"


class CorruptCheckpoint(Exception):
    """A file is not a valid checkpoint."""


def encode_lines(lines: Iterable[str]) -> bytes:
    lines = list(lines)
    return "".join(f"{line}\n" for line in (_VERSION, str(len(lines)), *lines)).encode()


def decode_lines(data: bytes, columns: int) -> Iterator[list[str]]:
    """Yield the words of each line. An empty file has no lines."""
    if not data:
        return
    lines = data.decode("utf-8", "replace").splitlines()
    if len(lines) < 2 or lines[0].strip() != _VERSION or lines[1].strip() != str(len(lines) - 2):
        raise CorruptCheckpoint("wrong version or line count")
    for line in lines[2:]:
        words = line.split()
        if len(words) != columns:
            raise CorruptCheckpoint(f"a line has {len(words)} words instead of {columns}")
        yield words


def write_offsets(fs: FileSystem, path: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Write an offset for each partition."""
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items())]
    write_atomically(fs, path, encode_lines(lines))


def read_offsets(fs: FileSystem, path: str) -> dict[tuple[str, int], int]:
    """Read an offset for each partition; return none if the file is missing or corrupt."""
    return read_known_offsets(fs, path) or {}


def read_known_offsets(fs: FileSystem, path: str) -> dict[tuple[str, int], int] | None:
    """Read an offset for each partition; return None if the file is missing or corrupt."""
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
    """Write the topic id into a partition's folder, before the first record."""
    encoded = base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
    write_atomically(fs, os.path.join(directory, PARTITION_FILE_NAME), f"version: 0\ntopic_id: {encoded}".encode())


def read_topic_id(fs: FileSystem, directory: str) -> UUID | None:
    """Return the topic id in a partition's folder, or None if it is missing or unreadable."""
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
    """The content of the clean-shutdown file: the broker epoch, as in KIP-966, and the process that stopped."""

    broker_epoch: int = -1
    incarnation: str = ""


UNKNOWN_STOP = CleanStop()
"""The clean stop of a broker that belongs to no cluster."""


def write_clean_mark(fs: FileSystem, directory: str, stop: CleanStop) -> None:
    """Record that everything in the folder was flushed. Kafka ignores the fields that it does not know."""
    content: dict[str, int | str] = {"version": 0, "brokerEpoch": stop.broker_epoch}
    if stop.incarnation:
        content["incarnation"] = stop.incarnation
    data = json.dumps(content, separators=(",", ":")).encode()
    write_atomically(fs, os.path.join(directory, CLEAN_FILE_NAME), data)


def read_clean_mark(fs: FileSystem, directory: str) -> CleanStop | None:
    """Return the content of the clean-shutdown file, or None if there is no such file."""
    data = fs.read_file(os.path.join(directory, CLEAN_FILE_NAME))
    if data is None:
        return None
    try:
        content = json.loads(data)
        return CleanStop(int(content["brokerEpoch"]), str(content.get("incarnation", "")))
    except (ValueError, TypeError, KeyError):
        return UNKNOWN_STOP  # older Kafka versions write an empty file


def take_clean_mark(fs: FileSystem, directory: str) -> bool:
    """Return whether the last stop was clean, and remove the file: a crash while loading is not a clean stop."""
    path = os.path.join(directory, CLEAN_FILE_NAME)
    is_clean = fs.exists(path)
    fs.remove(path)
    # Sync even if the file is missing: a start that was killed may have removed it without a sync. After
    # a power loss it would reappear and declare logs clean that have grown since.
    fs.sync_directory(directory)
    return is_clean


def write_properties(fs: FileSystem, path: str, properties: Mapping[str, str]) -> None:
    """Write Java properties, as in meta.properties."""
    lines = [f"{name}={value}\n" for name, value in sorted(properties.items())]
    write_atomically(fs, path, "".join(lines).encode())


def read_properties(fs: FileSystem, path: str) -> dict[str, str] | None:
    """Read simple Java properties; return None if the file does not exist."""
    data = fs.read_file(path)
    if data is None:
        return None
    properties: dict[str, str] = {}
    for line in data.decode("utf-8", "replace").splitlines():
        if line.strip() and not line.lstrip().startswith(("#", "!")):
            name, _, value = line.partition("=")
            properties[name.strip()] = value.strip()
    return properties

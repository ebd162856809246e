"""Whose a log folder is: Kafka's `meta.properties`.

The file names the cluster and the broker that the logs belong to, and the folder itself. A
broker that opened the logs of another one would serve them, delete them as strays or write
its own behind them, so a folder that says somebody else's name is refused, and so is one
that holds logs and says nothing.
"""

import base64
import os
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from runnel.storage.checkpoint import META_FILE_NAME, read_properties, write_properties
from runnel.storage.fs import FileSystem
from runnel.storage.log_dir import parse_partition_name

_VERSION = "1"


class ForeignFolder(Exception):  # noqa: N818  says what is wrong with the folder
    """A log folder is not this broker's, or cannot be told to be."""


class FolderIdentity(NamedTuple):
    """What a folder says of itself. The folder's own id came with version 1 of the file (KIP-858)."""

    cluster_id: str
    node_id: int
    directory_id: str | None


def read_identity(fs: FileSystem, folder: str) -> FolderIdentity | None:
    """Whose the folder is, None if it does not say; raises `ForeignFolder` for a file that makes no sense."""
    path = os.path.join(folder, META_FILE_NAME)
    properties = read_properties(fs, path)
    if properties is None:
        return None
    version = properties.get("version")
    if version not in ("0", _VERSION):
        reason = "has no version" if version is None else f"has the unknown version {version!r}"
        raise ForeignFolder(f"{path} {reason}, so nobody knows whose the logs are")
    # Version 0 is that of brokers with ZooKeeper.
    name = "node.id" if version == _VERSION else "broker.id"
    cluster_id, node_id = properties.get("cluster.id"), properties.get(name, "")
    if not cluster_id or not (node_id.isascii() and node_id.isdigit()):
        raise ForeignFolder(f"{path} has no cluster.id or no number as {name}, so nobody knows whose the logs are")
    return FolderIdentity(cluster_id, int(node_id), properties.get("directory.id"))


def check_identity(fs: FileSystem, folder: str, cluster_id: str, node_id: int) -> FolderIdentity | None:
    """Raise `ForeignFolder` if the folder is not that broker's; None if it is nobody's yet."""
    identity = read_identity(fs, folder)
    path = os.path.join(folder, META_FILE_NAME)
    if identity is None:
        if fs.exists(folder) and any(
            entry.is_directory and parse_partition_name(entry.name) for entry in fs.list_directory(folder)
        ):
            raise ForeignFolder(
                f"{folder} holds logs but no {META_FILE_NAME}, so nobody knows whose they are; if they are this "
                f"broker's, write the lines version=1, cluster.id={cluster_id} and node.id={node_id} into {path}"
            )
        return None
    if identity.cluster_id != cluster_id:
        raise ForeignFolder(
            f"{path} says that the logs are of cluster {identity.cluster_id}, not of {cluster_id}, which this broker "
            "is to join; it needs another folder, or the metadata store of its own cluster"
        )
    if identity.node_id != node_id:
        raise ForeignFolder(f"{path} says that the logs are of broker {identity.node_id}, not of {node_id}")
    return identity


def find_new_folders(fs: FileSystem, folders: Sequence[str], cluster_id: str, node_id: int) -> list[str]:
    """Those of a broker's folders that are nobody's yet. Raises `ForeignFolder` if one is not that broker's.

    Two folders with one id are a folder and a copy of it, with the same logs in both.
    """
    new = []
    known: dict[str, str] = {}
    for folder in folders:
        identity = check_identity(fs, folder, cluster_id, node_id)
        if identity is None:
            new.append(folder)
        elif identity.directory_id is not None:
            other = known.setdefault(identity.directory_id, folder)
            if other != folder:
                raise ForeignFolder(
                    f"{folder} and {other} say in {META_FILE_NAME} that they are the same folder, with "
                    f"the directory.id {identity.directory_id}; if one is a copy, take it out of log.dirs"
                )
    return new


def write_identity(fs: FileSystem, folder: str, cluster_id: str, node_id: int, directory_id: UUID) -> None:
    """Say whose the folder is, before any log is in it."""
    encoded = base64.urlsafe_b64encode(directory_id.bytes).decode().rstrip("=")
    properties = {
        "version": _VERSION,
        "cluster.id": cluster_id,
        "node.id": str(node_id),
        "directory.id": encoded,
    }
    write_properties(fs, os.path.join(folder, META_FILE_NAME), properties)

"""The owner of a log folder, from Kafka's file `meta.properties`.

The file names the cluster and the broker that the logs belong to, and the id of the folder. A
broker that opened the logs of another broker would serve them, delete them as strays or append
to them. So it refuses a folder that names another owner, and a folder that holds logs and names
no owner.
"""

import base64
import os
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from tailrace.storage.checkpoint import META_FILE_NAME, read_properties, write_properties
from tailrace.storage.fs import FileSystem
from tailrace.storage.log_dir import parse_partition_name

_VERSION = "1"


class ForeignFolder(Exception):
    """A log folder belongs to another broker, or its owner is unknown."""


class FolderIdentity(NamedTuple):
    """The content of `meta.properties`. Version 1 of the file added the folder's own id (KIP-858)."""

    cluster_id: str
    node_id: int
    directory_id: str | None


def read_identity(fs: FileSystem, folder: str) -> FolderIdentity | None:
    """Return the owner of the folder, None if the file is missing; raise `ForeignFolder` if it is invalid."""
    path = os.path.join(folder, META_FILE_NAME)
    properties = read_properties(fs, path)
    if properties is None:
        return None
    version = properties.get("version")
    if version not in ("0", _VERSION):
        reason = "has no version" if version is None else f"has the unknown version {version!r}"
        raise ForeignFolder(f"{path} {reason}, so the owner of the logs is unknown")
    # Brokers with ZooKeeper write version 0.
    name = "node.id" if version == _VERSION else "broker.id"
    cluster_id, node_id = properties.get("cluster.id"), properties.get(name, "")
    if not cluster_id or not (node_id.isascii() and node_id.isdigit()):
        raise ForeignFolder(f"{path} has no cluster.id or no numeric {name}, so the owner of the logs is unknown")
    return FolderIdentity(cluster_id, int(node_id), properties.get("directory.id"))


def check_identity(fs: FileSystem, folder: str, cluster_id: str, node_id: int) -> FolderIdentity | None:
    """Raise `ForeignFolder` if the folder belongs to another broker; return None if it has no owner yet."""
    identity = read_identity(fs, folder)
    path = os.path.join(folder, META_FILE_NAME)
    if identity is None:
        if fs.exists(folder) and any(
            entry.is_directory and parse_partition_name(entry.name) for entry in fs.list_directory(folder)
        ):
            raise ForeignFolder(
                f"{folder} holds logs but no {META_FILE_NAME}, so their owner is unknown; if they are this "
                f"broker's, add the lines version=1, cluster.id={cluster_id} and node.id={node_id} to {path}"
            )
        return None
    if identity.cluster_id != cluster_id:
        raise ForeignFolder(
            f"{path} says that the logs belong to cluster {identity.cluster_id}, but this broker joins cluster "
            f"{cluster_id}; give it another folder, or the metadata store of its own cluster"
        )
    if identity.node_id != node_id:
        raise ForeignFolder(f"{path} says that the logs belong to broker {identity.node_id}, not to broker {node_id}")
    return identity


def find_new_folders(fs: FileSystem, folders: Sequence[str], cluster_id: str, node_id: int) -> list[str]:
    """Return the folders that have no owner yet. Raise `ForeignFolder` if one belongs to another broker.

    Two folders with the same id are a folder and a copy of it, with the same logs in both.
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
                    f"{folder} and {other} have the same directory.id {identity.directory_id} in {META_FILE_NAME}, "
                    "so one is a copy of the other; remove the copy from log.dirs"
                )
    return new


def write_identity(fs: FileSystem, folder: str, cluster_id: str, node_id: int, directory_id: UUID) -> None:
    """Write the owner of a folder, before it holds any log."""
    encoded = base64.urlsafe_b64encode(directory_id.bytes).decode().rstrip("=")
    properties = {
        "version": _VERSION,
        "cluster.id": cluster_id,
        "node.id": str(node_id),
        "directory.id": encoded,
    }
    write_properties(fs, os.path.join(folder, META_FILE_NAME), properties)

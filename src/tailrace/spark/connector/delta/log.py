"""The commits of a Delta table: one file each, with the actions of the commit as lines of JSON.

A store creates the file of a version only if it does not exist. So of two writers one commits, and the other looks
again at what has changed. The library deltalake reads the log, but has no commit that adds some files and removes
others, which a change of rows needs.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tailrace.spark.connector.s3.store import StoreSettings, store_scope
from tailrace.spark.error import ConnectorError

FOLDER = "_delta_log"
_ENGINE = "Tailrace"


def commit_actions(
    added: Sequence[Mapping[str, Any]],
    removed: Sequence[Mapping[str, Any]],
    *,
    operation: str,
    info: Mapping[str, Any],
    txn: tuple[str, int] | None,
    is_change: bool,
) -> list[dict[str, Any]]:
    """Return the actions of a commit."""
    now_ms = int(time.time() * 1000)
    actions: list[dict[str, Any]] = [
        {
            "commitInfo": {
                "timestamp": now_ms,
                "operation": operation,
                "operationParameters": {},
                "engineInfo": _ENGINE,
                "isBlindAppend": not removed,
                **info,
            }
        }
    ]
    if txn is not None:
        actions.append({"txn": {"appId": txn[0], "version": txn[1], "lastUpdated": now_ms}})
    change = {"dataChange": is_change}
    gone = {**change, "deletionTimestamp": now_ms, "extendedFileMetadata": True}
    actions.extend({"remove": {**each, **gone}} for each in removed)
    actions.extend({"add": {**each, **change}} for each in added)
    return actions


def write_commit(settings: StoreSettings, store: Any, version: int, actions: Sequence[Mapping[str, Any]]) -> bool:
    """Write the commit of a version; returns False if there is one."""
    import obstore
    from obstore.exceptions import AlreadyExistsError, NotSupportedError

    content = "".join(f"{json.dumps(each, separators=(',', ':'))}\n" for each in actions).encode()
    with store_scope(settings, f"commit version {version}"):
        try:
            obstore.put(store, name_of(version), content, mode="create")
        except AlreadyExistsError:
            return False
        except (NotImplementedError, NotSupportedError):
            raise ConnectorError(
                f"{settings}: the store cannot create an object only if it is missing, which commits need"
            ) from None
    return True


def read_commits(settings: StoreSettings, store: Any, version: int) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Yield the commits that the log still has, from a version on downward."""
    import obstore

    while version >= 0:
        with store_scope(settings, f"read version {version}"):
            try:
                content = bytes(obstore.get(store, name_of(version)).bytes())
            except FileNotFoundError:
                return
        try:
            yield version, [json.loads(line) for line in content.splitlines() if line.strip()]
        except ValueError:
            raise ConnectorError(f"{settings}: the commit {name_of(version)} is damaged") from None
        version -= 1


def name_of(version: int) -> str:
    """Return the name of the file of a version."""
    return f"{FOLDER}/{version:020d}.json"

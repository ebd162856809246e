"""The listing of the objects that a source reads.

Objects that flows have written count when a manifest lists them, so the source looks for manifests instead: a manifest
comes after its objects, and all of them are read in the same batch.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from tailrace.spark.connector.s3.name import is_hidden, is_manifest, is_object_of_batch, read_manifest
from tailrace.spark.connector.s3.position import Found, Order
from tailrace.spark.connector.s3.store import StoreSettings, store_scope
from tailrace.spark.error import ConnectorError


def list_objects(settings: StoreSettings, store: Any, order: Order, after_name: str = "") -> list[Found]:
    """Return objects of foreign programs, and manifests; by name, only those after a name."""
    found: list[Found] = []
    offset = after_name if order is Order.NAME and after_name else None
    with store_scope(settings, "list"):
        for each in _list(store, offset):
            if is_manifest(each.name):
                if order is Order.NAME:
                    reason = "flows have written these objects, and their names are not in order"
                    raise ConnectorError(f'{settings}: {reason}; use order="modified"')
                found.append(each)
            elif not is_hidden(each.name) and not is_object_of_batch(each.name) and each.size:
                found.append(each)
    return found


def _list(store: Any, offset: str | None) -> Iterator[Found]:
    import obstore

    for chunk in obstore.list(store, offset=offset, chunk_size=1000):
        for each in chunk:
            modified_ms = int(each["last_modified"].timestamp() * 1000)
            yield Found(each["path"], modified_ms, each["size"], each["e_tag"])


def expand(settings: StoreSettings, store: Any, objects: Sequence[Found]) -> list[Found]:
    """Return objects with data: those that a manifest lists in its place."""
    import obstore

    found: list[Found] = []
    for each in objects:
        if not is_manifest(each.name):
            found.append(each)
            continue
        with store_scope(settings, f"read {each.name}"):
            content = bytes(obstore.get(store, each.name).bytes())
        found += [Found(one.name, each.modified_ms, one.bytes) for one in read_manifest(each.name, content).objects]
    return found


def list_committed(settings: StoreSettings, store: Any) -> list[Found]:
    """Return all objects with data that count now, the oldest first."""
    listing = sorted(list_objects(settings, store, Order.MODIFIED), key=lambda each: (each.modified_ms, each.name))
    return expand(settings, store, listing)

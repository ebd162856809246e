"""The commit of a batch: one manifest, written last, decides which objects count. This runs in the driver.

An attempt may be interrupted anywhere, and an older attempt may still be running:

- interrupted before the manifest: none of its objects counts. The next attempt writes the batch again, and deletes
  them.
- interrupted after the manifest: the next attempt finds it, and only deletes what it does not list.
- two attempts at once: the store creates a manifest only if it is not there, so the first one counts; the second finds
  it, and its own objects are deleted.

Objects of an older attempt that end up in the store after that are deleted with the next batch, because each commit
looks at the batch before it, too.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from tailrace.spark.connector.replay import is_repeated
from tailrace.spark.connector.s3.name import BatchName, Manifest, Written, read_manifest, write_manifest
from tailrace.spark.connector.s3.store import StoreSettings, store_scope


class BatchCommit:
    """The manifest of one batch."""

    def __init__(self, settings: StoreSettings, store: Any, batch: BatchName, plan: str | None = None) -> None:
        self._settings = settings
        self._store = store
        self._batch = batch
        self._plan = plan

    def is_committed(self) -> bool:
        """Return whether an attempt to write the batch counts already.

        Raises `ConnectorError` if a later batch counts, or another one of this number.
        """
        found, later = self._read(self._batch), self._find_later()
        if found is None and later is None:
            return False
        flow, batch_id = self._batch.flow, self._batch.batch_id
        noted = None if found is None else found.plan  # a batch without rows has no manifest
        return is_repeated(later or batch_id, batch_id, flow, self._settings, noted, self._plan)

    def commit(self, objects: Sequence[Written]) -> bool:
        """Let these objects count, unless those of another attempt do; returns whether they do."""
        import obstore
        from obstore.exceptions import AlreadyExistsError, NotSupportedError

        manifest = Manifest(tuple(objects), self._plan)
        name, content = self._batch.manifest, write_manifest(self._batch.batch_id, manifest)
        with store_scope(self._settings, f"write {name}"):
            try:
                obstore.put(self._store, name, content, mode="create")
            except AlreadyExistsError:
                # It may be this one, if the reply to the first of two tries was lost.
                return self._read(self._batch) == manifest
            except (NotImplementedError, NotSupportedError):
                # The lock of the pipeline keeps two drivers from one checkpoint.
                obstore.put(self._store, name, content)
        return True

    def delete_strays(self) -> None:
        """Delete objects of this batch and of the one before it that their manifests do not list."""
        import obstore

        before = BatchName(self._batch.flow, self._batch.query_id, self._batch.batch_id - 1)
        for batch in (before, self._batch) if before.batch_id >= 0 else (self._batch,):
            listed = self._read(batch)
            kept = {each.name for each in listed.objects} if listed is not None else set()
            with store_scope(self._settings, f"delete objects of batch {batch.batch_id}"):
                strays = [name for name in self._names(batch) if name not in kept]
                if strays:
                    obstore.delete(self._store, strays)

    def _find_later(self) -> int | None:
        """Return the number of a later batch that has a manifest."""
        import obstore

        folder, _, name = self._batch.manifest.rpartition("/")
        with store_scope(self._settings, f"list {folder}"):
            for chunk in obstore.list(self._store, prefix=folder, offset=self._batch.manifest):
                for each in chunk:
                    later = each["path"].rpartition("/")[2]
                    if later > name:
                        return int(later.partition(".")[0])
        return None

    def _names(self, batch: BatchName) -> Iterator[str]:
        import obstore

        for chunk in obstore.list(self._store, offset=batch.stem):
            for each in chunk:
                if each["path"].startswith(batch.stem):
                    yield each["path"]
                elif not self._settings.url.startswith("file:"):
                    return  # names come in order, except those of folders

    def _read(self, batch: BatchName) -> Manifest | None:
        import obstore

        with store_scope(self._settings, f"read {batch.manifest}"):
            try:
                content = obstore.get(self._store, batch.manifest).bytes()
            except FileNotFoundError as error:
                if "NoSuchBucket" in str(error):
                    raise
                return None
        return read_manifest(batch.manifest, bytes(content))

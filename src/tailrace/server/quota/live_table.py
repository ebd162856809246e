"""The quotas of the cluster as this broker knows them, read again when they change."""

from collections.abc import Callable, Sequence

from tailrace.coordination.cluster import ClusterMetadata
from tailrace.machines.controller.image import ClusterImage
from tailrace.machines.controller.record import ConfigRecord, Record
from tailrace.machines.quota.entity import QUOTA_KINDS, stored_entity
from tailrace.machines.quota.table import QuotaTable


def read_table(image: ClusterImage) -> QuotaTable:
    """Return the quotas that are stored in the cluster."""
    return QuotaTable(
        (stored_entity(kind, name), image.config(kind, name)) for kind in QUOTA_KINDS for name in image.configured(kind)
    )


def watch_table(metadata: ClusterMetadata, changed: Callable[[QuotaTable], None]) -> None:
    """Call `changed` with the quotas now, and again after each change."""

    def on_records(records: Sequence[Record]) -> None:
        if any(isinstance(record, ConfigRecord) and record.kind in QUOTA_KINDS for record in records):
            changed(read_table(metadata.image))

    metadata.listen(on_records)
    changed(read_table(metadata.image))

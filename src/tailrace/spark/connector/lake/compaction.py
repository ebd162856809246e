"""The choice of small files to write together. Pure."""

from collections.abc import Hashable, Sequence

from tailrace.spark.connector.lake.table_file import Described

FILES_MIN = 8
"""So many small files of a partition are written together; fewer are left alone, because each copy costs."""


def choose_groups(files: Sequence[Described], target_bytes: int, files_min: int = FILES_MIN) -> list[list[Described]]:
    """Return groups of small files of one partition, each with about the bytes of one large file."""
    by_partition: dict[Hashable, list[Described]] = {}
    for each in files:
        if each.size_bytes < target_bytes // 2:
            by_partition.setdefault(each.partition, []).append(each)
    groups = []
    for small in by_partition.values():
        if len(small) < files_min:
            continue
        group: list[Described] = []
        size = 0
        for each in sorted(small, key=lambda file: file.size_bytes):
            if group and size + each.size_bytes > target_bytes:
                groups.append(group)
                group, size = [], 0
            group.append(each)
            size += each.size_bytes
        groups.append(group)
    return [group for group in groups if len(group) > 1]

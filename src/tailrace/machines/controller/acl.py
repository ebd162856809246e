"""The decisions on ACLs: the records that add bindings, and those that remove what filters select."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tailrace.machines.authorization.binding import AclBinding
from tailrace.machines.authorization.filter import AclFilter
from tailrace.machines.controller.image import ClusterImage
from tailrace.machines.controller.security_record import AclEntry, AclPattern, AclRecord


class AclRemoval(NamedTuple):
    """The records that remove ACLs, and the ACLs that each filter selects, in the order of the filters."""

    records: list[AclRecord]
    removed: list[list[AclBinding]]


def decide_create_acls(image: ClusterImage, bindings: Iterable[AclBinding]) -> list[AclRecord]:
    """Return the records that add bindings, which must be valid; those that exist already change nothing."""
    added: defaultdict[AclPattern, set[AclEntry]] = defaultdict(set)
    for binding in bindings:
        added[_pattern(binding)].add(_entry(binding))
    records = []
    for pattern, entries in added.items():
        present = set(image.acls[pattern].entries) if pattern in image.acls else set()
        if entries - present:
            records.append(_record(pattern, entries | present))
    return records


def decide_delete_acls(image: ClusterImage, selections: Sequence[AclFilter]) -> AclRemoval:
    """Return the records that remove the selected bindings. One that several filters select is listed for each."""
    removed = [select_acls(image, selection) for selection in selections]
    gone: defaultdict[AclPattern, set[AclEntry]] = defaultdict(set)
    for binding in (binding for bindings in removed for binding in bindings):
        gone[_pattern(binding)].add(_entry(binding))
    records = [_record(pattern, set(image.acls[pattern].entries) - entries) for pattern, entries in gone.items()]
    return AclRemoval(records, removed)


def select_acls(image: ClusterImage, selection: AclFilter) -> list[AclBinding]:
    """Return the bindings that a filter selects, sorted by resource type and name."""
    return sorted(binding for binding in image.acl_bindings() if selection.matches(binding))


def has_acl(image: ClusterImage, binding: AclBinding) -> bool:
    """Whether a binding exists."""
    record = image.acls.get(_pattern(binding))
    return record is not None and _entry(binding) in record.entries


def _record(pattern: AclPattern, entries: set[AclEntry]) -> AclRecord:
    return AclRecord(pattern, tuple(sorted(entries)))


def _pattern(binding: AclBinding) -> AclPattern:
    return AclPattern(binding.resource, binding.pattern_type, binding.name)


def _entry(binding: AclBinding) -> AclEntry:
    return AclEntry(binding.principal, binding.host, binding.operation, binding.permission)

"""The ACLs of copied topics: the readers of a topic may read its copy. Pure.

As in MirrorMaker 2, the right to write is not copied, because only the mirror should write a copy, and the right to do
everything becomes the right to read. Prohibitions are copied unchanged. ACLs are added and never removed: one
that an administrator has added to the copy looks the same.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tailrace.client.admin.acl import Acl

_ALLOW = "allow"


def copied_acls(acls: Iterable[Acl], names: Mapping[str, str]) -> set[Acl]:
    """Return the ACLs for the copies of topics; `names` has the name of the copy of each topic."""
    found = set()
    for acl in acls:
        if acl.resource_type != "topic" or acl.pattern_type != "literal" or acl.name not in names:
            continue
        if acl.permission == _ALLOW and acl.operation == "write":
            continue
        reduced = "read" if acl.permission == _ALLOW and acl.operation == "all" else acl.operation
        found.add(replace(acl, name=names[acl.name], operation=reduced))
    return found


def missing_acls(acls: Iterable[Acl], names: Mapping[str, str], there: Iterable[Acl]) -> list[Acl]:
    """Return the ACLs to add to the target."""
    return sorted(copied_acls(acls, names) - set(there))

"""Deleting versions and subjects.

A soft delete hides a version, and its id still finds its schema. A hard delete, which only a softly deleted version can
have, removes it; the id is not given to another schema.
"""

from dataclasses import dataclass

from tailrace.registry.core.association import Search
from tailrace.registry.core.error import (
    Code,
    RegistryError,
    read_only,
    subject_is_associated,
    subject_not_found,
    version_not_found,
)
from tailrace.registry.core.record import Change, Entry, Kind
from tailrace.registry.core.state import State
from tailrace.registry.core.subject import context_of, context_prefix

LATEST = -1


@dataclass(frozen=True, slots=True)
class Removal:
    """The records of a deletion, and the versions that it deletes."""

    changes: tuple[Change, ...]
    versions: tuple[int, ...]


def delete_version(state: State, subject: str, version: int, *, is_permanent: bool) -> Removal:
    """Decide the deletion of one version."""
    entry = _find_version(state, subject, version)
    if entry.is_deleted and not is_permanent:
        raise RegistryError(
            Code.VERSION_SOFT_DELETED,
            f"Subject '{subject}' Version {version} was soft deleted.Set permanent=true to delete permanently",
        )
    _check_writable(state, subject)
    _check_association(state, entry, is_permanent=is_permanent)
    if state.referrers((subject, entry.version), with_deleted=is_permanent):
        raise _referenced(entry)
    if not is_permanent:
        return Removal((Change(Kind.SCHEMA, subject, entry.version, entry.deleted()),), (entry.version,))
    if not entry.is_deleted:
        raise RegistryError(
            Code.VERSION_NOT_SOFT_DELETED,
            f"Subject '{subject}' Version {entry.version} was not deleted first before being permanently deleted",
        )
    is_last = len(state.versions(subject, with_deleted=True)) == 1
    rest = _scope_changes(state, subject) if is_last else []
    return Removal((keep_ids(state), Change(Kind.SCHEMA, subject, entry.version), *rest), (entry.version,))


def delete_subject(state: State, subject: str, *, is_permanent: bool) -> Removal:
    """Decide the deletion of all versions of a subject."""
    if not state.has_subject(subject, with_deleted=True):
        raise subject_not_found(subject)
    if not is_permanent and not state.has_subject(subject):
        raise RegistryError(
            Code.SUBJECT_SOFT_DELETED,
            f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently",
        )
    _check_writable(state, subject)
    if state.associations(Search(subject=subject)):
        raise subject_is_associated(subject)
    _check_referrers(state, subject, is_permanent=is_permanent)
    entries = state.versions(subject, with_deleted=is_permanent)
    if is_permanent and not all(entry.is_deleted for entry in entries):
        raise RegistryError(
            Code.SUBJECT_NOT_SOFT_DELETED,
            f"Subject '{subject}' was not deleted first before being permanently deleted",
        )
    versions = tuple(entry.version for entry in entries)
    if not is_permanent:
        return Removal((Change(Kind.DELETE_SUBJECT, subject, value=versions[-1]),), versions)
    return Removal(_removal(state, subject), versions)


def remove_subject(state: State, subject: str) -> tuple[Change, ...]:
    """Decide the removal of a subject at once, whether it is softly deleted or not."""
    _check_referrers(state, subject, is_permanent=True)
    latest = state.latest(subject)
    soft = () if latest is None else (Change(Kind.DELETE_SUBJECT, subject, value=latest.version),)
    return (*soft, *_removal(state, subject))


def _removal(state: State, subject: str) -> tuple[Change, ...]:
    entries = reversed(state.versions(subject, with_deleted=True))
    removed = [Change(Kind.SCHEMA, subject, entry.version) for entry in entries]
    return (keep_ids(state), *removed, *_scope_changes(state, subject))


def _check_referrers(state: State, subject: str, *, is_permanent: bool) -> None:
    for entry in state.versions(subject, with_deleted=is_permanent):
        referrers = state.referrers((subject, entry.version), with_deleted=is_permanent)
        if any(referrer.subject != subject for referrer in referrers):
            raise _referenced(entry)


def _check_association(state: State, entry: Entry, *, is_permanent: bool) -> None:
    """Check that the subject of an association keeps a version."""
    if not state.associations(Search(subject=entry.subject)):
        return
    if is_permanent:
        raise subject_is_associated(entry.subject)
    if all(each.version == entry.version for each in state.versions(entry.subject)):
        raise RegistryError(
            Code.NO_ACTIVE_VERSION, f"Subject '{entry.subject}' has an association, which needs its last version"
        )


def delete_context(state: State, context: str) -> tuple[Change, ...]:
    """Decide the deletion of a context, which must hold nothing."""
    if state.has_subject(context_prefix(context), with_deleted=True):
        raise RegistryError(Code.CONTEXT_NOT_EMPTY, f"Context {context_prefix(context)!r} is not empty")
    return (Change(Kind.CONTEXT, context),) if state.has_context(context) else ()


def keep_ids(state: State) -> Change:
    """Return the record that keeps the ids of schemas that are about to disappear from being used again."""
    return Change(Kind.NOOP, value=state.max_ids)


def _find_version(state: State, subject: str, version: int) -> Entry:
    entry = state.latest(subject) if version == LATEST else state.find(subject, version, with_deleted=True)
    if entry is None:
        exists = state.has_subject(subject, with_deleted=True)
        raise version_not_found(version) if exists else subject_not_found(subject)
    return entry


def _check_writable(state: State, subject: str) -> None:
    if state.mode(subject).is_read_only:
        raise read_only(subject, context_prefix(context_of(subject)))


def _referenced(entry: Entry) -> RegistryError:
    place = f"{{magic=1,keytype=SCHEMA,subject={entry.subject},version={entry.version}}}"
    return RegistryError(Code.REFERENCE_EXISTS, f"One or more references exist to the schema {place}.")


def _scope_changes(state: State, subject: str) -> list[Change]:
    """Return the records that remove the mode and the config of a subject that ends."""
    modes = [Change(Kind.MODE, subject)] if subject in state.modes else []
    return modes + ([Change(Kind.CONFIG, subject)] if subject in state.configs else [])

"""Changing configs and modes, of a subject, of a context, or of everything (None)."""

from typing import Any

from tailrace.registry.core.entity import Config, Mode
from tailrace.registry.core.error import Code, RegistryError, read_only
from tailrace.registry.core.record import Change, Kind
from tailrace.registry.core.removal import keep_ids
from tailrace.registry.core.state import State
from tailrace.registry.core.subject import DEFAULT_CONTEXT, Subject, context_of, context_prefix

# --- configs


def update_config(state: State, scope: str | None, changed: dict[str, Any]) -> tuple[tuple[Change, ...], Config]:
    """Decide a change of some members of a config; a member that is None is removed."""
    _check_writable(state, scope)
    config = state.configs.get(scope, Config()).model_copy(update=changed)
    return (Change(Kind.CONFIG, scope, value=config),), config


def delete_config(state: State, scope: str | None) -> tuple[Change, ...]:
    """Decide the removal of a config."""
    _check_writable(state, scope)
    return (Change(Kind.CONFIG, scope),)


def _check_writable(state: State, scope: str | None) -> None:
    if state.mode(scope).is_read_only:
        raise read_only(scope, context_prefix(DEFAULT_CONTEXT if scope is None else context_of(scope)))


# --- modes


def set_mode(state: State, scope: str | None, mode: Mode | None, *, force: bool) -> tuple[Change, ...]:
    """Decide a change of mode.

    A scope that imports must have no schemas, whose ids could be those of the schemas to import. Softly deleted ones
    are removed for that; `force` leaves everything as it is.
    """
    changes: tuple[Change, ...] = ()
    if mode is Mode.IMPORT and state.mode(scope) is not Mode.IMPORT and not force:
        if state.has_subject(scope):
            raise RegistryError(Code.NOT_PERMITTED, "Cannot import since found existing subjects")
        changes = _empty(state, scope)
    return (*changes, Change(Kind.MODE, scope, value=mode))


def _empty(state: State, scope: str | None) -> tuple[Change, ...]:
    removed = []
    for subject in state.subjects_within(scope):
        for entry in state.versions(subject, with_deleted=True):
            if state.referrers((subject, entry.version), with_deleted=True):
                raise RegistryError(
                    Code.REFERENCE_EXISTS,
                    f"Version {entry.version} of subject {subject} cannot be removed: other schemas refer to it",
                )
            removed.append(Change(Kind.SCHEMA, subject, entry.version))
    kept = (keep_ids(state),) if removed else ()
    return (*kept, *removed, Change(Kind.CLEAR_SUBJECT, scope, value=0))


def delete_mode(state: State, scope: str | None, *, is_recursive: bool = False) -> tuple[Change, ...]:
    """Decide the removal of a mode, and of those of all subjects of a context if it is recursive."""
    changes = [Change(Kind.MODE, scope)]
    parsed = None if scope is None else Subject.parse(scope)
    if is_recursive and (parsed is None or not parsed.name):
        context = DEFAULT_CONTEXT if parsed is None else parsed.context
        changes += [
            Change(Kind.MODE, each)
            for each in state.modes
            if each is not None and each != scope and context_of(each) == context
        ]
    return tuple(changes)

"""The state of the registry: what the records of `_schemas` add up to, with the indexes that requests need.

Only `replay` changes it. Every registry process replays the same records in the same order, so all have the same state.

A copy, which worker threads read, shares the small dicts in it (the versions of a subject, the holders of an id), so it
takes a fraction of a millisecond. Each of them is copied before its first change after that.
"""

import logging
from collections.abc import Iterator
from typing import TypeVar

from tailrace.registry.core.association import Association, AssociationKey, Search
from tailrace.registry.core.entity import Config, Level, Mode
from tailrace.registry.core.record import Change, Entry, Kind
from tailrace.registry.core.subject import (
    DEFAULT_CONTEXT,
    EVERY_CONTEXT,
    GLOBAL_CONTEXT,
    Subject,
    context_of,
    context_prefix,
    qualify,
)

_log = logging.getLogger(__name__)

K = TypeVar("K")
L = TypeVar("L")
V = TypeVar("V")

Place = tuple[str, int]
"""A subject and a version."""

DEFAULT_CONFIG = Config(compatibility_level=Level.BACKWARD)
_INHERITED = (
    "normalize",
    "validate_fields",
    "validate_new_schemas",
    "validate_rules",
    "compatibility_policy",
    "compatibility_group",
)
"""What a subject's config takes from the one that holds everywhere. The level is not among them."""
_GLOBAL_SCOPE = context_prefix(GLOBAL_CONTEXT)


class State:
    """Subjects, ids, references, configs, modes and contexts."""

    def __init__(self) -> None:
        self.configs: dict[str | None, Config] = {}
        self.modes: dict[str | None, Mode] = {}
        self._contexts: set[str] = set()
        self._associations: dict[tuple[AssociationKey, str], Association] = {}
        self._entries: dict[str, dict[int, Entry]] = {}
        self._ids: dict[str, dict[int, dict[str, int]]] = {}  # context, id, subject: its version with that id
        self._guids: dict[str, dict[str, dict[int, None]]] = {}  # context, GUID: its ids, the newest last
        self._referrers: dict[Place, dict[Place, None]] = {}
        self._former: dict[Place, dict[int, str]] = {}  # place, id that an import has overwritten there: its GUID
        self._own: set[int] = set()  # the small dicts, by identity, that no copy shares
        self._max_ids: dict[str, int] = {}

    def copy(self) -> "State":
        """Return a state that changes independently. Both share their small dicts, and neither changes those."""
        twin = State()
        self._own.clear()
        for name, value in vars(self).items():
            setattr(twin, name, value.copy())
        twin._ids = {context: dict(members) for context, members in self._ids.items()}
        twin._guids = {context: dict(members) for context, members in self._guids.items()}
        return twin

    def _changeable(self, members: dict[K, dict[L, V]], key: K) -> dict[L, V]:
        """Return a member that no copy shares, for a change."""
        found = members.get(key)
        if found is None or id(found) not in self._own:
            found = members[key] = dict(found or {})
            self._own.add(id(found))
        return found

    # --- replaying

    def replay(self, change: Change) -> None:
        """Take one record over."""
        match change.kind:
            case Kind.SCHEMA:
                self._replay_schema(change)
            case Kind.CONFIG:
                self.configs.pop(change.subject, None)
                if isinstance(change.value, Config):
                    self.configs[change.subject] = change.value
            case Kind.MODE:
                self.modes.pop(change.subject, None)
                if isinstance(change.value, Mode):
                    self.modes[change.subject] = change.value
            case Kind.ASSOC if change.key is not None:
                self._associations.pop((change.key, change.subject or ""), None)
                if isinstance(change.value, Association):
                    self._associations[change.key, change.value.subject] = change.value
            case Kind.CONTEXT:
                (self._contexts.discard if change.value is None else self._contexts.add)(change.subject or "")
            case Kind.DELETE_SUBJECT if isinstance(change.value, int):
                self._delete_until(change.subject or "", change.value)
            case Kind.CLEAR_SUBJECT if change.value is not None:
                self._clear(change.subject)
            case Kind.NOOP if isinstance(change.value, dict):
                for context, number in change.value.items():
                    self._max_ids[context] = max(number, self._max_ids.get(context, 0))

    def _replay_schema(self, change: Change) -> None:
        subject, version = change.subject or "", change.version or 0
        old = self._entries.get(subject, {}).get(version)
        entry = change.value
        if isinstance(entry, Entry) and self._contradicts(entry):
            _log.error(
                "ignoring version %d of subject %s: its id %d already belongs to another schema",
                version,
                subject,
                entry.id,
            )
            return
        if old is not None:
            self._take_out(old)
        if isinstance(entry, Entry):
            if old is not None and old.id != entry.id and self.entry_of_id(old.id, context_of(subject)) is None:
                self._changeable(self._former, (subject, version))[old.id] = old.guid
            self._put_in(entry)
        else:
            self._former.pop((subject, version), None)

    def _contradicts(self, entry: Entry) -> bool:
        """Return whether the id of an entry belongs to another schema, which must stay what it means."""
        known = self.entry_of_id(entry.id, context_of(entry.subject))
        is_same_place = known is not None and (known.subject, known.version) == (entry.subject, entry.version)
        return known is not None and not is_same_place and known.text != entry.text

    def _put_in(self, entry: Entry) -> None:
        context = context_of(entry.subject)
        self._changeable(self._entries, entry.subject)[entry.version] = entry
        self._changeable(self._ids.setdefault(context, {}), entry.id)[entry.subject] = entry.version
        ids = self._changeable(self._guids.setdefault(context, {}), entry.guid)
        ids.pop(entry.id, None)
        ids[entry.id] = None
        self._max_ids[context] = max(entry.id, self._max_ids.get(context, 0))
        for place in self._referred(entry):
            self._changeable(self._referrers, place)[entry.subject, entry.version] = None

    def _take_out(self, entry: Entry) -> None:
        context = context_of(entry.subject)
        self._drop(self._entries, entry.subject, entry.version)
        holders = self._ids[context].get(entry.id, {})
        if holders.get(entry.subject) == entry.version:
            versions = self._entries.get(entry.subject, {})
            same = [each.version for each in versions.values() if each.id == entry.id]
            if same:
                self._changeable(self._ids[context], entry.id)[entry.subject] = max(same)
            else:
                self._drop(self._ids[context], entry.id, entry.subject)
        if entry.id not in self._ids[context]:
            self._drop(self._guids[context], entry.guid, entry.id)
        for place in self._referred(entry):
            self._drop(self._referrers, place, (entry.subject, entry.version))

    def _drop(self, members: dict[K, dict[L, V]], key: K, inner: L) -> None:
        """Remove a member of a small dict, and the dict with its last one."""
        left = self._changeable(members, key)
        left.pop(inner, None)
        if not left:
            del members[key]

    @staticmethod
    def _referred(entry: Entry) -> Iterator[Place]:
        for reference in entry.references:
            yield qualify(reference.subject, entry.subject), reference.version

    def _delete_until(self, subject: str, version: int) -> None:
        for entry in self.versions(subject):
            if entry.version <= version:
                self._changeable(self._entries, subject)[entry.version] = entry.deleted()

    def _clear(self, scope: str | None) -> None:
        """Forget the deleted versions in a scope."""
        for subject in list(self._entries):
            if is_within(subject, scope):
                for entry in self.versions(subject, with_deleted=True):
                    if entry.is_deleted:
                        self._take_out(entry)
                        self._former.pop((subject, entry.version), None)

    # --- versions

    def versions(self, subject: str, *, with_deleted: bool = False) -> list[Entry]:
        """Return the versions of a subject, the oldest first."""
        entries = self._entries.get(subject, {})
        return [entries[version] for version in sorted(entries) if with_deleted or not entries[version].is_deleted]

    def find(self, subject: str, version: int, *, with_deleted: bool = False) -> Entry | None:
        """Return one version of a subject."""
        entry = self._entries.get(subject, {}).get(version)
        return None if entry is None or (entry.is_deleted and not with_deleted) else entry

    def latest(self, subject: str) -> Entry | None:
        """Return the newest version of a subject that is not deleted."""
        live = self.versions(subject)
        return live[-1] if live else None

    def subjects(self, prefix: str = "", *, with_deleted: bool = False) -> list[str]:
        """Return the subjects that begin with a prefix, sorted; a prefix may name every context."""
        return sorted(
            subject
            for subject in self._entries
            if has_prefix(subject, prefix) and (with_deleted or self.latest(subject) is not None)
        )

    def has_subject(self, scope: str | None, *, with_deleted: bool = False) -> bool:
        """Return whether a subject, or any subject of a context or of all, exists."""
        if scope is not None and Subject.parse(scope).name:
            return bool(self.versions(scope, with_deleted=with_deleted))
        return any(with_deleted or self.latest(subject) is not None for subject in self.subjects_within(scope))

    def subjects_within(self, scope: str | None) -> list[str]:
        """Return the subjects of a scope, with those that are deleted."""
        return [subject for subject in self._entries if is_within(subject, scope)]

    # --- ids

    def entry_of_id(self, schema_id: int, context: str = DEFAULT_CONTEXT, subject: str = "") -> Entry | None:
        """Return an entry that has an id, of one subject if that is named; deleted schemas keep their ids."""
        holders = self._ids.get(context, {}).get(schema_id, {})
        if subject:
            version = holders.get(subject)
            return None if version is None else self._entries[subject][version]
        return next((self._entries[holder][version] for holder, version in holders.items()), None)

    def places_of_id(self, schema_id: int, context: str) -> list[Entry]:
        """Return all versions of all subjects that have an id, sorted."""
        holders = self._ids.get(context, {}).get(schema_id, {})
        found = [entry for subject in holders for entry in self._entries[subject].values() if entry.id == schema_id]
        return sorted(found, key=lambda entry: (entry.subject, entry.version))

    def id_of_guid(self, guid: str, context: str) -> int | None:
        """Return the id that a GUID has in a context."""
        return next(reversed(self._guids.get(context, {}).get(guid, {})), None)

    def former_guid(self, schema_id: int, context: str) -> str | None:
        """Return the GUID of the schema that had an id until an import gave its only version to another schema.

        It is known until that version is removed, or a process starts after compaction, as in Confluent's registry.
        """
        return next(
            (
                guids[schema_id]
                for (subject, _), guids in self._former.items()
                if schema_id in guids and context_of(subject) == context
            ),
            None,
        )

    def max_id(self, context: str) -> int:
        """Return the highest id that was ever given to a schema of a context; 0 if none was."""
        return self._max_ids.get(context, 0)

    @property
    def max_ids(self) -> dict[str, int]:
        """The highest ids of all contexts."""
        return dict(self._max_ids)

    # --- references

    def referrers(self, place: Place, *, with_deleted: bool = False) -> list[Entry]:
        """Return the versions that refer to a version of a subject."""
        found = [self._entries[subject][version] for subject, version in self._referrers.get(place, ())]
        return sorted(
            (entry for entry in found if with_deleted or not entry.is_deleted),
            key=lambda entry: (context_of(entry.subject), entry.id),
        )

    # --- associations

    def associations(self, search: Search) -> list[Association]:
        """Return the associations that a search finds, sorted."""
        found = [place for place, each in self._associations.items() if search.finds(each)]
        return [self._associations[place] for place in sorted(found)]

    # --- scopes

    def target_of(self, subject: str) -> str:
        """Return the subject that an alias stands for; a subject that is none stands for itself."""
        own = self.configs.get(subject)
        return qualify(own.alias, subject) if own is not None and own.alias else subject

    def aliases_of(self, subject: str) -> list[str]:
        """Return the aliases of a subject, sorted."""
        return sorted(
            alias
            for alias, config in self.configs.items()
            if alias is not None and config.alias and self.target_of(alias) == subject
        )

    @property
    def contexts(self) -> list[str]:
        """The contexts, the default one first."""
        return [DEFAULT_CONTEXT, *sorted(self._contexts)]

    def has_context(self, context: str) -> bool:
        """Return whether a context other than the default one has been used."""
        return context in self._contexts

    def mode(self, scope: str | None) -> Mode:
        """Return the mode that counts for a subject, a context or everywhere (None)."""
        for each in _scopes(scope):
            if (found := self.modes.get(each)) is not None:
                return found
        return Mode.READWRITE

    def config(self, scope: str | None) -> Config:
        """Return the config that counts for a subject, a context or everywhere (None)."""
        own = self.configs.get(scope) if scope is not None else None
        if own is None:
            return self._inherited_config(scope)
        everywhere = self.configs.get(None, DEFAULT_CONFIG)
        missing = {name: getattr(everywhere, name) for name in _INHERITED if getattr(own, name) is None}
        return with_level(own.model_copy(update=missing))

    def _inherited_config(self, scope: str | None) -> Config:
        for each in _scopes(scope):
            if (found := self.configs.get(each)) is not None:
                return with_level(found)
        return DEFAULT_CONFIG


def with_level(config: Config) -> Config:
    """Return a config with the default compatibility level, if it has none."""
    level = config.compatibility_level or DEFAULT_CONFIG.compatibility_level
    return config.model_copy(update={"compatibility_level": level})


def _scopes(scope: str | None) -> list[str | None]:
    """Return where to look for a config or a mode: the scope, its context or the default one, and the global one."""
    context = DEFAULT_CONTEXT if scope is None else context_of(scope)
    return [scope, None if context == DEFAULT_CONTEXT else context_prefix(context), _GLOBAL_SCOPE]


def is_within(subject: str, scope: str | None) -> bool:
    """Return whether a subject is the scope, or is in the context that the scope is; None holds all contexts."""
    if scope is None:
        return True
    parsed = Subject.parse(scope)
    return subject == scope if parsed.name else parsed.context in (GLOBAL_CONTEXT, context_of(subject))


def has_prefix(subject: str, prefix: str) -> bool:
    """Return whether a subject begins with a prefix; `:*:` stands for any context."""
    wanted, found = Subject.parse(prefix), Subject.parse(subject)
    return wanted.context in (EVERY_CONTEXT, found.context) and found.name.startswith(wanted.name)

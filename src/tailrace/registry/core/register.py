"""Registering a schema, and looking one up.

A schema is known by its GUID, which is made of its canonical text, references, metadata and rules. Registering a schema
that its subject has already changes nothing; one that another subject of the context has gets the same id; a new one
gets the next id, after it has been found compatible with the versions before it.
"""

import json
from dataclasses import dataclass, replace

from tailrace.registry.core import compatibility, tag
from tailrace.registry.core.entity import VERSION_PROPERTY, Config, Metadata, Mode, RuleSet
from tailrace.registry.core.error import Code, RegistryError, read_only
from tailrace.registry.core.parser import SchemaParser
from tailrace.registry.core.record import Change, Entry, Kind, guid_of
from tailrace.registry.core.removal import LATEST, keep_ids
from tailrace.registry.core.state import State
from tailrace.registry.core.subject import DEFAULT_CONTEXT, context_of, context_prefix
from tailrace.schema.language import Reference, Schema, SchemaType

NEXT_VERSION = 0
NEW_ID = -1


@dataclass(frozen=True, slots=True)
class Draft:
    """A schema that a client wants to register or to find."""

    subject: str
    text: str
    type: SchemaType = SchemaType.AVRO
    references: tuple[Reference, ...] = ()
    metadata: Metadata | None = None
    rule_set: RuleSet | None = None
    version: int = NEXT_VERSION
    id: int = NEW_ID
    keeps_tags: bool = False
    """Whether the schema takes the tags of the version before it over."""

    @property
    def guid(self) -> str:
        """The GUID that the schema has or would get."""
        return guid_of(self.text, self.references, self.metadata, self.rule_set)


@dataclass(frozen=True, slots=True)
class Decision:
    """The records of a request, which are written together, and its result once they are."""

    changes: tuple[Change, ...]
    entry: Entry


@dataclass(frozen=True, slots=True)
class Found:
    """A version that has the schema of a draft, the very same or one that differs in notation."""

    entry: Entry
    is_exact: bool


# --- looking up


def look_up(
    state: State, parser: SchemaParser, draft: Draft, *, normalize: bool = False, with_deleted: bool = False
) -> Found | None:
    """Return the version of a subject that has a schema, if there is one."""
    found = find_same(state, parser, draft, normalize=normalize, with_deleted=with_deleted)
    latest = state.latest(draft.subject)
    if found is not None or latest is None:
        return found
    completed = _complete_parts(draft, state.config(draft.subject), latest)
    if completed == draft:
        return None
    return find_same(state, parser, completed, normalize=normalize, with_deleted=with_deleted)


def find_parsed(state: State, parser: SchemaParser, draft: Draft) -> Found | None:
    """Return the version of a subject that has a schema as it stands, if that takes no parsing and no comparing.

    That is so for most requests: clients look the schema up that they have registered.
    """
    schema = parser.find_parsed(draft.subject, draft.type, draft.text, draft.references)
    if schema is None or draft.version == LATEST:
        return None
    entry = _find_exact(state, replace(draft, text=schema.text))
    return None if entry is None or entry.is_deleted else Found(entry, is_exact=True)


def _find_exact(state: State, canonical: Draft) -> Entry | None:
    known_id = state.id_of_guid(canonical.guid, context_of(canonical.subject))
    return None if known_id is None else state.entry_of_id(known_id, context_of(canonical.subject), canonical.subject)


def find_same(state: State, parser: SchemaParser, draft: Draft, *, normalize: bool, with_deleted: bool) -> Found | None:
    """Return the version of a subject that has a schema as it stands, without what the config would add.

    A draft of the latest version is compared with that one alone.
    """
    if not draft.text.strip():
        return None
    schema, canonical = canonicalize(parser, draft, normalize=normalize, is_new=False)
    exact = None if draft.version == LATEST else _find_exact(state, canonical)
    if exact is not None and (with_deleted or not exact.is_deleted):
        return Found(exact, is_exact=True)
    entries = state.versions(draft.subject, with_deleted=with_deleted)
    for entry in reversed(entries[-1:] if draft.version == LATEST else entries):
        if _is_same(schema, canonical, entry, parser):
            resolved = replace(canonical, references=tuple(parser.resolve(draft.subject, draft.references)))
            return Found(entry, is_exact=resolved.guid == entry.guid and draft.version != LATEST)
    return None


def _is_same(schema: Schema, draft: Draft, entry: Entry, parser: SchemaParser) -> bool:
    """Return whether a version differs from a draft only in notation: order, references or the version property."""
    if entry.type is not draft.type or draft.rule_set != entry.rule_set:
        return False
    if not _has_same_metadata(draft, entry):
        return False
    if parser.resolve(draft.subject, draft.references) == parser.resolve(entry.subject, entry.references):
        return _is_same_text(draft, entry)
    if draft.references or not entry.references:
        return False
    return schema.formatted("resolved") == parser.parse_entry(entry).formatted("resolved")


def _is_same_text(draft: Draft, entry: Entry) -> bool:
    """Return whether two texts are equal; the order of members has no meaning in Avro, and keeps the length."""
    if draft.text == entry.text or draft.type is not SchemaType.AVRO or len(draft.text) != len(entry.text):
        return draft.text == entry.text
    mine, other = (json.dumps(json.loads(text), sort_keys=True) for text in (draft.text, entry.text))
    return mine == other


def _has_same_metadata(draft: Draft, entry: Entry) -> bool:
    """Compare metadata; a version property that only one side has must fit the version of the entry."""
    wanted, own = version_property(draft.metadata), version_property(entry.metadata)
    if (wanted is None) == (own is None):
        return draft.metadata == entry.metadata
    if wanted is not None and wanted != str(entry.version):
        return False
    return _without_version(draft.metadata) == _without_version(entry.metadata)


def version_property(metadata: Metadata | None) -> str | None:
    """Return the version that the metadata of a schema names."""
    return None if metadata is None else (metadata.properties or {}).get(VERSION_PROPERTY)


def _without_version(metadata: Metadata | None) -> dict[str, object]:
    return {} if metadata is None else metadata.with_property(VERSION_PROPERTY, None).to_json()


def canonicalize(parser: SchemaParser, draft: Draft, *, normalize: bool, is_new: bool = True) -> tuple[Schema, Draft]:
    """Return the parsed schema of a draft, and the draft with the text that the registry would store."""
    schema = parser.parse(draft.subject, draft.type, draft.text, draft.references, is_new=is_new)
    if normalize:
        schema = parser.normalized(schema)
    return schema, replace(draft, text=schema.text)


# --- registering


def register(
    state: State, parser: SchemaParser, draft: Draft, *, normalize: bool = False, force: bool = False
) -> Decision:
    """Decide a registration. `force` leaves the check of compatibility out."""
    mode = state.mode(draft.subject)
    _check_mode(draft, mode)
    config = state.config(draft.subject)
    if not mode.takes_ids:
        draft = _complete(draft, config, state)
    elif not draft.text.strip():
        raise RegistryError(Code.INVALID_SCHEMA, "Empty schema")
    schema, draft = canonicalize(parser, draft, normalize=normalize and not mode.takes_ids, is_new=not mode.takes_ids)
    draft, existing = _find_existing(state, parser, schema, draft)
    if existing is not None:
        return Decision((), existing)
    if not mode.takes_ids:
        parser.require_live(draft.subject, draft.references)
    if not mode.takes_ids and not force:
        _check_compatibility(state, parser, schema, draft, config)
    return _decide_new(state, draft, mode)


def _check_mode(draft: Draft, mode: Mode) -> None:
    prefix = context_prefix(context_of(draft.subject))
    if mode.is_read_only:
        raise read_only(draft.subject, prefix)
    if (draft.id >= 0) != mode.takes_ids:
        wanted = "import" if draft.id >= 0 else "read-write"
        raise RegistryError(Code.NOT_PERMITTED, f"Subject {draft.subject} in context {prefix} is not in {wanted} mode")


def _complete(draft: Draft, config: Config, state: State) -> Draft:
    """Return the draft with what the config and the version before it add."""
    latest = state.latest(draft.subject)
    if not draft.text.strip():
        if latest is None:
            raise RegistryError(Code.INVALID_SCHEMA, "Empty schema")
        draft = replace(draft, text=latest.text, type=latest.type, references=latest.references)
    if draft.keeps_tags and latest is not None and latest.type is draft.type:
        kept = tag.find_tags(latest.type, latest.text, [tag.EVERY_TAG])
        draft = replace(draft, text=tag.change_tags(draft.type, draft.text, kept, [], is_lenient=True))
    draft = _complete_parts(draft, config, latest)
    if draft.version != NEXT_VERSION or version_property(draft.metadata) is not None:
        numbered = (draft.metadata or Metadata()).with_property(
            VERSION_PROPERTY, str(next_version(state, draft.subject))
        )
        draft = replace(draft, metadata=numbered)
    return draft


def _complete_parts(draft: Draft, config: Config, latest: Entry | None) -> Draft:
    metadata = draft.metadata or (latest.metadata if latest else None)
    metadata = config.default_metadata.merged(metadata) if config.default_metadata else metadata
    metadata = metadata.merged(config.override_metadata) if metadata else config.override_metadata
    rules = draft.rule_set or (latest.rule_set if latest else None)
    rules = config.default_rule_set.merged(rules) if config.default_rule_set else rules
    rules = rules.merged(config.override_rule_set) if rules else config.override_rule_set
    return replace(draft, metadata=metadata, rule_set=rules)


def _find_existing(state: State, parser: SchemaParser, schema: Schema, draft: Draft) -> tuple[Draft, Entry | None]:
    """Return the draft with the id that its schema has in the context, and its version in the subject, if any."""
    context = context_of(draft.subject)
    known_id = state.id_of_guid(draft.guid, context)
    if known_id is not None and draft.id in (NEW_ID, known_id):
        entry = state.entry_of_id(known_id, context, draft.subject)
        if draft.version == NEXT_VERSION and entry is not None and not entry.is_deleted:
            return draft, entry
        draft = replace(draft, id=known_id)
    if draft.version == NEXT_VERSION:
        for entry in reversed(state.versions(draft.subject)):
            if draft.id in (NEW_ID, entry.id) and _is_same(schema, draft, entry, parser):
                return draft, entry
    return draft, None


def _check_compatibility(state: State, parser: SchemaParser, schema: Schema, draft: Draft, config: Config) -> None:
    found = compatibility.problems(schema, draft.metadata, state.versions(draft.subject), config, parser)
    if found:
        raise RegistryError(
            Code.INCOMPATIBLE_SCHEMA,
            "Schema being registered is incompatible with an earlier schema for subject "
            f'"{draft.subject}", details: [{", ".join(found)}]',
        )


def next_version(state: State, subject: str) -> int:
    """Return the number of the next version of a subject; deleted versions keep theirs."""
    return max((entry.version for entry in state.versions(subject, with_deleted=True)), default=0) + 1


def _decide_new(state: State, draft: Draft, mode: Mode) -> Decision:
    context = context_of(draft.subject)
    following = next_version(state, draft.subject)
    version = draft.version if draft.version > 0 else following
    if version != following and not mode.takes_ids:
        raise RegistryError(
            Code.INVALID_SCHEMA, f"Version {version} is not one more than the last version, which is {following - 1}"
        )
    schema_id = draft.id if draft.id >= 0 else state.max_id(context) + 1
    _check_id_is_free(state, schema_id, draft, context)
    entry = Entry(
        subject=draft.subject,
        version=version,
        id=schema_id,
        type=draft.type,
        text=draft.text,
        references=draft.references,
        metadata=draft.metadata,
        rule_set=draft.rule_set,
    )
    changes = []
    overwritten = state.find(draft.subject, version, with_deleted=True)
    if overwritten is not None and overwritten.id != schema_id:
        changes.append(keep_ids(state))
    if context != DEFAULT_CONTEXT and not state.has_context(context):
        changes.append(Change(Kind.CONTEXT, context, value=0))
    changes += [
        Change(Kind.SCHEMA, old.subject, old.version)
        for old in state.versions(draft.subject, with_deleted=True)
        if old.is_deleted and old.id == schema_id and old.version < version and _is_unreferenced(state, old)
    ]
    return Decision((*changes, Change(Kind.SCHEMA, entry.subject, entry.version, entry)), entry)


def _is_unreferenced(state: State, entry: Entry) -> bool:
    return not state.referrers((entry.subject, entry.version), with_deleted=True)


def _check_id_is_free(state: State, schema_id: int, draft: Draft, context: str) -> None:
    known = state.entry_of_id(schema_id, context)
    guid = state.former_guid(schema_id, context) if known is None else known.guid
    if guid is not None and guid != draft.guid:
        raise RegistryError(
            Code.NOT_PERMITTED,
            f"Overwrite new schema with id {schema_id} in context {context_prefix(context)} is not permitted.",
        )

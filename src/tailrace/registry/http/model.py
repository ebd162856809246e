"""The bodies of requests and answers, from which the OpenAPI document is made."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field

from tailrace.registry.core.entity import (
    VERSION_PROPERTY,
    Config,
    Entity,
    Int32,
    Metadata,
    RuleSet,
    SchemaReference,
)
from tailrace.registry.core.record import Entry
from tailrace.registry.core.register import NEW_ID, NEXT_VERSION, Draft
from tailrace.registry.core.removal import LATEST
from tailrace.registry.core.tag import SchemaTags, change_tags, find_tags
from tailrace.schema.language import SchemaType
from tailrace.web.member import Items

Flag = Annotated[bool, BeforeValidator(lambda value: str(value).lower() == "true")]
"""A query parameter that is false unless it is the word true."""


class SchemaRequest(Entity):
    """A schema that a client registers, looks up or checks."""

    schema_: str | None = Field(default=None, alias="schema", description="The text of the schema.")
    schema_type: str | None = Field(default=None, description="AVRO, JSON or PROTOBUF; AVRO if it is missing.")
    references: Items[SchemaReference] | None = None
    metadata: Metadata | None = None
    rule_set: RuleSet | None = None
    version: Int32 | None = Field(default=None, description="The version to register it as; the next if it is missing.")
    id: Int32 | None = Field(default=None, description="The id of the schema, in IMPORT mode only.")
    schema_tags_to_add: Items[SchemaTags] | None = None
    schema_tags_to_remove: Items[SchemaTags] | None = None
    propagate_schema_tags: bool | None = Field(
        default=None, description="Whether to keep the tags of the last version."
    )

    def to_draft(self, subject: str, kind: SchemaType) -> Draft:
        """Return the request for the registry's decisions. Raises `RegistryError` if a part is invalid."""
        draft = self._to_draft(subject, kind)
        if not self.schema_tags_to_add and not self.schema_tags_to_remove:
            return draft
        text = change_tags(kind, draft.text, self.schema_tags_to_add or [], self.schema_tags_to_remove or [])
        return replace(draft, text=text, version=draft.version or LATEST)

    def _to_draft(self, subject: str, kind: SchemaType) -> Draft:
        return Draft(
            subject=subject,
            text=self.schema_ or "",
            type=kind,
            references=tuple(each.to_reference() for each in self.references or ()),
            metadata=self.metadata,
            rule_set=self.rule_set,
            version=NEXT_VERSION if self.version is None else self.version,
            id=NEW_ID if self.id is None else self.id,
            keeps_tags=bool(self.propagate_schema_tags),
        )


class TagRequest(Entity):
    """The tags, metadata and rules that make a new version of a schema."""

    new_version: Int32 | None = Field(default=None, description="The version to register; the next if it is missing.")
    tags_to_add: Items[SchemaTags] | None = None
    tags_to_remove: Items[SchemaTags] | None = None
    metadata: Metadata | None = None
    rule_set: RuleSet | None = None
    rules_to_merge: RuleSet | None = None
    rules_to_remove: Items[str] | None = None

    def to_draft(self, entry: Entry, latest: Entry | None) -> Draft:
        """Return the new version of a schema. Raises `RegistryError` if the schema has no such places."""
        metadata = self.metadata or entry.metadata or Metadata()
        return Draft(
            subject=entry.subject,
            text=change_tags(entry.type, entry.text, self.tags_to_add or [], self.tags_to_remove or []),
            type=entry.type,
            references=entry.references,
            metadata=metadata.with_property(VERSION_PROPERTY, str(self.new_version or NEXT_VERSION)),
            rule_set=self._rules(latest),
            version=self.new_version or NEXT_VERSION,
        )

    def _rules(self, latest: Entry | None) -> RuleSet | None:
        if self.rules_to_merge is None and self.rules_to_remove is None:
            return self.rule_set
        rules = latest.rule_set if latest else None
        rules = rules.merged(self.rules_to_merge) if rules else self.rules_to_merge
        return rules.without(self.rules_to_remove or ()) if rules else None


class ConfigRequest(Entity):
    """The members of a config to change; null removes one."""

    alias: str | None = None
    normalize: bool | None = None
    validate_fields: bool | None = None
    validate_new_schemas: bool | None = None
    validate_rules: bool | None = None
    compatibility: str | None = Field(default=None, description="A level: NONE, BACKWARD, FORWARD, FULL, …_TRANSITIVE.")
    compatibility_policy: str | None = Field(default=None, description="STRICT or LENIENT, for JSON Schema.")
    compatibility_group: str | None = None
    default_metadata: Metadata | None = None
    override_metadata: Metadata | None = None
    default_rule_set: RuleSet | None = None
    override_rule_set: RuleSet | None = None


class ModeRequest(Entity):
    """The mode to set; null removes it."""

    mode: str | None = None


class Answer(Entity):
    """The JSON object of an answer, whose members are left out if they are empty."""

    model_config = ConfigDict(extra="allow")


class ErrorAnswer(Entity):
    """What went wrong."""

    model_config = ConfigDict(alias_generator=None)

    error_code: int
    message: str


class SchemaAnswer(Entity):
    """A registered schema."""

    subject: str | None = None
    version: int | None = None
    id: int | None = None
    guid: str | None = None
    schema_type: str | None = None
    references: list[SchemaReference] | None = None
    metadata: Metadata | None = None
    rule_set: RuleSet | None = None
    schema_: str | None = Field(default=None, alias="schema")
    schema_tags: list[SchemaTags] | None = None
    aliases: list[str] | None = None
    max_id: int | None = None
    ts: int | None = None
    deleted: bool | None = None


class CompatibilityAnswer(Entity):
    """Whether a schema is compatible, and why not."""

    model_config = ConfigDict(alias_generator=None)

    is_compatible: bool
    messages: list[str] | None = None


class ConfigAnswer(Config):
    """A config."""


class ModeAnswer(Entity):
    """A mode."""

    mode: str | None = None


class SubjectVersion(Entity):
    """A version of a subject."""

    subject: str
    version: int


class ContextId(Entity):
    """An id in a context."""

    context: str
    id: int


class HealthAnswer(Entity):
    """Whether a registry serves, and which one is the leader."""

    model_config = ConfigDict(alias_generator=None)

    healthy: bool
    leader: str | None
    is_leader: bool
    reason: str | None = Field(description="Why the registry knows no leader, if that is not an election under way.")


def describe(entry: Entry, text: str | None = None) -> dict[str, Any]:
    """Return a version of a subject for an answer, with its text in another form if that is given."""
    members: dict[str, Any] = {
        "subject": entry.subject,
        "version": entry.version,
        "id": entry.id,
        "guid": entry.guid,
        "schemaType": entry.type,
    }
    if entry.references:
        members["references"] = [
            {"name": each.name, "subject": each.subject, "version": each.version} for each in entry.references
        ]
    for name, part in (("metadata", entry.metadata), ("ruleSet", entry.rule_set)):
        if part is not None:
            members[name] = part.to_json()
    members["schema"] = entry.text if text is None else text
    return members


def describe_stored(entry: Entry, text: str | None = None) -> dict[str, Any]:
    """Return the same with the time at which the version was written, and whether it is deleted."""
    written = {} if entry.timestamp_ms is None else {"ts": entry.timestamp_ms}
    return {**describe(entry, text), **written, "deleted": entry.is_deleted}


def with_tags(members: dict[str, Any], entry: Entry, wanted: Sequence[str]) -> dict[str, Any]:
    """Return an object with the places of the schema that have some tags, if a client asks for them."""
    found = find_tags(entry.type, entry.text, wanted) if wanted else []
    return {**members, "schemaTags": [each.to_json() for each in found]} if found else members


def without(members: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return an object without some members."""
    return {name: member for name, member in members.items() if name not in names}

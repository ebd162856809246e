"""Metadata, rules, configs and modes, as clients send them and as the topic keeps them.

The registry stores and returns metadata and rules; the clients' serializers carry the rules out.
"""

import hashlib
import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from tailrace.registry.core.error import Code, RegistryError
from tailrace.schema.language import CompatibilityPolicy, Reference
from tailrace.web.member import Items, Members

Int32 = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]

VERSION_PROPERTY = "confluent:version"
"""The property that makes two equal schemas different versions of a subject."""

_RULE_NAME = re.compile(r"[^\W\d][\w-]*")


class Entity(BaseModel):
    """A JSON object with camelCase names, whose unknown members are ignored."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True, coerce_numbers_to_str=True
    )

    def to_json(self) -> dict[str, Any]:
        """Return the object without members that are null or empty."""
        found: dict[str, Any] = _without_empty(self.model_dump(mode="json", by_alias=True, exclude_none=True))
        return found


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        cleaned = {name: _without_empty(member) for name, member in value.items()}
        return {name: member for name, member in cleaned.items() if member not in (None, "", [], {})}
    return [_without_empty(member) for member in value] if isinstance(value, list) else value


class Metadata(Entity):
    """Properties and tags of a schema that no serializer needs."""

    tags: Members[Items[str]] | None = None
    properties: Members[str] | None = None
    sensitive: Items[str] | None = None

    def model_post_init(self, _context: Any) -> None:
        """Sort everything: the order of members has no meaning, and the GUID of a schema depends on it."""
        values = self.__dict__
        if self.tags is not None:
            values["tags"] = {path: sorted(set(tags)) for path, tags in sorted(self.tags.items())}
        if self.properties is not None:
            values["properties"] = dict(sorted(self.properties.items()))
        if self.sensitive is not None:
            values["sensitive"] = sorted(set(self.sensitive))

    def with_property(self, name: str, value: str | None) -> Self:
        """Return the metadata with one property set, or without it."""
        rest = {key: text for key, text in (self.properties or {}).items() if key != name}
        return self.model_copy(
            update={"properties": rest if value is None else dict(sorted({**rest, name: value}.items()))}
        )

    def merged(self, other: Self | None) -> Self:
        """Return this metadata with what `other` has on top."""
        if other is None:
            return self
        return type(self)(
            tags={**(self.tags or {}), **(other.tags or {})} or None,
            properties={**(self.properties or {}), **(other.properties or {})} or None,
            sensitive=[*(self.sensitive or ()), *(other.sensitive or ())] or None,
        )

    def feed(self, digest: "hashlib._Hash") -> None:
        """Add the metadata to the digest of a schema."""
        for path, tags in (self.tags or {}).items():
            _feed(digest, path, *tags)
        for name, value in (self.properties or {}).items():
            _feed(digest, name, value)
        _feed(digest, *(self.sensitive or ()))


class RuleKind(StrEnum):
    """Whether a rule changes a message or only judges it."""

    TRANSFORM = "TRANSFORM"
    CONDITION = "CONDITION"


class RuleMode(StrEnum):
    """When a serializer carries a rule out."""

    UPGRADE = "UPGRADE"
    DOWNGRADE = "DOWNGRADE"
    UPDOWN = "UPDOWN"
    WRITE = "WRITE"
    READ = "READ"
    WRITEREAD = "WRITEREAD"


MIGRATION_MODES = frozenset({RuleMode.UPGRADE, RuleMode.DOWNGRADE, RuleMode.UPDOWN})
_TWO_WAY_MODES = frozenset({RuleMode.UPDOWN, RuleMode.WRITEREAD})


class Rule(Entity):
    """One rule, which the clients' serializers carry out."""

    name: str | None = None
    doc: str | None = None
    kind: RuleKind | None = None
    mode: RuleMode | None = None
    type: str | None = None
    tags: Items[str] | None = None
    params: Members[str] | None = None
    expr: str | None = None
    on_success: str | None = None
    on_failure: str | None = None
    disabled: bool = False

    def model_post_init(self, _context: Any) -> None:
        """Sort tags and parameters, on which the GUID of a schema depends."""
        if self.tags is not None:
            self.__dict__["tags"] = sorted(set(self.tags))
        if self.params is not None:
            self.__dict__["params"] = dict(sorted(self.params.items()))

    def problem(self, *, is_migration: bool) -> str | None:
        """Return what is wrong with the rule, if anything."""
        if not self.name:
            return "a rule has no name"
        if not _RULE_NAME.fullmatch(self.name):
            return f"rule name {self.name!r} is not a letter or _ followed by letters, digits, _ and -"
        if self.type is None:
            return f"rule {self.name} has no type"
        if self.mode is None or (self.mode in MIGRATION_MODES) != is_migration:
            modes = "UPGRADE, DOWNGRADE or UPDOWN" if is_migration else "WRITE, READ or WRITEREAD"
            return f"rule {self.name} has mode {self.mode}, and rules of its kind have {modes}"
        if self.mode not in _TWO_WAY_MODES and any(
            "," in (action or "") for action in (self.on_success, self.on_failure)
        ):
            return f"rule {self.name} has several actions, which only WRITEREAD and UPDOWN can have"
        return None

    def feed(self, digest: "hashlib._Hash") -> None:
        """Add the rule to the digest of a schema."""
        _feed(digest, self.name, self.doc, self.kind, self.mode, self.type, *(self.tags or ()))
        for name, value in (self.params or {}).items():
            _feed(digest, name, value)
        _feed(digest, self.expr, self.on_success, self.on_failure)
        if self.disabled:
            digest.update(b"\x01")


class RuleSet(Entity):
    """The rules of a schema."""

    migration_rules: Items[Rule] | None = None
    domain_rules: Items[Rule] | None = None
    encoding_rules: Items[Rule] | None = None
    enable_at: str | None = None

    @property
    def rules(self) -> list[Rule]:
        """All rules, of every kind."""
        return [*(self.migration_rules or ()), *(self.domain_rules or ()), *(self.encoding_rules or ())]

    def problem(self) -> str | None:
        """Return what is wrong with the rules, if anything."""
        names: set[str | None] = set()
        for kind, rules in enumerate((self.migration_rules, self.domain_rules, self.encoding_rules)):
            for rule in rules or ():
                if rule.name in names:
                    return f"two rules have the name {rule.name!r}"
                names.add(rule.name)
                if problem := rule.problem(is_migration=kind == 0):
                    return problem
        return None

    def merged(self, other: Self | None) -> Self:
        """Return these rules with those of `other` added, which replace rules of the same name."""
        if other is None:
            return self
        return type(self)(
            migration_rules=_merged_rules(self.migration_rules, other.migration_rules),
            domain_rules=_merged_rules(self.domain_rules, other.domain_rules),
            encoding_rules=_merged_rules(self.encoding_rules, other.encoding_rules),
            enable_at=other.enable_at or self.enable_at,
        )

    def without(self, names: Sequence[str]) -> Self:
        """Return the rules without those of some names."""
        parts = {"migration_rules": self.migration_rules, "domain_rules": self.domain_rules}
        parts["encoding_rules"] = self.encoding_rules
        left = {part: [rule for rule in rules if rule.name not in names] for part, rules in parts.items() if rules}
        return self.model_copy(update=left)

    def feed(self, digest: "hashlib._Hash") -> None:
        """Add the rules to the digest of a schema."""
        for rule in self.rules:
            rule.feed(digest)
        _feed(digest, self.enable_at)


def _merged_rules(old: list[Rule] | None, new: list[Rule] | None) -> list[Rule] | None:
    names = {rule.name for rule in new or ()}
    return [*(rule for rule in old or () if rule.name not in names), *(new or ())] or None


class Level(StrEnum):
    """Which earlier versions of a subject a new version must be compatible with, and in which direction."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"


class Config(Entity):
    """What is configured for a subject, a context or everything. A member that is None is not configured there."""

    alias: str | None = None
    normalize: bool | None = None
    validate_fields: bool | None = None
    validate_new_schemas: bool | None = None
    validate_rules: bool | None = None
    compatibility_level: Level | None = None
    compatibility_policy: CompatibilityPolicy | None = None
    compatibility_group: str | None = None
    default_metadata: Metadata | None = None
    override_metadata: Metadata | None = None
    default_rule_set: RuleSet | None = None
    override_rule_set: RuleSet | None = None


class Mode(StrEnum):
    """What may be changed in a scope. IMPORT takes schemas with the ids that they have elsewhere."""

    READWRITE = "READWRITE"
    READONLY = "READONLY"
    READONLY_OVERRIDE = "READONLY_OVERRIDE"
    IMPORT = "IMPORT"
    FORWARD = "FORWARD"

    @property
    def is_read_only(self) -> bool:
        """Whether nothing may be changed."""
        return self in (Mode.READONLY, Mode.READONLY_OVERRIDE)

    @property
    def takes_ids(self) -> bool:
        """Whether clients bring the ids of schemas with them."""
        return self in (Mode.IMPORT, Mode.FORWARD)


class SchemaReference(Entity):
    """A reference as clients write it; version -1 is the latest."""

    name: str | None = None
    subject: str | None = None
    version: Int32 | None = None

    def to_reference(self) -> Reference:
        """Return the reference for the rest of the registry. Raises `RegistryError` if a part is missing."""
        if not self.name or not self.subject or self.version is None:
            raise RegistryError(
                Code.INVALID_SCHEMA,
                f"Invalid schema reference: name {self.name!r}, subject {self.subject!r} and version {self.version} "
                "must all be given",
            )
        return Reference(self.name, self.subject, self.version)


def _feed(digest: "hashlib._Hash", *texts: str | None) -> None:
    for text in texts:
        if text is not None:
            digest.update(text.encode())

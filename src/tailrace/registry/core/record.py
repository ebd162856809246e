"""Records of the topic `_schemas`, in the JSON that Confluent's registry writes and reads.

A record changes one thing: a version of a subject, a config, a mode. Its key names the thing and its value is the new
state, so that compaction keeps what the registry needs; a record without a value removes the thing.
"""

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from pydantic.alias_generators import to_camel

from tailrace.base.sentinel import INT32_MAX
from tailrace.registry.core.association import Association, AssociationKey
from tailrace.registry.core.entity import Config, Metadata, Mode, RuleSet
from tailrace.schema.language import Reference, SchemaType

_TENANT = "default"


class Kind(StrEnum):
    """What a record is about."""

    SCHEMA = "SCHEMA"
    CONFIG = "CONFIG"
    MODE = "MODE"
    DELETE_SUBJECT = "DELETE_SUBJECT"
    CLEAR_SUBJECT = "CLEAR_SUBJECT"
    CONTEXT = "CONTEXT"
    ASSOC = "ASSOC"
    NOOP = "NOOP"
    """Nothing, to Confluent's registry. Ours keeps the highest id of each context in it, so that the id of a schema
    that was deleted for good is not given to another one after its records have been compacted away."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One version of a subject."""

    subject: str
    version: int
    id: int
    type: SchemaType
    text: str
    references: tuple[Reference, ...] = ()
    metadata: Metadata | None = None
    rule_set: RuleSet | None = None
    is_deleted: bool = False
    timestamp_ms: int | None = None

    @property
    def guid(self) -> str:
        """The id of the schema, its metadata and its rules, equal in every registry."""
        return guid_of(self.text, self.references, self.metadata, self.rule_set)

    def deleted(self) -> "Entry":
        """Return the version as softly deleted."""
        return replace(self, is_deleted=True)


Value = Entry | Config | Mode | Association | int | Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Change:
    """One record. `subject` is a context where the kind says so, or None for what holds everywhere."""

    kind: Kind
    subject: str | None = None
    version: int | None = None
    value: Value | None = None
    key: AssociationKey | None = None


def guid_of(
    text: str, references: Sequence[Reference] = (), metadata: Metadata | None = None, rule_set: RuleSet | None = None
) -> str:
    """Return the GUID of a schema: a digest of all that makes it different from another one."""
    digest = hashlib.md5(text.encode(), usedforsecurity=False)
    for reference in references:
        digest.update(reference.name.encode())
        digest.update(reference.subject.encode())
        digest.update(reference.version.to_bytes(4, "big", signed=True))
    for part in (metadata, rule_set):
        if part is not None:
            digest.update(b"\x01")
            part.feed(digest)
    return str(uuid.UUID(bytes=digest.digest()))


# --- encoding


def encode(change: Change) -> tuple[bytes, bytes | None]:
    """Return the key and the value of a record."""
    value = None if change.value is None else _dump(_without_null_subject(_value_members(change)))
    return _dump(_without_null_subject(_key_members(change))), value


def _without_null_subject(members: dict[str, Any]) -> dict[str, Any]:
    """Leave the subject out of what holds everywhere, as Confluent does: compaction knows a key by its bytes."""
    return {name: member for name, member in members.items() if name != "subject" or member is not None}


def _key_members(change: Change) -> dict[str, Any]:
    match change.kind:
        case Kind.NOOP:
            return {"keytype": change.kind, "magic": 0}
        case Kind.CONTEXT:
            return {"keytype": change.kind, "tenant": _TENANT, "context": change.subject, "magic": 0}
        case Kind.SCHEMA:
            return {"keytype": change.kind, "subject": change.subject, "version": change.version, "magic": 1}
        case Kind.ASSOC if change.key is not None:
            names = {to_camel(name): value for name, value in change.key._asdict().items()}
            return {"keytype": change.kind, "tenant": _TENANT, **names, "subject": change.subject, "magic": 0}
    return {"keytype": change.kind, "subject": change.subject, "magic": 0}


def _value_members(change: Change) -> dict[str, Any]:
    match change.value:
        case Entry() as entry:
            return _entry_members(entry)
        case Config() as config:
            return {"subject": change.subject, **config.to_json()}
        case Association() as association:
            return {"tenant": _TENANT, **association.to_record()}
        case Mode() as mode:
            return {"subject": change.subject, "mode": mode}
        case int() as version if change.kind is Kind.DELETE_SUBJECT:
            return {"subject": change.subject, "version": version}
        case Mapping() as ids:
            return {"maxIds": dict(ids)}
    if change.kind is Kind.CONTEXT:
        return {"tenant": _TENANT, "context": change.subject}
    return {"subject": change.subject}


def _entry_members(entry: Entry) -> dict[str, Any]:
    members: dict[str, Any] = {"subject": entry.subject, "version": entry.version, "id": entry.id}
    members["schemaType"] = entry.type
    if entry.references:
        members["references"] = [
            {"name": each.name, "subject": each.subject, "version": each.version} for each in entry.references
        ]
    if entry.metadata is not None:
        members["metadata"] = entry.metadata.to_json()
    if entry.rule_set is not None:
        members["ruleSet"] = entry.rule_set.to_json()
    return members | {"schema": entry.text, "deleted": entry.is_deleted}


def _dump(members: dict[str, Any]) -> bytes:
    return json.dumps(members, ensure_ascii=False, separators=(",", ":")).encode()


# --- decoding


def decode(key: bytes, value: bytes | None, timestamp_ms: int | None = None) -> Change:
    """Return what a record says; raises ValueError if it is of no known kind."""
    try:
        names = json.loads(key)
        change = Change(Kind(names["keytype"]), names.get("context", names.get("subject")), names.get("version"))
        if change.kind is Kind.ASSOC:
            place = AssociationKey(*(names[to_camel(name)] for name in AssociationKey._fields))
            change = replace(change, key=place)
        if not all(isinstance(text, str | None) for text in (change.subject, *(change.key or ()))):
            raise TypeError("a name is not a text")
        if not isinstance(change.version, int | None):
            raise TypeError("the version is not a number")
        if value is None:
            return change
        found = _read_value(change, json.loads(value), timestamp_ms)
        if isinstance(found, Entry) and (found.subject, found.version) != (change.subject, change.version):
            raise ValueError(f"the key names version {change.version} of {change.subject}, and the value another one")
        return replace(change, value=found)
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(f"not a record of a schema registry: {error}") from error


def _read_value(change: Change, members: dict[str, Any], timestamp_ms: int | None) -> Value:
    match change.kind:
        case Kind.SCHEMA:
            return _read_entry(members, timestamp_ms)
        case Kind.CONFIG:
            return Config.model_validate(members)
        case Kind.MODE:
            return Mode(members["mode"])
        case Kind.ASSOC:
            return Association.model_validate({**members, "updateTs": timestamp_ms})
        case Kind.DELETE_SUBJECT:
            return int(members["version"])
        case Kind.NOOP:
            return {str(context): int(number) for context, number in members.get("maxIds", {}).items()}
    return 0


def _read_entry(members: dict[str, Any], timestamp_ms: int | None) -> Entry:
    metadata, rule_set = members.get("metadata"), members.get("ruleSet")
    texts = [members["subject"], members["schema"]]
    texts += [each[name] for each in members.get("references") or () for name in ("name", "subject")]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("a name or a schema is not a text")
    entry = Entry(
        subject=members["subject"],
        version=int(members["version"]),
        id=int(members["id"]),
        type=SchemaType(members.get("schemaType") or SchemaType.AVRO),
        text=members["schema"],
        references=tuple(
            Reference(each["name"], each["subject"], int(each["version"])) for each in members.get("references") or ()
        ),
        metadata=None if metadata is None else Metadata.model_validate(metadata),
        rule_set=None if rule_set is None else RuleSet.model_validate(rule_set),
        is_deleted=bool(members.get("deleted")),
        timestamp_ms=timestamp_ms,
    )
    if not 0 < entry.version <= INT32_MAX or not 0 <= entry.id <= INT32_MAX:
        raise ValueError(f"version {entry.version} or id {entry.id} is out of range")
    guid_of(entry.text, entry.references, entry.metadata, entry.rule_set)  # raises if it cannot be made
    return entry

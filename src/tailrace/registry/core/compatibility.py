"""Whether a new schema of a subject is compatible with its earlier versions."""

from collections.abc import Iterable, Sequence

from tailrace.registry.core import reserved
from tailrace.registry.core.entity import Config, Level, Metadata
from tailrace.registry.core.parser import SchemaParser
from tailrace.registry.core.record import Entry
from tailrace.schema.language import CompatibilityPolicy, Difference, Schema

_TRANSITIVE = frozenset({Level.BACKWARD_TRANSITIVE, Level.FORWARD_TRANSITIVE, Level.FULL_TRANSITIVE})
_READS_OLD = frozenset({Level.BACKWARD, Level.BACKWARD_TRANSITIVE, Level.FULL, Level.FULL_TRANSITIVE})
_READ_BY_OLD = frozenset({Level.FORWARD, Level.FORWARD_TRANSITIVE, Level.FULL, Level.FULL_TRANSITIVE})


def problems(
    schema: Schema, metadata: Metadata | None, earlier: Sequence[Entry], config: Config, parser: SchemaParser
) -> list[str]:
    """Return why a schema breaks its reserved fields, or the first of the earlier versions (oldest first).

    A compatibility group restricts the comparison to versions that have the same value of one metadata property.
    """
    level = config.compatibility_level or Level.BACKWARD
    found = reserved.problems(schema, metadata, earlier[-1] if earlier else None) if config.validate_fields else []
    group = config.compatibility_group
    compared = [
        each for each in earlier if group is None or _property(each.metadata, group) == _property(metadata, group)
    ]
    found += _first_incompatibility(schema, compared, level, config, parser)
    validates = "true" if config.validate_fields else "false"
    return [*found, f"{{validateFields: '{validates}', compatibility: '{level}'}}"] if found else []


def _first_incompatibility(
    schema: Schema, earlier: Sequence[Entry], level: Level, config: Config, parser: SchemaParser
) -> list[str]:
    policy = config.compatibility_policy or CompatibilityPolicy.STRICT
    for entry in reversed(earlier if level in _TRANSITIVE else earlier[-1:]):
        if found := _problems_with(schema, parser.parse_entry(entry), level, policy):
            return [*found, f"{{oldSchemaVersion: {entry.version}}}", f"{{oldSchema: '{entry.text}'}}"]
    return []


def _property(metadata: Metadata | None, name: str) -> str | None:
    return None if metadata is None else (metadata.properties or {}).get(name)


def _problems_with(new: Schema, old: Schema, level: Level, policy: CompatibilityPolicy) -> list[str]:
    if level is Level.NONE:
        return []
    if new.type is not old.type:
        return [f"The new schema is of type {new.type} and the old one of type {old.type}"]
    found: list[str] = []
    if level in _READS_OLD:
        found += _describe(new.differences(old, policy))
    if level in _READ_BY_OLD:
        found += _describe(old.differences(new, policy))
    return found


def _describe(differences: Iterable[Difference]) -> list[str]:
    """Return differences in the notation of Confluent's registry, which tools take apart."""
    return [
        f"{{errorType:'{each.kind}', description:'{each.message}', additionalInfo:'{each.path}'}}"
        for each in differences
    ]

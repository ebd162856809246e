"""Fields that the metadata of a schema reserves: a schema may neither use them nor stop reserving them.

A subject whose config has `validateFields` checks them. The property `confluent:reserved` holds their names, with
commas between them.
"""

import json
from typing import Any

from tailrace.registry.core.entity import Metadata
from tailrace.registry.core.record import Entry
from tailrace.schema.language import Schema, SchemaType
from tailrace.schema.protobuf.schema import ProtobufSchema

RESERVED_PROPERTY = "confluent:reserved"


def problems(schema: Schema, metadata: Metadata | None, previous: Entry | None) -> list[str]:
    """Return the reserved fields that a new version uses or no longer reserves, in words."""
    reserved = _reserved(metadata)
    dropped = _reserved(previous.metadata) - reserved if previous is not None else set()
    used = reserved & _top_level_fields(schema) if reserved else set()
    return [
        *(
            f"{{errorType:'RESERVED_FIELD_REMOVED', description:'The new schema no longer reserves field {name}'}}"
            for name in sorted(dropped)
        ),
        *(
            "{errorType:'FIELD_CONFLICTS_WITH_RESERVED_FIELD', "
            f"description:'The new schema has field {name}, which its metadata reserves'}}"
            for name in sorted(used)
        ),
    ]


def _reserved(metadata: Metadata | None) -> set[str]:
    names = "" if metadata is None else (metadata.properties or {}).get(RESERVED_PROPERTY, "")
    return {name.strip() for name in names.split(",") if name.strip()}


def _top_level_fields(schema: Schema) -> set[str]:
    if isinstance(schema, ProtobufSchema):
        return {field.name for message in schema.counted_descriptor.message_type for field in message.field}
    document: Any = json.loads(schema.text)
    if not isinstance(document, dict):
        return set()
    if schema.type is SchemaType.AVRO:
        return {field["name"] for field in document.get("fields", ())}
    properties = document.get("properties")
    return set(properties) if isinstance(properties, dict) else set()

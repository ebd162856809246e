"""Schemas on every side: their languages, the client of a registry, and codecs for keys and values.

    from tailrace.schema import AvroCodec, Registry

    registry = Registry("http://localhost:8081")
    values = AvroCodec(registry, "page_views", schema=text)
    producer.send("page_views", value=values.encode({"user": 7, "page": "/pricing"}))

The names are imported on first use, because each language needs packages of its own.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tailrace.schema.codec.avro import AvroCodec as AvroCodec
    from tailrace.schema.codec.json_value import JsonCodec as JsonCodec
    from tailrace.schema.codec.protobuf import ProtobufCodec as ProtobufCodec
    from tailrace.schema.error import CodecError as CodecError
    from tailrace.schema.error import RegistryError as RegistryError
    from tailrace.schema.error import RegistryUnavailable as RegistryUnavailable
    from tailrace.schema.language import Reference as Reference
    from tailrace.schema.language import SchemaType as SchemaType
    from tailrace.schema.registry import Registry as Registry
    from tailrace.schema.stored import NewSchema as NewSchema
    from tailrace.schema.stored import StoredSchema as StoredSchema
    from tailrace.schema.subject_name import SubjectName as SubjectName

_HOMES = {
    "AvroCodec": "tailrace.schema.codec.avro",
    "CodecError": "tailrace.schema.error",
    "JsonCodec": "tailrace.schema.codec.json_value",
    "NewSchema": "tailrace.schema.stored",
    "ProtobufCodec": "tailrace.schema.codec.protobuf",
    "Reference": "tailrace.schema.language",
    "Registry": "tailrace.schema.registry",
    "RegistryError": "tailrace.schema.error",
    "RegistryUnavailable": "tailrace.schema.error",
    "SchemaType": "tailrace.schema.language",
    "StoredSchema": "tailrace.schema.stored",
    "SubjectName": "tailrace.schema.subject_name",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tailrace.schema' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)

"""Protobuf schemas: parsing, canonical text, normal form, descriptors and compatibility."""

from tailrace.schema.protobuf.schema import ProtobufSchema, parse

__all__ = ["ProtobufSchema", "parse"]

"""Avro schemas: parsing, the text that is stored, the normal form and compatibility."""

from tailrace.schema.avro.schema import AvroSchema, parse

__all__ = ["AvroSchema", "parse"]

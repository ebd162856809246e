"""Avro schemas as clients need them: the types that a text describes."""

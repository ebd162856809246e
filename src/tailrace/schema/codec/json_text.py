"""JSON texts with a JSON Schema."""

import json
from typing import Any

from tailrace.schema.error import CodecError
from tailrace.schema.json_schema import InvalidValue, JsonSchema, validator


def read_value(text: bytes, schema: JsonSchema | None) -> Any:
    """Return the value of a text. Raise `CodecError` if it is not JSON, or if a schema does not allow it."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CodecError(f"not valid JSON: {error}") from None
    if schema is not None:
        check_value(value, schema)
    return value


def check_value(value: Any, schema: JsonSchema) -> None:
    """Raise `CodecError` if a schema does not allow a value."""
    try:
        validator(schema).validate(value)
    except InvalidValue as error:
        raise CodecError(f"does not fit the schema: {error}") from None

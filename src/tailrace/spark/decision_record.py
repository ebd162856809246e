"""The values of records in the topic of decisions: JSON with the number of its format."""

import json
from collections.abc import Callable
from typing import Any, TypeVar

from tailrace.client.transaction.state import PreparedTransaction
from tailrace.spark.error import UnreadableRecord

T = TypeVar("T")

_FORMAT = 1


def encode_record(**fields: Any) -> bytes:
    """Return the value of a record with these fields."""
    return json.dumps({"format": _FORMAT, **fields}, separators=(",", ":")).encode()


def decode_record(value: bytes, kind: str, build: Callable[[Any], T]) -> T:
    """Return what `build` makes of a record's fields; raises `UnreadableRecord` if the record is not of this kind."""
    try:
        fields = json.loads(value)
        if fields["format"] != _FORMAT:
            raise UnreadableRecord(f"a newer version wrote a {kind} of format {fields['format']}")
        return build(fields)
    except (ValueError, KeyError, TypeError) as error:
        raise UnreadableRecord(f"not a {kind}: {error}") from error


def read_transactions(named: Any) -> tuple[PreparedTransaction, ...]:
    """Return transactions as JSON has them; raises `ValueError` or `TypeError` for anything else."""
    return tuple(PreparedTransaction(str(name), int(id_), int(epoch)) for name, id_, epoch in named)

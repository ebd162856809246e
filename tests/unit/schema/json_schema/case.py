"""The form of the tables of compatibility."""

from dataclasses import dataclass, field
from typing import Any

STRING = {"type": "string"}
INTEGER = {"type": "integer"}
NUMBER = {"type": "number"}
BOOLEAN = {"type": "boolean"}
NULL = {"type": "null"}
MODERN = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True)
class Case:
    """Two versions of a schema, and each change with its path that breaks a reader.

    `backward` is what keeps the new schema from reading old values, `forward` the old schema from reading new values;
    both are for the strict policy, and the lenient one differs only where its list is given. Confluent's registry 8.3.1
    gave the same answers to all of them except where `unlike_confluent` says how it differs. It ran with json-sKema
    0.29 instead of 0.30 and a visit of unevaluated schemas added, which 0.30 has.
    """

    name: str
    old: Any
    new: Any
    backward: list[str] = field(default_factory=list)
    forward: list[str] = field(default_factory=list)
    lenient_backward: list[str] | None = None
    lenient_forward: list[str] | None = None
    unlike_confluent: str = ""

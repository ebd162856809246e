"""The types that users and extensions have defined, each replaced by a type that `value` converts. Pure.

A domain is converted as the type below it, and an array of enums or of domains as an array of their values. Every other
type keeps its number, and is converted as a text.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tailrace.spark.connector.postgres_changes.pgoutput import Column
from tailrace.spark.connector.postgres_changes.value import ELEMENTS, HSTORE, SPARSE_VECTOR, TEXT_ARRAY, VECTOR

Types = Mapping[int, tuple[int, int]]
"""The type and the modifier that replace a type, by its number."""

EXTENSION_TYPES = {"vector": VECTOR, "halfvec": VECTOR, "sparsevec": SPARSE_VECTOR, "hstore": HSTORE}
_ARRAYS = {element: array for array, element in ELEMENTS.items()}
_NO_MODIFIER = -1


@dataclass(frozen=True, slots=True)
class DefinedType:
    """A row of the catalog: a domain has a base, an array has elements."""

    oid: int
    name: str
    base_oid: int
    modifier: int
    element_oid: int


def replace_types(defined: Iterable[DefinedType]) -> Types:
    """Return what replaces each of these types."""
    by_oid = {each.oid: each for each in defined}

    def resolve(oid: int, modifier: int = _NO_MODIFIER) -> tuple[int, int]:
        found = by_oid.get(oid)
        if found is None:
            return oid, modifier
        if found.base_oid:
            return resolve(found.base_oid, found.modifier)
        if found.element_oid:
            element_oid, element_modifier = resolve(found.element_oid)
            return _ARRAYS.get(element_oid, TEXT_ARRAY), element_modifier
        return EXTENSION_TYPES.get(found.name, oid), modifier

    return {oid: resolve(oid) for oid in by_oid}


def replaced(column: Column, types: Types) -> Column:
    """Return the column with a type that `value` converts."""
    found = types.get(column.type_oid)
    if found is None:
        return column
    oid, modifier = found
    return Column(column.name, oid, column.modifier if modifier == _NO_MODIFIER else modifier, column.is_key)

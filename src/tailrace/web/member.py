"""Types of lists and objects in request bodies, whose validation ends at the first error.

Pydantic describes each invalid element of a list and each invalid member of an object. A small body with hundreds of
thousands of them would fill the memory, and the answer names only the first.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import FailFast, WrapValidator

T = TypeVar("T")


def _validate_each(given: Any, validate: Callable[[Any], Any]) -> Any:
    if not isinstance(given, dict):
        return validate(given)
    found: dict[str, Any] = {}
    for name, member in given.items():
        found |= validate({name: member})
    return found


@dataclass(unsafe_hash=True)
class _FirstError(FailFast):
    """Pydantic's marker, which can be part of a union because it has a hash."""


Items = Annotated[list[T], _FirstError()]
"""A list."""

Members = Annotated[dict[str, T], WrapValidator(_validate_each)]
"""An object whose members have any names."""

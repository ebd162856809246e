"""The cases of the table: one request each, asked with every right."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.authorization.wire import Wire
    from tests.authorization.world import World

Undo = Callable[["World", "Wire", Any], None]
"""Brings the world back to what it was, after a request of a user and its reply."""


@dataclass(frozen=True)
class Case:
    """A request of an API in a version, and the sets of rights with which it is asked besides the common ones."""

    api: str
    version: int
    what: str
    fields: Mapping[str, Any]
    also: tuple[str, ...] = ()
    undo: Undo | None = field(default=None, compare=False)
    has_reply: bool = True

    @property
    def title(self) -> str:
        return f"{self.api} v{self.version}: {self.what}"

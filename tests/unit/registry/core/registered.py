"""A registry's state without brokers: decisions are replayed at once, as the topic would bring them back."""

import json
from collections.abc import Sequence
from typing import Any

from tailrace.registry.core.parser import SchemaParser
from tailrace.registry.core.record import Change, Entry, decode, encode
from tailrace.registry.core.register import Draft, register
from tailrace.registry.core.removal import delete_subject, delete_version
from tailrace.registry.core.state import State
from tailrace.schema.language import Reference, SchemaType


def record(*fields: str, name: str = "R") -> str:
    """Return an Avro record with string fields; `x=` gives a field a default."""
    members = []
    for field in fields:
        bare = field.removesuffix("=")
        members.append({"name": bare, "type": "string"} | ({"default": ""} if bare != field else {}))
    return json.dumps({"type": "record", "name": name, "fields": members})


class Registered:
    """The state, and every record that was written to get there."""

    def __init__(self) -> None:
        self.state = State()
        self.parser = SchemaParser(self.state)
        self.written: list[tuple[bytes, bytes | None]] = []

    def write(self, changes: Sequence[Change]) -> None:
        """Write records and replay what was written."""
        for change in changes:
            row = encode(change)
            self.written.append(row)
            self.state.replay(decode(*row))

    def register(self, subject: str, text: str, references: Sequence[Reference] = (), **details: Any) -> Entry:
        """Register a schema."""
        options = {name: details.pop(name) for name in ("normalize", "force") if name in details}
        details.setdefault("type", SchemaType.AVRO)
        draft = Draft(subject, text, references=tuple(references), **details)
        decision = register(self.state, self.parser, draft, **options)
        self.write(decision.changes)
        return decision.entry

    def delete(self, subject: str, version: int | None = None, *, is_permanent: bool = False) -> tuple[int, ...]:
        """Delete a version, or a whole subject."""
        if version is None:
            removal = delete_subject(self.state, subject, is_permanent=is_permanent)
        else:
            removal = delete_version(self.state, subject, version, is_permanent=is_permanent)
        self.write(removal.changes)
        return removal.versions

    def compacted(self) -> "Registered":
        """Return the state that a new process reads after compaction, which has dropped every deletion."""
        last = dict(self.written)
        again = Registered()
        for key, value in last.items():
            if value is not None:
                again.state.replay(decode(key, value))
        return again

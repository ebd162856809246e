"""The rules by which a reader's schema can or cannot read what a writer's schema wrote.

They are those of Confluent's registry. Messages are matched by their names and fields by their numbers. A field of
proto3 may become repeated, because the rules compare labels only where both are written. Enums may change in any way,
and groups, extensions and services are not compared.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tailrace.schema.language import Difference
from tailrace.schema.protobuf.element import Enum, Field, Message, OneOf, ProtoFile, map_parts
from tailrace.schema.protobuf.scope import NamedType, NameTable, Scope

_SCALAR_KINDS = {
    name: kind
    for kind, names in {
        "integers": "int32 int64 uint32 uint64 bool",
        "signed integers": "sint32 sint64",
        "strings": "string bytes",
        "fixed32": "fixed32 sfixed32",
        "fixed64": "fixed64 sfixed64",
        "float": "float",
        "double": "double",
    }.items()
    for name in names.split()
}
"""Scalars of one kind have the same bytes on the wire, so one can be read as another. Enums count as integers."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two schemas: its file, all names that it can use, and the name of its own file in them."""

    file: ProtoFile
    names: NameTable
    file_name: str


@dataclass(slots=True)
class _Pair:
    """Two messages of the same name to be compared: the writer's and the reader's.

    `users` are the fields whose type they are. Such a field has a difference too if the messages have one.
    """

    writer: NamedType
    reader: NamedType
    users: list[tuple["_Pair | None", Difference]] = field(default_factory=list)
    is_compatible: bool = True


def differences(reader: Side, writer: Side) -> list[Difference]:
    """Return why the reader's schema cannot read what was written with the writer's."""
    return list(dict.fromkeys(_Comparison(reader, writer).run()))


class _Comparison:
    """One comparison. Imported messages wait in a list for their turn, so that circles and long chains do no harm."""

    def __init__(self, reader: Side, writer: Side) -> None:
        self._reader = reader
        self._writer = writer
        self._found: list[Difference] = []
        self._pairs: dict[tuple[str, str], _Pair] = {}
        self._waiting: list[_Pair] = []
        self._pair: _Pair | None = None

    def run(self) -> list[Difference]:
        reader, writer = self._reader.file, self._writer.file
        if reader.package != writer.package:
            change = f"from {writer.package or 'none'} to {reader.package or 'none'}"
            self._add("PACKAGE_CHANGED", [], f"The package changed {change}")
        scopes = Scope(self._writer.names, writer.package), Scope(self._reader.names, reader.package)
        self._compare_types(_Place([], *scopes), writer.types, reader.types)
        while self._waiting:
            self._pair = self._waiting.pop()
            old, new = self._pair.writer, self._pair.reader
            scopes = (
                Scope(self._writer.names, old.package, old.local_name),
                Scope(self._reader.names, new.package, new.local_name),
            )
            place = _Place(old.local_name.split("."), *scopes)
            if isinstance(old.element, Message) and isinstance(new.element, Message):
                self._compare_messages(place, old.element, new.element)
        self._blame_users()
        return self._found

    def _add(self, kind: str, path: list[str], message: str) -> None:
        self._found.append(Difference(kind, "#/" + "/".join(path), message))
        if self._pair is not None:
            self._pair.is_compatible = False

    def _blame_users(self) -> None:
        """Add a difference for each field whose message is not compatible, and for the users of its message."""
        broken = [pair for pair in self._pairs.values() if not pair.is_compatible]
        while broken:
            for user, difference in broken.pop().users:
                self._found.append(difference)
                if user is not None and user.is_compatible:
                    user.is_compatible = False
                    broken.append(user)

    def _compare_types(
        self, place: "_Place", writer: Iterable[Message | Enum], reader: Iterable[Message | Enum]
    ) -> None:
        old, new = _messages(writer), _messages(reader)
        for name, message in old.items():
            if name in new:
                with place.inside(name):
                    self._compare_messages(place, message, new[name])
            elif not message.is_map_entry:
                path = [*place.path, name]
                self._add("MESSAGE_REMOVED", path, f"Message {'.'.join(path)} was removed")

    def _compare_messages(self, place: "_Place", writer: Message, reader: Message) -> None:
        old, new = _Members.of(writer), _Members.of(reader)
        self._compare_oneofs(place, old, new, reader.oneofs)
        for number in sorted(old.fields.keys() | new.fields.keys()):
            if number not in new.fields:
                self._check_removed(place, old, new, number)
            elif number not in old.fields:
                self._check_added(place, new, number)
            else:
                path = new.path(place, number)
                self._compare_fields(place, path, old.fields[number], new.fields[number])
        self._compare_types(place, writer.types, reader.types)

    def _check_removed(self, place: "_Place", old: "_Members", new: "_Members", number: int) -> None:
        shown = f"{_field(old.fields[number])} of message {place.name}"
        oneof = old.oneof_of.get(number)
        if oneof is None:
            if old.fields[number].label == "required":
                self._add("REQUIRED_FIELD_REMOVED", old.path(place, number), f"{shown} was required and was removed")
        elif oneof in new.oneofs or any(member in new.fields for member in old.oneofs[oneof]):
            message = f"{shown} was removed from oneof {oneof}"
            self._add("ONEOF_FIELD_REMOVED", old.path(place, number), message)

    def _check_added(self, place: "_Place", new: "_Members", number: int) -> None:
        if new.fields[number].label == "required":
            message = f"{_field(new.fields[number])} of message {place.name} is required and was added"
            self._add("REQUIRED_FIELD_ADDED", new.path(place, number), message)

    def _compare_oneofs(self, place: "_Place", old: "_Members", new: "_Members", oneofs: Iterable[OneOf]) -> None:
        """Find fields that could be set together before and now exclude each other."""
        for oneof in oneofs:
            numbers = [number for number in new.oneofs[oneof.name] if number in old.fields]
            moved = [number for number in numbers if number not in old.oneof_of]
            origins = {old.oneof_of[number] for number in numbers if number in old.oneof_of}
            if len(moved) + len(origins) < 2:
                continue
            fields = ", ".join(_field(new.fields[number]) for number in (moved if len(moved) > 1 else numbers))
            path = [*place.path, oneof.name]
            where = f"oneof {oneof.name} of message {place.name}"
            if len(moved) > 1:
                message = f"Several fields were moved into {where}, where they exclude each other: {fields}"
                self._add("MULTIPLE_FIELDS_MOVED_TO_ONEOF", path, message)
            else:
                message = f"Fields that could be set together exclude each other now in {where}: {fields}"
                self._add("FIELD_MOVED_TO_EXISTING_ONEOF", path, message)

    def _compare_fields(self, place: "_Place", path: list[str], old: Field, new: Field) -> None:
        shown = f"{_field(new)} of message {place.name}"
        old_type, new_type = place.writer_type(old.type), place.reader_type(new.type)
        labels = (old.label, new.label)
        self._compare_field_types(place, path, shown, old_type, new_type, labels)

    def _compare_field_types(
        self,
        place: "_Place",
        path: list[str],
        shown: str,
        old: "_Type",
        new: "_Type",
        labels: tuple[str | None, str | None] = (None, None),
    ) -> None:
        change = f"changed from {old.shown} to {new.shown}"
        if old.kind != new.kind:
            self._add("FIELD_KIND_CHANGED", path, f"{shown} {change}")
        elif old.kind == "map":
            for part, name in enumerate(("keys", "values")):
                types = place.writer_type(old.parts[part]), place.reader_type(new.parts[part])
                self._compare_field_types(place, path, f"The {name} of {shown[:1].lower()}{shown[1:]}", *types)
        elif old.kind == "message":
            self._compare_message_types(path, shown, change, old.named, new.named)
        elif old.scalar_kind != new.scalar_kind:
            message = f"{shown} {change}, which is written in another way"
            self._add("FIELD_SCALAR_KIND_CHANGED", path, message)
        elif None not in labels and labels[0] != labels[1] and old.scalar_kind != "strings":
            message = f"{shown} is a number and changed from {labels[0]} to {labels[1]}"
            self._add("FIELD_NUMERIC_LABEL_CHANGED", path, message)

    def _compare_message_types(
        self, path: list[str], shown: str, change: str, old: NamedType | None, new: NamedType | None
    ) -> None:
        if old is None or new is None or old.local_name != new.local_name:
            self._add("FIELD_NAMED_TYPE_CHANGED", path, f"{shown} {change}")
            return
        if old.file == self._writer.file_name and new.file == self._reader.file_name:
            return  # both are compared where they are declared
        key = old.full_name, new.full_name
        if key not in self._pairs:
            self._pairs[key] = _Pair(old, new)
            self._waiting.append(self._pairs[key])
        message = f"{shown} has type {new.full_name}, and that message cannot be read any more"
        difference = Difference("FIELD_NAMED_TYPE_CHANGED", "#/" + "/".join(path), message)
        if self._pairs[key] is not self._pair:
            self._pairs[key].users.append((self._pair, difference))


@dataclass(slots=True)
class _Type:
    """The type of a field: its kind is scalar, map or message."""

    kind: str
    shown: str
    scalar_kind: str = ""
    parts: tuple[str, str] = ("", "")
    named: NamedType | None = None

    @classmethod
    def of(cls, name: str, scope: Scope) -> "_Type":
        if name in _SCALAR_KINDS:
            return cls("scalar", name, scalar_kind=_SCALAR_KINDS[name])
        named = None if map_parts(name) else scope.type(name)
        if named is not None and isinstance(named.element, Message) and named.element.is_map_entry:
            name = named.element.map_type()
        parts = map_parts(name)
        if parts is not None:
            return cls("map", name, parts=parts)
        if named is not None and isinstance(named.element, Enum):
            return cls("scalar", f"enum {named.full_name}", scalar_kind="integers")
        return cls("message", f"message {named.full_name if named else name}", named=named)


@dataclass(slots=True)
class _Place:
    """A message in both schemas."""

    path: list[str]
    writer: Scope
    reader: Scope

    @property
    def name(self) -> str:
        return ".".join(self.path)

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        """Enter a message for the time of a `with` block."""
        with self.writer.inside(name), self.reader.inside(name):
            self.path.append(name)
            try:
                yield
            finally:
                self.path.pop()

    def writer_type(self, name: str) -> _Type:
        return _Type.of(name, self.writer)

    def reader_type(self, name: str) -> _Type:
        return _Type.of(name, self.reader)


@dataclass(slots=True)
class _Members:
    """The fields of a message by number, also those of oneofs, and the oneof of each."""

    fields: dict[int, Field]
    oneof_of: dict[int, str]
    oneofs: dict[str, list[int]]

    @classmethod
    def of(cls, message: Message) -> "_Members":
        fields = {field.number: field for field in message.fields}
        oneof_of: dict[int, str] = {}
        for oneof in message.oneofs:
            fields |= {field.number: field for field in oneof.fields}
            oneof_of |= {field.number: oneof.name for field in oneof.fields}
        oneofs = {oneof.name: [field.number for field in oneof.fields] for oneof in message.oneofs}
        return cls(fields, oneof_of, oneofs)

    def path(self, place: _Place, number: int) -> list[str]:
        """Return the path of a field, which leads through its oneof."""
        oneof = [self.oneof_of[number]] if number in self.oneof_of else []
        return [*place.path, *oneof, str(number)]


def _messages(elements: Iterable[Message | Enum]) -> dict[str, Message]:
    return {element.name: element for element in elements if isinstance(element, Message)}


def _field(field: Field) -> str:
    return f"Field {field.name} (number {field.number})"

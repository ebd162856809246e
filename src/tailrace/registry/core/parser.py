"""Parsing of schemas together with the schemas that they refer to."""

import threading
from collections import OrderedDict
from collections.abc import Sequence

from tailrace.base.schema_limits import REGISTRY_PARSED_BYTES_MAX, REGISTRY_PARSED_COUNT_MAX
from tailrace.registry.core.error import Code, RegistryError
from tailrace.registry.core.record import Entry
from tailrace.registry.core.state import Place, State
from tailrace.registry.core.subject import qualify
from tailrace.schema import avro, json_schema, protobuf
from tailrace.schema.language import Imports, InvalidSchema, Reference, Schema, SchemaType

REFERENCE_COUNT_MAX = 1_000
"""Schemas that one schema may refer to, directly and indirectly."""

_LATEST = -1

_CacheKey = tuple[SchemaType, str, tuple[tuple[str, str], ...]]


class SchemaCache:
    """The schemas that were parsed last, by their type, their text and the texts that they import.

    Threads may share it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._schemas: OrderedDict[_CacheKey, tuple[Schema, bool]] = OrderedDict()
        self._size_bytes = 0

    def __len__(self) -> int:
        return len(self._schemas)

    def find(self, key: _CacheKey, *, is_new: bool) -> Schema | None:
        """Return a schema that was parsed before, with the checks of a new one if those are needed."""
        with self._lock:
            schema, was_new = self._schemas.get(key, (None, False))
            if schema is None or (is_new and not was_new):
                return None
            self._schemas.move_to_end(key)
            return schema

    def add(self, key: _CacheKey, schema: Schema, *, is_new: bool) -> None:
        """Keep a schema, also under its canonical text, which is the one that will be stored."""
        texts = {key[1], schema.text}
        with self._lock:
            for text in texts:
                self._put((key[0], text, key[2]), schema, is_new=is_new)
            while len(self._schemas) > REGISTRY_PARSED_COUNT_MAX or self._size_bytes > REGISTRY_PARSED_BYTES_MAX:
                oldest, _ = self._schemas.popitem(last=False)
                self._size_bytes -= _size_bytes(oldest)

    def _put(self, key: _CacheKey, schema: Schema, *, is_new: bool) -> None:
        size_bytes = _size_bytes(key)
        if size_bytes > REGISTRY_PARSED_BYTES_MAX:
            return  # it would push all others out
        if key not in self._schemas:
            self._size_bytes += size_bytes
        self._schemas[key] = (schema, is_new)
        self._schemas.move_to_end(key)


def _size_bytes(key: _CacheKey) -> int:
    """Return the length of a schema and of all that it imports, which are parsed with it."""
    return len(key[1]) + sum(len(text) for _, text in key[2])


class SchemaParser:
    """Parses schemas with what they refer to in one state. Parsers of several states may share a cache."""

    def __init__(self, state: State, cache: SchemaCache | None = None) -> None:
        self._state = state
        self._cache = SchemaCache() if cache is None else cache

    def parse(
        self,
        subject: str,
        kind: SchemaType,
        text: str,
        references: Sequence[Reference] = (),
        *,
        is_new: bool = True,
    ) -> Schema:
        """Return a parsed schema. Raises `RegistryError` if it, or one of its references, is invalid.

        A schema that is not new may break rules that were not enforced when it was registered.
        """
        key = self._key(subject, kind, text, references)
        is_new = is_new and kind is SchemaType.AVRO  # the other types have no such rules
        schema = self._cache.find(key, is_new=is_new)
        if schema is None:
            try:
                schema = _parse(kind, text, dict(key[2]), is_new=is_new)
            except InvalidSchema as error:
                raise RegistryError(Code.INVALID_SCHEMA, f"Invalid schema of type {kind}, details: {error}") from error
            self._cache.add(key, schema, is_new=is_new)
        return schema

    def normalized(self, schema: Schema) -> Schema:
        """Return the normal form of a schema. Raises `RegistryError` if it is too long."""
        try:
            return schema.normalized()
        except InvalidSchema as error:
            raise RegistryError(
                Code.INVALID_SCHEMA, f"Invalid schema of type {schema.type}, details: {error}"
            ) from error

    def find_parsed(
        self, subject: str, kind: SchemaType, text: str, references: Sequence[Reference] = ()
    ) -> Schema | None:
        """Return a schema if it is parsed already, which takes no time."""
        try:
            return self._cache.find(self._key(subject, kind, text, references), is_new=False)
        except RegistryError:
            return None  # a reference does not exist; `parse` says which

    def _key(self, subject: str, kind: SchemaType, text: str, references: Sequence[Reference]) -> _CacheKey:
        return kind, text, tuple(self._imports(subject, self.resolve(subject, references)).items())

    def parse_entry(self, entry: Entry) -> Schema:
        """Return the parsed schema of a registered version."""
        return self.parse(entry.subject, entry.type, entry.text, entry.references, is_new=False)

    def resolve(self, subject: str, references: Sequence[Reference]) -> list[Reference]:
        """Return references with the numbers of the versions that are the latest now."""
        return [Reference(each.name, each.subject, self._target(subject, each).version) for each in references]

    def require_live(self, subject: str, references: Sequence[Reference]) -> None:
        """Raise `RegistryError` if a reference of a new schema means a version that is deleted."""
        for reference in references:
            if self._target(subject, reference).is_deleted:
                raise RegistryError(
                    Code.INVALID_SCHEMA,
                    f"Invalid schema reference {reference.name!r}: version {reference.version} of subject "
                    f"{reference.subject!r} is deleted",
                )

    def _target(self, subject: str, reference: Reference) -> Entry:
        name = qualify(reference.subject, subject)
        version = reference.version
        found = self._state.latest(name) if version == _LATEST else self._state.find(name, version, with_deleted=True)
        if found is None:
            raise RegistryError(
                Code.INVALID_SCHEMA,
                f"Invalid schema reference {reference.name!r}: subject {reference.subject!r} has no version "
                f"{'that is not deleted' if version == _LATEST else version}",
            )
        return found

    def _imports(self, subject: str, references: Sequence[Reference]) -> dict[str, str]:
        """Return the texts of all that is referred to, each after what it refers to itself."""
        found: dict[str, str] = {}
        self._collect(subject, references, found, [])
        return found

    def _collect(
        self, subject: str, references: Sequence[Reference], found: dict[str, str], above: list[Place]
    ) -> None:
        for reference in references:
            entry = self._target(subject, reference)
            place = (entry.subject, entry.version)
            if place in above:
                chain = " -> ".join(f"{name} version {version}" for name, version in [*above, place])
                raise RegistryError(Code.INVALID_SCHEMA, f"Schema references go in a circle: {chain}")
            if reference.name in found:
                continue
            if len(found) + len(above) >= REFERENCE_COUNT_MAX:
                raise RegistryError(Code.INVALID_SCHEMA, f"More than {REFERENCE_COUNT_MAX} schema references")
            self._collect(entry.subject, entry.references, found, [*above, place])
            found[reference.name] = entry.text


def _parse(kind: SchemaType, text: str, imports: Imports, *, is_new: bool) -> Schema:
    match kind:
        case SchemaType.AVRO:
            return avro.parse(text, imports, is_new=is_new)
        case SchemaType.JSON:
            return json_schema.parse(text, imports)
        case SchemaType.PROTOBUF:
            return protobuf.parse(text, imports)

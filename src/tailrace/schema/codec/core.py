"""What the codecs of all languages share: which schema to write with, and which one to read."""

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, TypeVar

from tailrace.base.schema_limits import REGISTRY_CACHE_COUNT
from tailrace.records.schema_id import FRAME_SIZE
from tailrace.schema.cache import Cache, raise_if_only_cached
from tailrace.schema.error import CodecError
from tailrace.schema.frame import frame, schema_id_of
from tailrace.schema.language import Imports, InvalidSchema, Reference, SchemaType
from tailrace.schema.registry import Registry
from tailrace.schema.stored import NewSchema, StoredSchema
from tailrace.schema.subject_name import SubjectName

Parsed = TypeVar("Parsed")


class Codec(ABC, Generic[Parsed]):
    """Encodes and decodes the values of one topic, or its keys. Threads may share it.

    It writes with `schema`, which it registers unless `auto_register` is False, or with the schema that has
    `schema_id`, or with the newest one of the subject if `use_latest` is set. A codec with one of them also reads every
    value as that schema describes it; another codec reads a value by the schema that it was written with.
    """

    language: ClassVar[SchemaType]

    def __init__(
        self,
        registry: Registry,
        topic: str,
        *,
        schema: str | None = None,
        references: Sequence[Reference] = (),
        schema_id: int | None = None,
        use_latest: bool = False,
        auto_register: bool = True,
        normalize: bool = False,
        subject_name: SubjectName | str = SubjectName.TOPIC,
        is_key: bool = False,
        latest_age_s: float = 60.0,
    ) -> None:
        """Take the newest schema again after `latest_age_s` seconds."""
        if sum((schema is not None, schema_id is not None, use_latest)) > 1:
            raise ValueError("schema, schema_id and use_latest exclude each other")
        self._registry = registry
        self._topic = topic
        self._schema = None if schema is None else NewSchema(schema, self.language, tuple(references))
        self._schema_id = schema_id
        self._use_latest = use_latest
        self._auto_register = auto_register
        self._normalize = normalize
        self._subject_name = SubjectName(subject_name)
        self._is_key = is_key
        self._latest_age_s = latest_age_s
        self._parsed: Cache[int, Parsed] = Cache(REGISTRY_CACHE_COUNT)
        self._own: Parsed | None = None
        self._latest: tuple[float, StoredSchema] | None = None

    # --- values

    def encode(self, value: Any) -> bytes | None:
        """Return a value in the frame of the registry; None stays None, which deletes a key from a compacted topic."""
        if value is None:
            return None
        schema_id, parsed = self.writer()
        return frame(schema_id) + self._write(parsed, value)

    def decode(self, data: bytes | None) -> Any:
        """Return the value of framed bytes; None stays None."""
        if data is None:
            return None
        schema_id = schema_id_of(data)
        try:
            return self._read(self.parsed(schema_id), data, FRAME_SIZE)
        except CodecError as error:
            raise CodecError(f"{self._place()}, schema id {schema_id}: {error}") from None

    # --- schemas

    @property
    def subject(self) -> str:
        """The subject under which schemas are registered and found."""
        record = None
        if self._subject_name.needs_record:
            own = self._own_schema()
            if own is None:
                raise CodecError(f"the subject name {self._subject_name.value!r} needs a schema: pass schema")
            record = self._name_of(own)
        return self._subject_name.of(self._topic, record, is_key=self._is_key)

    def writer(self) -> tuple[int, Parsed]:
        """Return the schema to write with, and its id."""
        stored = self._stored()
        if stored is None:
            raise CodecError(
                f"{self._place()}: there is no schema to write with; pass schema, schema_id or use_latest=True"
            )
        return stored.id, self._load(stored)

    def reader(self) -> Parsed | None:
        """Return the schema that values are read as; None for the one that each was written with."""
        if self._new_schema() is not None:
            return self._own_schema()
        stored = self._stored()
        return None if stored is None else self._load(stored)

    def parsed(self, schema_id: int) -> Parsed:
        """Return the schema with an id."""
        return self._parsed.get(schema_id, lambda: self._parse_stored(self._registry.schema(schema_id)))

    def _stored(self) -> StoredSchema | None:
        if self._schema_id is not None:
            return self._registry.schema(self._schema_id)
        if self._use_latest:
            return self._find_latest()
        schema = self._new_schema()
        if schema is None:
            return None
        call = self._registry.register if self._auto_register else self._registry.look_up
        return call(self.subject, schema, normalize=self._normalize)

    def _find_latest(self) -> StoredSchema:
        # Threads that see an old answer at the same time all ask again: none has to wait for another.
        latest = self._latest
        if latest is None or time.monotonic() - latest[0] > self._latest_age_s:
            raise_if_only_cached((id(self), "latest"), self._find_latest)
            latest = self._latest = (time.monotonic(), self._registry.latest(self.subject))
        return latest[1]

    def _new_schema(self) -> NewSchema | None:
        """Return the schema that the codec was given."""
        return self._schema

    def _own_schema(self) -> Parsed | None:
        schema = self._new_schema()
        if self._own is None and schema is not None:
            raise_if_only_cached((id(self), "own"), self._own_schema)
            self._own = self._parse(schema.text, self._registry.imports_of(schema.references))
        return self._own

    def _load(self, stored: StoredSchema) -> Parsed:
        return self._parsed.get(stored.id, lambda: self._parse_stored(stored))

    def _parse_stored(self, stored: StoredSchema) -> Parsed:
        if stored.type is not self.language:
            raise CodecError(
                f"{self._place()}: the schema with id {stored.id} is {stored.type.value} and not {self.language.value}"
            )
        try:
            return self._parse(stored.text, stored.imports)
        except InvalidSchema as error:
            raise CodecError(f"{self._place()}: the schema with id {stored.id} cannot be read: {error}") from None

    def _place(self) -> str:
        return f"{self._column_name()} of topic {self._topic}"

    # --- what each language defines

    @abstractmethod
    def _parse(self, text: str, imports: Imports) -> Parsed: ...

    @abstractmethod
    def _name_of(self, parsed: Parsed) -> str | None: ...

    @abstractmethod
    def _write(self, parsed: Parsed, value: Any) -> bytes: ...

    @abstractmethod
    def _read(self, parsed: Parsed, data: bytes, at: int) -> Any: ...

    # --- columns

    @abstractmethod
    def encode_column(self, rows: Any) -> Any:
        """Return a binary column with a framed value for each row of a table."""

    @abstractmethod
    def decode_column(self, column: Any) -> Any:
        """Return a table with a row for each framed value of a binary column. Null becomes a row of nulls."""

    def encode_table(self, table: Any) -> Any:
        """Return a table for `Producer.send_table` with the framed rows as its column `value`, or `key`."""
        import pyarrow as pa

        return pa.table({self._column_name(): self.encode_column(table)})

    def _column_name(self) -> str:
        return "key" if self._is_key else "value"

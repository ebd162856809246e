"""The client of a schema registry and the codecs for asyncio: the same methods as coroutine functions.

Requests to the registry and the work on columns run in threads. Once a codec knows a schema, values are encoded and
decoded without a switch to a thread.
"""

import asyncio
from collections.abc import Callable, Hashable, Mapping
from types import TracebackType
from typing import Any, ClassVar, ParamSpec, Self, TypeVar

from tailrace import schema as codecs
from tailrace.base.task import ignore_exception
from tailrace.schema import registry as blocking
from tailrace.schema.cache import Missing, only_cached
from tailrace.schema.setting import RegistrySettings
from tailrace.schema.stored import NewSchema, StoredSchema

P = ParamSpec("P")
T = TypeVar("T")


class Registry:
    """A client with the arguments and methods of `tailrace.schema.Registry`, which is `sync`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Take the arguments of `tailrace.schema.Registry`."""
        self.sync = blocking.Registry(*arguments, **options)

    @classmethod
    def from_config(cls, config: RegistrySettings | Mapping[str, str]) -> Self:
        """Connect with the configs of confluent-kafka's client, such as `url` and `basic.auth.user.info`."""
        made = cls.__new__(cls)
        made.sync = blocking.Registry.from_config(config)
        return made

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        self.sync.close()

    async def schema(self, schema_id: int, subject: str | None = None) -> StoredSchema:
        """Return the schema with an id, and the texts that it refers to."""
        return await _in_thread(self.sync.schema, schema_id, subject)

    async def register(self, subject: str, schema: NewSchema, *, normalize: bool = False) -> StoredSchema:
        """Register a schema unless the subject has it, and return it as the registry stores it."""
        return await _in_thread(self.sync.register, subject, schema, normalize=normalize)

    async def look_up(self, subject: str, schema: NewSchema, *, normalize: bool = False) -> StoredSchema:
        """Return the version of a subject that has a schema."""
        return await _in_thread(self.sync.look_up, subject, schema, normalize=normalize)

    async def check(self, subject: str, schema: NewSchema, version: int | str | None = None) -> list[str]:
        """Return why a schema could not be registered, in words; empty if it could."""
        return await _in_thread(self.sync.check, subject, schema, version)

    async def subjects(self, prefix: str = "", *, deleted: bool = False) -> list[str]:
        """Return the names of the subjects."""
        return await _in_thread(self.sync.subjects, prefix, deleted=deleted)

    async def versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        """Return the numbers of a subject's versions."""
        return await _in_thread(self.sync.versions, subject, deleted=deleted)

    async def version(self, subject: str, version: int) -> StoredSchema:
        """Return one version of a subject."""
        return await _in_thread(self.sync.version, subject, version)

    async def latest(self, subject: str) -> StoredSchema:
        """Return the newest version of a subject."""
        return await _in_thread(self.sync.latest, subject)

    async def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        """Delete all versions of a subject, softly at first; return their numbers."""
        return await _in_thread(self.sync.delete_subject, subject, permanent=permanent)

    async def delete_version(self, subject: str, version: int | str, *, permanent: bool = False) -> int:
        """Delete one version of a subject, softly at first; return its number."""
        return await _in_thread(self.sync.delete_version, subject, version, permanent=permanent)

    async def config(self, subject: str | None = None) -> Mapping[str, Any]:
        """Return the config that applies to a subject or, without one, to the default context."""
        return await _in_thread(self.sync.config, subject)

    async def set_config(self, changes: Mapping[str, Any], subject: str | None = None) -> None:
        """Change a config."""
        await _in_thread(self.sync.set_config, changes, subject)

    async def delete_config(self, subject: str | None = None) -> None:
        """Remove the config of a subject, so that the one of its context applies."""
        await _in_thread(self.sync.delete_config, subject)


class Codec:
    """A codec with the arguments and methods of the one in `tailrace.schema`, which is `sync`."""

    _name: ClassVar[str]

    def __init__(self, registry: Registry, topic: str, **options: Any) -> None:
        """Take the arguments of the codec in `tailrace.schema`."""
        self.sync = getattr(codecs, self._name)(registry.sync, topic, **options)
        self._filling: dict[Hashable, asyncio.Task[object]] = {}

    async def encode(self, value: Any) -> bytes | None:
        """Return a value in the frame of the registry; None stays None."""
        return await self._run(self.sync.encode, value)

    async def decode(self, data: bytes | None) -> Any:
        """Return the value of framed bytes; None stays None."""
        return await self._run(self.sync.decode, data)

    async def encode_column(self, rows: Any) -> Any:
        """Return a binary column with a framed value for each row of a table."""
        return await _in_thread(self.sync.encode_column, rows)

    async def decode_column(self, column: Any) -> Any:
        """Return a table with a row for each framed value of a binary column. Null becomes a row of nulls."""
        return await _in_thread(self.sync.decode_column, column)

    async def encode_table(self, table: Any) -> Any:
        """Return a table for `Producer.send_table` with the framed rows as its column `value`, or `key`."""
        return await _in_thread(self.sync.encode_table, table)

    async def _run(self, call: Callable[[Any], T], argument: Any) -> T:
        """Make a call here, after threads have made what it lacks."""
        filled: set[Hashable] = set()
        while True:
            try:
                with only_cached():
                    return call(argument)
            except Missing as missing:
                lacking = missing
            if lacking.key in filled:  # it is too old again already
                return await _in_thread(call, argument)
            await self._fill(lacking)
            filled.add(lacking.key)

    async def _fill(self, missing: Missing) -> None:
        """Make a value in a thread, once for all calls that wait for it."""
        task = self._filling.get(missing.key)
        if task is None:
            task = self._filling[missing.key] = asyncio.create_task(_in_thread(missing.fill))
            task.add_done_callback(lambda _: self._filling.pop(missing.key))
            task.add_done_callback(ignore_exception)
        await asyncio.shield(task)


class AvroCodec(Codec):
    """Encodes dictionaries, or the values of other Avro types, and tables of Arrow."""

    _name = "AvroCodec"


class JsonCodec(Codec):
    """Encodes values that `json` can write. They are validated on the way in and out unless `validate=False`."""

    _name = "JsonCodec"


class ProtobufCodec(Codec):
    """Encodes messages, and dictionaries as messages of the schema; decodes to messages."""

    _name = "ProtobufCodec"


async def _in_thread(call: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    return await asyncio.to_thread(call, *arguments, **options)

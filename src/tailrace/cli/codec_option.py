"""Keys and values with schemas in `tailrace produce` and `tailrace consume`: options, and JSON on the other side."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tailrace.cli.record_format import Format, json_format
from tailrace.cli.registry_option import LANGUAGES, connected, read_schema, registry_options

if TYPE_CHECKING:
    from tailrace.records.record import Record
    from tailrace.schema.codec.core import Codec
    from tailrace.schema.registry import Registry

Command = TypeVar("Command", bound=Callable[..., Any])


def codec_options(command: Command) -> Command:
    """Add the options that name languages and schemas. The command takes them as keyword arguments."""
    file = click.Path(path_type=Path, exists=True, dir_okay=False)
    options = [
        click.option(
            "--value",
            "value_language",
            type=click.Choice(LANGUAGES),
            help="Values have a schema in the registry; they are read and printed as JSON.",
        ),
        click.option(
            "--key",
            "key_language",
            type=click.Choice(LANGUAGES),
            help="Keys have a schema in the registry; they are read and printed as JSON.",
        ),
        click.option("--schema", "value_schema", type=file, metavar="FILE", help="Schema of the values."),
        click.option("--schema-id", "value_schema_id", type=click.IntRange(min=1), help="Id of the values' schema."),
        click.option(
            "--message", "value_message", metavar="NAME", help="Protobuf message of the values.  [default: the first]"
        ),
        click.option("--key-schema", type=file, metavar="FILE", help="Schema of the keys."),
        click.option("--key-schema-id", type=click.IntRange(min=1), help="Id of the keys' schema."),
    ]
    for option in reversed(options):
        command = option(command)
    return registry_options(command)


@dataclass(frozen=True, slots=True)
class Codecs:
    """The codecs of a topic; None for plain bytes."""

    key: "JsonFace | None"
    value: "JsonFace | None"


class JsonFace:
    """A codec whose values are JSON texts."""

    def __init__(self, codec: "Codec[Any]", part: str) -> None:
        self._codec = codec
        self._part = part

    def encode(self, text: bytes, place: str) -> bytes | None:
        """Return the framed bytes of a JSON text."""
        from tailrace.schema.error import CodecError

        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise click.ClickException(f"{place}: the {self._part} is not valid JSON: {error}") from None
        try:
            return self._codec.encode(self._from_json(value))
        except (CodecError, ValueError) as error:
            raise click.ClickException(f"{place}: {error}") from None

    def decode(self, data: bytes | None, place: str) -> bytes | None:
        """Return the JSON text of framed bytes."""
        from tailrace.schema.error import CodecError

        try:
            value = self._codec.decode(data)
        except CodecError as error:
            raise click.ClickException(f"{place}: {error}") from None
        return None if value is None else self._to_json(value)

    def _from_json(self, value: Any) -> Any:
        from tailrace.schema.codec.avro import AvroCodec
        from tailrace.schema.codec.avro_json import from_json

        if value is None or not isinstance(self._codec, AvroCodec):
            return value
        return from_json(self._codec.writer()[1].root, value)

    def _to_json(self, value: Any) -> bytes:
        from tailrace.schema.codec.avro_json import to_json_scalar

        if hasattr(value, "DESCRIPTOR"):
            from tailrace.schema.codec.protobuf import message_to_dict

            value = message_to_dict(value)
        return json.dumps(value, ensure_ascii=False, default=to_json_scalar).encode()


@contextmanager
def open_codecs(topic: str, options: dict[str, Any], *, is_writer: bool) -> Iterator[Codecs]:
    """Yield the codecs that the options of `codec_options` name. A writer without a schema takes the latest one."""
    _check(options)
    if options["value_language"] is None and options["key_language"] is None:
        yield Codecs(None, None)
        return
    try:
        with connected() as registry:
            yield Codecs(
                _codec(registry, topic, "key", options, is_writer=is_writer),
                _codec(registry, topic, "value", options, is_writer=is_writer),
            )
    except ImportError as error:
        raise click.ClickException(
            f"schemas need more packages ({error}): run `pip install 'tailrace[registry]'`"
        ) from None


def _check(options: dict[str, Any]) -> None:
    for part, file in (("value", "--schema"), ("key", "--key-schema")):
        given = [options[f"{part}_schema"], options[f"{part}_schema_id"]]
        if None not in given:
            raise click.UsageError(f"{file} and {file}-id cannot be combined")
        if options[f"{part}_language"] is None and given != [None, None]:
            raise click.UsageError(f"{file} and {file}-id need --{part} with the language of the schema")
    if options["value_message"] is not None and options["value_language"] != "protobuf":
        raise click.UsageError("--message needs --value protobuf")


def _codec(registry: "Registry", topic: str, part: str, options: dict[str, Any], *, is_writer: bool) -> JsonFace | None:
    from tailrace import schema

    language, file, schema_id = (options[f"{part}_{name}"] for name in ("language", "schema", "schema_id"))
    if language is None:
        return None
    settings: dict[str, Any] = {"is_key": part == "key", "schema_id": schema_id}
    if file is not None:
        settings["schema"] = read_schema(file)
    elif schema_id is None and is_writer:
        settings["use_latest"] = True
    if language == "protobuf":
        message = options.get(f"{part}_message")
        return JsonFace(schema.ProtobufCodec(registry, topic, message=message, **settings), part)
    kind: Any = schema.AvroCodec if language == "avro" else schema.JsonCodec
    return JsonFace(kind(registry, topic, **settings), part)


def decoding(render: Format, codecs: Codecs) -> Format:
    """Return a format that shows keys and values as JSON, inside the object of --json as JSON of their own."""
    if codecs.key is None and codecs.value is None:
        return render

    def show(topic: str, partition: int, record: "Record") -> bytes:
        place = f"{topic}-{partition} offset {record.offset}"
        key = record.key if codecs.key is None else codecs.key.decode(record.key, place)
        value = record.value if codecs.value is None else codecs.value.decode(record.value, place)
        line = render(topic, partition, record._replace(key=key, value=value))
        if render is not json_format:
            return line
        fields = json.loads(line)
        for name, codec, text in (("key", codecs.key, key), ("value", codecs.value, value)):
            if codec is not None and text is not None:
                fields[name] = json.loads(text)
        return json.dumps(fields, ensure_ascii=False).encode() + b"\n"

    return show

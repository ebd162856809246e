"""Tags of messages and fields, which are in Confluent's options `message_meta` and `field_meta`.

A path names messages from the outside in and then the field, without the package: `Order.Item.price`. The name of a
oneof may stand before its field. A changed option is written as one message in braces, and before the other options of
a field or after those of a message, where Confluent's registry has it. The file need not import `confluent/meta.proto`,
because clients know these options.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tailrace.schema.protobuf.element import Field, Message, Option, OptionValue
from tailrace.schema.protobuf.option_text import as_message, joined
from tailrace.schema.protobuf.schema import canonical_text, read_file

_MESSAGE_META = "confluent.message_meta"
_FIELD_META = "confluent.field_meta"
_TAGS = "tags"


@dataclass(slots=True)
class TaggedPlace:
    """A message or a field, whose tags can be changed."""

    path: str
    element: Message | Field
    options: list[Option]
    alias: str | None = None
    """The path with the name of the oneof that the field belongs to."""

    @property
    def is_field(self) -> bool:
        """Whether the place is a field."""
        return isinstance(self.element, Field)

    @property
    def tags(self) -> list[str]:
        """The tags of the place."""
        found = self._meta().get(_TAGS, [])
        return [tag for tag in (found if isinstance(found, list) else [found]) if isinstance(tag, str)]

    def set_tags(self, tags: Sequence[str]) -> None:
        """Replace the tags of the place, and remove the option if nothing is left in it."""
        meta = self._meta()
        if tags:
            meta[_TAGS] = list(tags)
        else:
            meta.pop(_TAGS, None)
        others = [option for option in self.options if not self._is_meta(option)]
        own = [Option(self._name, meta, is_custom=True)] if meta else []
        self.options = own + others if self.is_field else others + own

    @property
    def _name(self) -> str:
        return _FIELD_META if self.is_field else _MESSAGE_META

    def _is_meta(self, option: Option) -> bool:
        return option.is_custom and option.name.removeprefix(".") == self._name

    def _meta(self) -> dict[str, OptionValue]:
        """Return the value of Confluent's option, which a file may set in several parts."""
        meta: dict[str, list[OptionValue]] = {}
        for option in filter(self._is_meta, self.options):
            value = as_message(option).value
            for name, item in value.items() if isinstance(value, dict) else ():
                meta.setdefault(name, []).append(item)
        return {name: joined(items) if len(items) > 1 else items[0] for name, items in meta.items()}


class TaggedFile:
    """A .proto file whose tags can be changed. Raises `InvalidSchema` if the text is not valid."""

    def __init__(self, text: str) -> None:
        self._file = read_file(text)
        self.places = [place for message in self._file.messages() for place in _places(message, "")]
        """All messages and fields."""

    def text(self) -> str:
        """Return the canonical text of the file with the changes."""
        options = {id(place.element): place.options for place in self.places}
        for place in self.places:
            if isinstance(place.element, Message):
                _set_options(place.element, options)
        return canonical_text(self._file)


def _places(message: Message, scope: str) -> Iterator[TaggedPlace]:
    path = f"{scope}{message.name}"
    yield TaggedPlace(path, message, message.options)
    for oneof in message.oneofs:
        for element in oneof.fields:
            yield _field_place(element, path, f"{path}.{oneof.name}.{element.name}")
    for element in message.fields:
        yield _field_place(element, path)
    for nested in message.types:
        if isinstance(nested, Message):
            yield from _places(nested, f"{path}.")


def _field_place(element: Field, path: str, alias: str | None = None) -> TaggedPlace:
    return TaggedPlace(f"{path}.{element.name}", element, list(element.options), alias)


def _set_options(message: Message, options: Mapping[int, list[Option]]) -> None:
    """Give a message and its fields their new options, which are known by the identity of the element."""

    def with_options(elements: Iterable[Field]) -> Iterator[Field]:
        return (replace(each, options=tuple(options.get(id(each), each.options))) for each in elements)

    message.options = options[id(message)]
    message.fields = list(with_options(message.fields))
    message.oneofs = [replace(oneof, fields=tuple(with_options(oneof.fields))) for oneof in message.oneofs]

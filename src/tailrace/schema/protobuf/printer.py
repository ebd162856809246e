"""The text of a schema: canonical, as Confluent's registry stores it, and in normal form.

The canonical text keeps the order of declarations within their sort and names as they were written. The normal form
also sorts fields, options and imports and writes full names, so that it is equal for schemas that mean the same.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from tailrace.base.sentinel import INT32_MAX
from tailrace.schema.language import InvalidSchema
from tailrace.schema.protobuf.element import (
    FIELD_NUMBER_MAX,
    SCALARS,
    Constant,
    Enum,
    Extend,
    Extensions,
    Field,
    Group,
    Literal,
    Message,
    OneOf,
    Option,
    ProtoFile,
    Range,
    Reserved,
    Rpc,
    Service,
    map_parts,
)
from tailrace.schema.protobuf.option_text import OptionText, indented, quoted
from tailrace.schema.protobuf.scope import NameTable, Scope


class _Numbered(Protocol):
    @property
    def number(self) -> int: ...


N = TypeVar("N", bound=_Numbered)
R = TypeVar("R", Reserved, Extensions)


class Printer:
    """Writes one file. Normalising needs the table of names that the file can use."""

    def __init__(
        self, file: ProtoFile, names: NameTable, *, normalize: bool = False, ignore_extensions: bool = False
    ) -> None:
        self._file = file
        self._normalize = normalize
        self._ignore_extensions = ignore_extensions
        self._scope = Scope(names, file.package)
        self._options = OptionText(self._scope, normalize=normalize, ignore_extensions=ignore_extensions)

    def text(self) -> str:
        """Return the text of the file."""
        file = self._file
        extends = [] if self._ignore_extensions else self._grouped(file.extends)
        parts = [
            self._imports(),
            self._options.lines(file.options),
            self._types(file.types),
            "".join(self._extend(extend) for extend in extends),
            "".join(self._service(service) for service in file.services),
        ]
        return self._head() + "".join(f"\n{part}" for part in parts if part)

    def _head(self) -> str:
        file = self._file
        head = ""
        if file.edition is not None:
            head = f'edition = "{file.edition}";\n'
        elif file.syntax is not None and (not self._normalize or file.syntax == "proto3"):
            head = f'syntax = "{file.syntax}";\n'
        return head if file.package is None else f"{head}package {file.package};\n"

    def _imports(self) -> str:
        plain, public = self._file.imports, self._file.public_imports
        if self._normalize:
            plain, public = sorted(set(plain)), sorted(set(public))
        lines = [f"import {quoted(name)};\n" for name in plain] + [
            f"import public {quoted(name)};\n" for name in public
        ]
        return "".join(lines)

    def _types(self, elements: Iterable[Message | Enum]) -> str:
        """Return the messages and then the enums; clients count messages, so their order stays."""
        elements = list(elements)
        messages = [element for element in elements if isinstance(element, Message)]
        if self._normalize:
            messages = [message for message in messages if not message.is_map_entry]
        texts = [self._message(message) for message in messages]
        return "".join(texts + [self._enum(element) for element in elements if isinstance(element, Enum)])

    def _message(self, message: Message) -> str:
        with self._scope.inside(message.name):
            oneofs = self._sorted_oneofs(message.oneofs) if self._normalize else message.oneofs
            extensions = [] if self._ignore_extensions else self._split(message.extensions, _one_extension)
            extends = [] if self._ignore_extensions else self._grouped(message.extends)
            parts = [
                self._reserved(message.reserved),
                indented_parts([self._options.lines(message.options)]),
                indented_parts(self._field(field) for field in self._by_number(message.fields)),
                indented_parts(self._oneof(oneof) for oneof in oneofs),
                indented_parts(self._group(group) for group in self._by_number(message.groups)),
                indented_parts(self._extensions(element) for element in extensions),
                indented_parts(self._extend(extend) for extend in extends),
                indented_parts([self._types(message.types)]),
            ]
        return f"message {message.name} {{" + "".join(f"\n{part}" for part in parts if part) + "}\n"

    def _field(self, field: Field) -> str:
        label, type_name = field.label, field.type
        if self._normalize:
            type_name = self._full_type(type_name)
            if map_parts(type_name):
                label = None
        options = list(field.options)
        if field.default is not None:
            options.append(Option("default", _default_value(type_name, field.default)))
        if field.json_name is not None:
            options.append(Option("json_name", field.json_name))
        start = f"{label} " if label else ""
        return f"{start}{type_name} {field.name} = {field.number}{self._options.in_brackets(options)};\n"

    def _full_type(self, type_name: str) -> str:
        if type_name in SCALARS:
            return type_name
        parts = map_parts(type_name)
        if parts is None:
            found = self._scope.type(type_name)
            if found is None:
                raise InvalidSchema(f"type '{type_name}' is not defined")
            if not (isinstance(found.element, Message) and found.element.is_map_entry):
                return f".{found.full_name}"
            parts = map_parts(found.element.map_type()) or ("", "")
        value = self._scope.type(parts[1])
        return f"map<{parts[0]}, {parts[1] if value is None else f'.{value.full_name}'}>"

    def _full_message(self, name: str) -> str:
        return self._full_type(name) if self._normalize else name

    def _oneof(self, oneof: OneOf) -> str:
        parts = [
            indented_parts([self._options.lines(oneof.options)]),
            indented_parts(self._field(field) for field in oneof.fields),
            indented_parts(self._group(group) for group in self._by_number(oneof.groups)),
        ]
        return f"oneof {oneof.name} {{" + "".join(f"\n{part}" for part in parts if part) + "}\n"

    def _group(self, group: Group) -> str:
        start = f"{group.label} " if group.label else ""
        fields = indented_parts(self._field(field) for field in self._by_number(group.fields))
        return f"{start}group {group.name} = {group.number} {{" + (f"\n{fields}" if fields else "") + "}\n"

    def _extend(self, extend: Extend) -> str:
        fields = indented_parts(self._field(field) for field in self._by_number(extend.fields))
        return f"extend {extend.name} {{" + (f"\n{fields}" if fields else "") + "}\n"

    def _extensions(self, element: Extensions) -> str:
        return f"extensions {self._numbers(element.values)}{self._options.in_brackets(element.options)};\n"

    def _reserved(self, elements: Sequence[Reserved]) -> str:
        return indented_parts(
            f"reserved {self._numbers(element.values)};\n" for element in self._split(elements, _one_reserved)
        )

    def _enum(self, element: Enum) -> str:
        with self._scope.inside(element.name):
            constants: Sequence[Constant] = element.constants
            if self._normalize:
                # Confluent sorts negative numbers to the front, where an enum of proto3 must have its 0.
                is_open = self._file.syntax == "proto3"
                constants = sorted(constants, key=lambda each: (is_open and each.number != 0, each.number, each.name))
            body = self._reserved(element.reserved)
            body += indented_parts([self._options.lines(element.options)])
            body += indented_parts(
                f"{constant.name} = {constant.number}{self._options.in_brackets(constant.options)};\n"
                for constant in constants
            )
        is_empty = not (element.reserved or element.options or element.constants)
        return f"enum {element.name} {{" + ("" if is_empty else "\n") + body + "}\n"

    def _service(self, service: Service) -> str:
        parts = [
            indented_parts([self._options.lines(service.options)]),
            indented_parts(self._rpc(rpc) for rpc in service.rpcs),
        ]
        return f"service {service.name} {{" + "".join(f"\n{part}" for part in parts if part) + "}\n"

    def _rpc(self, rpc: Rpc) -> str:
        request = ("stream " if rpc.is_request_stream else "") + self._full_message(rpc.request)
        response = ("stream " if rpc.is_response_stream else "") + self._full_message(rpc.response)
        options = indented_parts([self._options.lines(rpc.options)])
        body = f" {{\n{options}}}" if options else ""
        return f"rpc {rpc.name} ({request}) returns ({response}){body};\n"

    def _by_number(self, elements: Sequence[N]) -> Sequence[N]:
        return sorted(elements, key=_number) if self._normalize else elements

    def _sorted_oneofs(self, oneofs: Iterable[OneOf]) -> list[OneOf]:
        ordered = [
            OneOf(oneof.name, tuple(sorted(oneof.fields, key=_number)), oneof.groups, oneof.options)
            for oneof in oneofs
            if oneof.fields
        ]
        return sorted(ordered, key=lambda oneof: oneof.fields[0].number)

    def _grouped(self, extends: Sequence[Extend]) -> Sequence[Extend]:
        """Return one extend declaration for each message if the text is normalised."""
        if not self._normalize:
            return extends
        fields: dict[str, list[Field]] = {}
        for extend in extends:
            if extend.fields:
                fields.setdefault(self._full_type(extend.name), []).extend(extend.fields)
        return [Extend(name, tuple(members)) for name, members in fields.items()]

    def _split(self, elements: Sequence[R], apart: Callable[[R], list[R]]) -> Sequence[R]:
        """Return one declaration for each number or name if the text is normalised, in their order."""
        if not self._normalize:
            return elements
        return sorted((single for element in elements for single in apart(element)), key=_range_order)

    def _numbers(self, values: Iterable[int | str | Range]) -> str:
        return ", ".join(self._number_text(value) for value in values)

    def _number_text(self, value: int | str | Range) -> str:
        if isinstance(value, str):
            return quoted(value)
        if isinstance(value, int):
            return str(value)
        start, end = value
        if self._normalize and start == end:
            return str(start)
        return f"{start} to {end if end < FIELD_NUMBER_MAX else 'max'}"


def indented_parts(texts: Iterable[str]) -> str:
    """Return texts one after the other, two blanks further to the right; empty ones are left out."""
    return "".join(indented(text) for text in texts if text)


def _number(element: _Numbered) -> int:
    return element.number


def _one_reserved(element: Reserved) -> list[Reserved]:
    return [Reserved((value,)) for value in element.values]


def _one_extension(element: Extensions) -> list[Extensions]:
    return [Extensions((value,), element.options) for value in element.values]


def _range_order(element: Reserved | Extensions) -> tuple[int, str]:
    value = element.values[0]
    if isinstance(value, str):
        return INT32_MAX, value
    return (value, str(value)) if isinstance(value, int) else (value[0], f"{value[0]}..{value[1]}")


def _default_value(type_name: str, default: str) -> str | Literal:
    if type_name == "string":
        return default
    if type_name == "bytes" and not _is_word(default):
        return default
    return Literal(default, is_number=type_name in SCALARS and type_name != "bool")


def _is_word(text: str) -> bool:
    return text != "" and text.isascii() and all(letter.isalnum() or letter in "_.-" for letter in text)

"""File descriptors of declarations: names resolved, maps and groups spelled out, as serializers need them."""

from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

from tailrace.schema.language import InvalidSchema
from tailrace.schema.protobuf.element import (
    SCALARS,
    Enum,
    Extend,
    Field,
    Group,
    Message,
    OneOf,
    ProtoFile,
    Service,
    map_parts,
)
from tailrace.schema.protobuf.meta import descriptor_class
from tailrace.schema.protobuf.option_descriptor import OptionWriter
from tailrace.schema.protobuf.scope import NamedType, NameTable, Scope

_EDITIONS = {"2023": "EDITION_2023", "2024": "EDITION_2024"}


def descriptor_of(name: str, file: ProtoFile, names: NameTable) -> FileDescriptorProto:
    """Return the descriptor of a file. Raise `InvalidSchema` if it names a type that does not exist."""
    return _Builder(name, file, names).build()


class _Builder:
    def __init__(self, name: str, file: ProtoFile, names: NameTable) -> None:
        self._name = name
        self._file = file
        self._scope = Scope(names, file.package)
        self._options = OptionWriter(self._scope, has_edition=file.edition is not None)
        self._descriptor: Any = descriptor_class()(name=name)

    def build(self) -> FileDescriptorProto:
        file, descriptor = self._file, self._descriptor
        if file.edition is not None:
            descriptor.syntax = "editions"
            descriptor.edition = (
                descriptor.DESCRIPTOR.fields_by_name["edition"].enum_type.values_by_name[_EDITIONS[file.edition]].number
            )
        elif file.syntax is not None:
            descriptor.syntax = file.syntax
        if file.package:
            descriptor.package = file.package
        self._add_imports()
        for element in file.types:
            if isinstance(element, Message):
                self._fill_message(descriptor.message_type.add(), element)
            else:
                self._fill_enum(descriptor.enum_type.add(), element)
        for extend in file.extends:
            self._add_extensions(descriptor, extend)
        for service in file.services:
            self._fill_service(descriptor.service.add(), service)
        self._options.write(descriptor.options, file.options, "file")
        if not descriptor.options.ByteSize():
            descriptor.ClearField("options")
        result = FileDescriptorProto()
        result.ParseFromString(descriptor.SerializeToString())
        return result

    def _add_imports(self) -> None:
        file, descriptor = self._file, self._descriptor
        for name in dict.fromkeys(file.every_import()):
            descriptor.dependency.append(name)
        order = {name: index for index, name in enumerate(descriptor.dependency)}
        descriptor.public_dependency.extend(dict.fromkeys(order[name] for name in file.public_imports))
        descriptor.weak_dependency.extend(dict.fromkeys(order[name] for name in file.weak_imports))

    def _fill_message(self, target: Any, message: Message) -> None:
        target.name = message.name
        with self._scope.inside(message.name):
            place = f"message {self._scope.full_name[1:]}"
            for nested in message.types:
                if isinstance(nested, Message):
                    self._fill_message(target.nested_type.add(), nested)
                else:
                    self._fill_enum(target.enum_type.add(), nested)
            for oneof in message.oneofs:
                self._add_oneof(target, oneof)
            for field in message.fields:
                self._add_field(target, field, place)
            for group in message.groups:
                self._add_group(target, group)
            for extend in message.extends:
                self._add_extensions(target, extend)
            self._add_ranges(target, message, place)
            self._write_options(target, message.options, place)

    def _add_ranges(self, target: Any, message: Message, place: str) -> None:
        for reserved in message.reserved:
            for value in reserved.values:
                if isinstance(value, str):
                    target.reserved_name.append(value)
                else:
                    start, end = value if isinstance(value, tuple) else (value, value)
                    target.reserved_range.add(start=start, end=end + 1)
        for extensions in message.extensions:
            for number in extensions.values:
                start, end = number if isinstance(number, tuple) else (number, number)
                added = target.extension_range.add(start=start, end=end + 1)
                self._write_options(added, extensions.options, f"{place}: extensions {start}")

    def _add_oneof(self, target: Any, oneof: OneOf) -> None:
        index = len(target.oneof_decl)
        self._write_options(target.oneof_decl.add(name=oneof.name), oneof.options, f"oneof {oneof.name}")
        for field in oneof.fields:
            self._fill_field(target.field.add(oneof_index=index), field, f"oneof {oneof.name}")
        for group in oneof.groups:
            self._add_group(target, group)
            target.field[-1].oneof_index = index

    def _add_field(self, target: Any, field: Field, place: str) -> None:
        added = target.field.add()
        parts = map_parts(field.type)
        if parts is not None:
            self._add_map_entry(target, added, field, parts, place)
        self._fill_field(added, field, place)
        if field.label == "optional" and self._file.syntax == "proto3":
            added.proto3_optional = True
            added.oneof_index = len(target.oneof_decl)
            target.oneof_decl.add(name=_free_name(target, f"_{field.name}"))

    def _add_map_entry(self, target: Any, added: Any, field: Field, parts: tuple[str, str], place: str) -> None:
        """Add the message of a map's entries after all others, because clients count the messages of the text."""
        name = "".join(part[:1].upper() + part[1:] for part in field.name.split("_")) + "Entry"
        entry = target.nested_type.add(name=name)
        entry.options.map_entry = True
        for number, (member, type_name) in enumerate(zip(("key", "value"), parts, strict=True), 1):
            entry_field = Field(None, type_name, member, number, line=field.line)
            self._fill_field(entry.field.add(), entry_field, f"{place}: map {field.name}")
        added.label = FieldDescriptorProto.LABEL_REPEATED
        added.type = FieldDescriptorProto.TYPE_MESSAGE
        added.type_name = f"{self._scope.full_name}.{name}"

    def _add_group(self, target: Any, group: Group) -> None:
        added = target.field.add(name=group.name.lower(), number=group.number, type=FieldDescriptorProto.TYPE_GROUP)
        added.label = _label(group.label)
        added.type_name = f"{self._scope.full_name}.{group.name}"
        nested = target.nested_type.add(name=group.name)
        with self._scope.inside(group.name):
            for field in group.fields:
                self._add_field(nested, field, f"group {group.name}")

    def _add_extensions(self, target: Any, extend: Extend) -> None:
        extended = self._type(extend.name, f"extend {extend.name}", extend.line)
        for field in extend.fields:
            added = target.extension.add(extendee=f".{extended.full_name}")
            self._fill_field(added, field, f"extend {extend.name}")

    def _fill_field(self, target: Any, field: Field, place: str) -> None:
        where = f"{place}: field '{field.name}'"
        target.name, target.number = field.name, field.number
        if not target.HasField("label"):
            target.label = _label(field.label)
        if field.type in SCALARS:
            target.type = getattr(FieldDescriptorProto, f"TYPE_{field.type.upper()}")
        elif not target.HasField("type_name"):
            found = self._type(field.type, where, field.line)
            is_enum = isinstance(found.element, Enum)
            target.type = FieldDescriptorProto.TYPE_ENUM if is_enum else FieldDescriptorProto.TYPE_MESSAGE
            target.type_name = f".{found.full_name}"
        if field.default is not None:
            target.default_value = _escaped(field.default) if field.type == "bytes" else field.default
        if field.json_name is not None:
            target.json_name = field.json_name
        self._write_options(target, field.options, where)

    def _type(self, name: str, place: str, line: int) -> NamedType:
        """Return the type that a name means, and import its file in case the text does not."""
        found = self._scope.type(name)
        if found is None:
            where = f"line {line}: {place}" if line else place
            raise InvalidSchema(f"{where}: type '{name}' is not defined here, in an import or in a reference")
        if found.file not in (self._name, *self._descriptor.dependency):
            self._descriptor.dependency.append(found.file)
        return found

    def _fill_enum(self, target: Any, element: Enum) -> None:
        target.name = element.name
        place = f"enum {self._scope.full_name[1:]}.{element.name}".replace(" .", " ")
        for constant in element.constants:
            added = target.value.add(name=constant.name, number=constant.number)
            self._write_options(added, constant.options, f"{place}: constant {constant.name}")
        for reserved in element.reserved:
            for value in reserved.values:
                if isinstance(value, str):
                    target.reserved_name.append(value)
                else:
                    start, end = value if isinstance(value, tuple) else (value, value)
                    target.reserved_range.add(start=start, end=end)
        self._write_options(target, element.options, place)

    def _fill_service(self, target: Any, service: Service) -> None:
        target.name = service.name
        for rpc in service.rpcs:
            place = f"service {service.name}: method {rpc.name}"
            method = target.method.add(name=rpc.name)
            method.input_type = f".{self._type(rpc.request, place, rpc.line).full_name}"
            method.output_type = f".{self._type(rpc.response, place, rpc.line).full_name}"
            if rpc.is_request_stream:
                method.client_streaming = True
            if rpc.is_response_stream:
                method.server_streaming = True
            self._write_options(method, rpc.options, place)
        self._write_options(target, service.options, f"service {service.name}")

    def _write_options(self, target: Any, options: Any, place: str) -> None:
        if options:
            self._options.write(target.options, options, place)
            if not target.options.ByteSize():
                target.ClearField("options")


def _label(label: str | None) -> int:
    return int(getattr(FieldDescriptorProto, f"LABEL_{(label or 'optional').upper()}"))


def _free_name(target: DescriptorProto, name: str) -> str:
    """Return the name of the oneof of an optional field of proto3, changed as protoc does if it is in use."""
    taken = {oneof.name for oneof in target.oneof_decl} | {field.name for field in target.field}
    while name in taken:
        name = f"X{name}"
    return name


def _escaped(text: str) -> str:
    """Return the default of a bytes field in the escapes that descriptors use."""
    data = text.encode("latin-1") if all(ord(letter) < 256 for letter in text) else text.encode()
    return "".join(chr(byte) if 32 <= byte < 127 and byte not in b"\\\"'" else f"\\{byte:03o}" for byte in data)

"""Declarations from a serialized FileDescriptorProto, the form in which confluent-kafka-python registers schemas.

What is kept and in which order is what Confluent's registry keeps: standard options in the order of their declaration
and Confluent's own `meta`; custom options are left out, because a descriptor does not say what they are.
"""

from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import FieldDescriptorProto
from google.protobuf.message import DecodeError

from tailrace.schema.protobuf.element import (
    Constant,
    Enum,
    Extend,
    Extensions,
    Field,
    Literal,
    Message,
    OneOf,
    Option,
    OptionValue,
    ProtoFile,
    Range,
    Reserved,
    Rpc,
    Service,
)
from tailrace.schema.protobuf.lexer import unescape
from tailrace.schema.protobuf.meta import descriptor_class, meta_name

_LABELS = {
    FieldDescriptorProto.LABEL_OPTIONAL: "optional",
    FieldDescriptorProto.LABEL_REQUIRED: "required",
    FieldDescriptorProto.LABEL_REPEATED: "repeated",
}
_OPTIONS_OMITTED = {
    "deprecated_legacy_json_field_conflicts",
    "lazy",
    "message_set_wire_format",
    "uninterpreted_option",
    "unverified_lazy",
    "weak",
}
_VALUE_FIRST = {"precision", "scale"}


def file_of(serialized: bytes) -> ProtoFile:
    """Return the declarations of a file. Raise protobuf's `DecodeError` if the bytes are no descriptor."""
    descriptor = descriptor_class().FromString(serialized)
    _check_strings(descriptor)
    file = ProtoFile(package=descriptor.package or None)
    file.syntax = descriptor.syntax if descriptor.syntax in ("proto2", "proto3") else None
    public, weak = set(descriptor.public_dependency), set(descriptor.weak_dependency)
    for index, name in enumerate(descriptor.dependency):
        imports = file.public_imports if index in public else file.weak_imports if index in weak else file.imports
        imports.append(name)
    file.types = [_message(message, file.syntax) for message in descriptor.message_type]
    file.types += [_enum(element) for element in descriptor.enum_type]
    file.services = [_service(service) for service in descriptor.service]
    file.extends = _extends(descriptor.extension, file.syntax)
    file.options = list(_options(descriptor.options))
    return file


def _check_strings(message: Any) -> None:
    """Raise `DecodeError` if a string is not UTF-8; protobuf would pass it on as bytes."""
    for field, value in message.ListFields():
        values = value if field.is_repeated else [value]
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            for inner in values:
                _check_strings(inner)
        elif field.type == FieldDescriptor.TYPE_STRING and any(isinstance(item, bytes) for item in values):
            raise DecodeError(f"{field.full_name} is not UTF-8")


def _message(descriptor: Any, syntax: str | None) -> Message:
    message = Message(descriptor.name)
    members: list[list[Field]] = [[] for _ in descriptor.oneof_decl]
    for field in descriptor.field:
        if field.HasField("oneof_index") and not field.proto3_optional and field.oneof_index < len(members):
            members[field.oneof_index].append(_field(field, None, syntax))
        else:
            message.fields.append(_field(field, _label(field, syntax), syntax))
    message.oneofs = [
        OneOf(oneof.name, tuple(fields), options=tuple(_options(oneof.options)))
        for oneof, fields in zip(descriptor.oneof_decl, members, strict=True)
        if fields
    ]
    message.types = [_message(nested, syntax) for nested in descriptor.nested_type]
    message.types += [_enum(nested) for nested in descriptor.enum_type]
    message.reserved = [Reserved((_range(item.start, item.end - 1),)) for item in descriptor.reserved_range]
    message.reserved += [Reserved((name,)) for name in descriptor.reserved_name]
    message.extensions = [
        Extensions((_range(item.start, item.end - 1),), tuple(_options(item.options)))
        for item in descriptor.extension_range
    ]
    message.extends = _extends(descriptor.extension, syntax)
    message.options = list(_options(descriptor.options))
    return message


def _field(field: Any, label: str | None, syntax: str | None) -> Field:
    type_name = field.type_name or FieldDescriptorProto.Type.Name(field.type)[5:].lower()
    default = None
    if field.HasField("default_value") and syntax != "proto3":
        default = unescape(field.default_value) if type_name == "bytes" else field.default_value
    json_name = field.json_name if field.HasField("json_name") else None
    options = tuple(_options(field.options))
    return Field(label, type_name, field.name, field.number, default, json_name, options)


def _label(field: Any, syntax: str | None) -> str | None:
    if field.proto3_optional:
        return "optional"
    label = _LABELS[field.label]
    return label if syntax != "proto3" or label == "repeated" else None


def _extends(fields: Any, syntax: str | None) -> list[Extend]:
    by_message: dict[str, list[Field]] = {}
    for field in fields:
        by_message.setdefault(field.extendee, []).append(_field(field, _label(field, syntax), syntax))
    return [Extend(name, tuple(members)) for name, members in by_message.items()]


def _enum(descriptor: Any) -> Enum:
    reserved: list[Reserved] = [Reserved((_range(item.start, item.end),)) for item in descriptor.reserved_range]
    reserved += [Reserved((name,)) for name in descriptor.reserved_name]
    constants = tuple(Constant(value.name, value.number, tuple(_options(value.options))) for value in descriptor.value)
    options = tuple(_options(descriptor.options))
    return Enum(descriptor.name, constants, tuple(reserved), options)


def _range(start: int, end: int) -> int | Range:
    return start if start == end else (start, end)


def _service(descriptor: Any) -> Service:
    rpcs = tuple(
        Rpc(
            method.name,
            method.input_type,
            method.output_type,
            method.client_streaming,
            method.server_streaming,
            tuple(_options(method.options)),
        )
        for method in descriptor.method
    )
    return Service(descriptor.name, rpcs, tuple(_options(descriptor.options)))


def _options(options: Any) -> Iterator[Option]:
    """Yield the standard options that are set, and Confluent's own."""
    meta = meta_name(options)
    for field, value in _set_fields(options):
        if field.is_extension:
            if meta and field.full_name == meta and (values := _meta(value)):
                yield Option(meta, values, is_custom=True)
        elif field.name not in _OPTIONS_OMITTED:
            for item in value if field.is_repeated else [value]:
                yield Option(field.name, _value(field, item))


def _set_fields(message: Any) -> list[tuple[Any, Any]]:
    """Return the fields that are set, in the order of their declaration, and extensions last."""
    return sorted(message.ListFields(), key=lambda item: (item[0].is_extension, item[0].index))


def _value(field: Any, value: Any) -> OptionValue:
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        return {inner.name: _value(inner, item) for inner, item in _set_fields(value) if not inner.is_extension}
    if field.type == FieldDescriptor.TYPE_ENUM:
        constant = field.enum_type.values_by_number.get(value)
        return Literal(constant.name if constant else str(value))
    if field.type == FieldDescriptor.TYPE_BOOL:
        return Literal("true" if value else "false")
    if field.type == FieldDescriptor.TYPE_STRING:
        return str(value)
    return Literal(str(value), is_number=True)


def _meta(meta: Any) -> dict[str, OptionValue]:
    values: dict[str, OptionValue] = {"doc": meta.doc} if meta.doc else {}
    if meta.params:
        values["params"] = [_param(param) for param in meta.params]
    if meta.tags:
        values["tags"] = list(meta.tags)
    rules: list[OptionValue] = [
        {field.name: text for field, text in rule.ListFields() if text} for rule in meta.rules if rule.ByteSize()
    ]
    return {**values, "rules": rules} if rules else values


def _param(param: Any) -> OptionValue:
    """Return an entry of `params`; Confluent writes precision and scale of decimals with the value in front."""
    if param.key in _VALUE_FIRST:
        return {"value": param.value, "key": param.key}
    return {"key": param.key, "value": param.value}

"""A class of file descriptors that knows Confluent's `meta`, the option that holds a declaration's doc, tags and rules.

The descriptors of the process itself need not know it, and cannot learn it here: another library may have declared it.
"""

from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

_PROTO = descriptor_pb2.FieldDescriptorProto
_NUMBER = 1088
_MESSAGES = {
    # A map would forget the order of its entries, so `params` are plain messages here: the bytes are the same.
    "Param": "key value",
    "Rule": "name doc expr sql",
    "Meta": "doc .confluent.Param:params tags .confluent.Rule:rules",
}
_LISTS = {"params", "tags", "rules"}
_EXTENSIONS = {
    "FileOptions": "file_meta",
    "MessageOptions": "message_meta",
    "FieldOptions": "field_meta",
    "EnumOptions": "enum_meta",
    "EnumValueOptions": "enum_value_meta",
}


@cache
def _pool() -> DescriptorPool:
    pool = DescriptorPool()
    google = descriptor_pb2.FileDescriptorProto()
    descriptor_pb2.DESCRIPTOR.CopyToProto(google)
    pool.Add(google)
    meta = descriptor_pb2.FileDescriptorProto(name="meta.proto", package="confluent", dependency=[google.name])
    for message, fields in _MESSAGES.items():
        added = meta.message_type.add(name=message)
        for number, declared in enumerate(fields.split(), 1):
            type_name, _, name = declared.rpartition(":")
            field = added.field.add(name=name, number=number, type=_PROTO.TYPE_STRING)
            field.label = _PROTO.LABEL_REPEATED if name in _LISTS else _PROTO.LABEL_OPTIONAL
            if type_name:
                field.type, field.type_name = _PROTO.TYPE_MESSAGE, type_name
    for options, name in _EXTENSIONS.items():
        extension = meta.extension.add(name=name, number=_NUMBER, extendee=f".google.protobuf.{options}")
        extension.label, extension.type = _PROTO.LABEL_OPTIONAL, _PROTO.TYPE_MESSAGE
        extension.type_name = ".confluent.Meta"
    pool.Add(meta)
    return pool


@cache
def descriptor_class() -> Any:
    """Return the class of file descriptors."""
    return GetMessageClass(_pool().FindMessageTypeByName("google.protobuf.FileDescriptorProto"))


def meta_name(options: Any) -> str | None:
    """Return the full name of Confluent's option for options of this kind; None if there is none."""
    name = _EXTENSIONS.get(options.DESCRIPTOR.name)
    return f"confluent.{name}" if name else None


def meta_of(options: Any) -> Any:
    """Return the message that holds Confluent's option, to be read or filled."""
    return options.Extensions[_pool().FindExtensionByName(meta_name(options))]

"""The files that a schema may import without a reference: those of Google and of Confluent that every client has."""

from functools import cache
from importlib import import_module

from google.protobuf.descriptor_pb2 import FileDescriptorProto

from tailrace.schema.protobuf.element import ProtoFile
from tailrace.schema.protobuf.parser import parse_file
from tailrace.schema.protobuf.reverse import file_of
from tailrace.schema.protobuf.scope import NameTable

_GOOGLE = {
    "google/protobuf": "any api descriptor duration empty field_mask source_context struct timestamp type wrappers",
    "google/type": (
        "calendar_period color date datetime dayofweek decimal expr fraction interval latlng money month"
        " phone_number postal_address quaternion timeofday"
    ),
}

_CONFLUENT = {
    "confluent/meta.proto": """
        syntax = "proto3";
        package confluent;
        import "google/protobuf/descriptor.proto";
        option java_package = "io.confluent.protobuf";
        option java_outer_classname = "MetaProto";
        message Meta {
          string doc = 1;
          map<string, string> params = 2;
          repeated string tags = 3;
          repeated Rule rules = 4;
        }
        message Rule { string name = 1; string doc = 2; string expr = 3; string sql = 4; }
        extend google.protobuf.FileOptions { Meta file_meta = 1088; }
        extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
        extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
        extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
        extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
    """,
    "confluent/type/decimal.proto": """
        syntax = "proto3";
        package confluent.type;
        option java_package = "io.confluent.protobuf.type";
        option java_multiple_files = true;
        option java_outer_classname = "DecimalProto";
        message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
    """,
    "confluent/type/variant.proto": """
        syntax = "proto3";
        package confluent.type;
        option java_package = "io.confluent.protobuf.type";
        option java_multiple_files = true;
        option java_outer_classname = "VariantProto";
        message Variant { bytes metadata = 1; bytes value = 2; }
    """,
}

NAMES = frozenset(_CONFLUENT) | {
    f"{folder}/{name}.proto" for folder, names in _GOOGLE.items() for name in names.split()
}
"""The import paths of all of them."""


@cache
def known_file(name: str) -> ProtoFile:
    """Return the declarations of a known file."""
    if name in _CONFLUENT:
        return parse_file(_CONFLUENT[name])
    return file_of(google_descriptor(name).SerializeToString())


@cache
def google_descriptor(name: str) -> FileDescriptorProto:
    """Return the descriptor of a file that Google's packages for Python hold."""
    module = import_module(f"{name.removesuffix('.proto').replace('/', '.')}_pb2")
    descriptor = FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(descriptor)
    return descriptor


def is_google(name: str) -> bool:
    """Return whether Google's packages for Python hold a file."""
    return name in NAMES and name not in _CONFLUENT


@cache
def known_names() -> NameTable:
    """Return all types and extensions of the known files."""
    return NameTable.of({name: known_file(name) for name in sorted(NAMES)})

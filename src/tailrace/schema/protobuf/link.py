"""Descriptors of a file and of all files that it imports, put together and checked by protobuf itself."""

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool

from tailrace.schema.language import InvalidSchema
from tailrace.schema.protobuf.check import check_file
from tailrace.schema.protobuf.descriptor import descriptor_of
from tailrace.schema.protobuf.element import ProtoFile
from tailrace.schema.protobuf.known_import import NAMES, google_descriptor, is_google, known_file
from tailrace.schema.protobuf.scope import NameTable

_REFUSAL = "Couldn't build proto file into descriptor pool:"


def link(main: str, files: Mapping[str, ProtoFile], names: NameTable) -> dict[str, FileDescriptorProto]:
    """Return descriptors by the names of their files, each after those that it imports.

    Raise `InvalidSchema` if a file, a type or a number is wrong in any of them.
    """
    descriptors: dict[str, FileDescriptorProto] = {}
    waiting = [*files]
    while waiting:
        name = waiting.pop()
        if name not in descriptors:
            descriptors[name] = _descriptor(name, main, files, names)
            waiting += descriptors[name].dependency
    try:
        graph = {name: list(descriptor.dependency) for name, descriptor in descriptors.items()}
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        raise InvalidSchema(f"files import each other in a circle: {' imports '.join(error.args[1][::-1])}") from None
    ordered = {name: descriptors[name] for name in order}
    _check_together(main, ordered)
    return ordered


def _descriptor(name: str, main: str, files: Mapping[str, ProtoFile], names: NameTable) -> FileDescriptorProto:
    file = files.get(name)
    if file is None:
        if is_google(name):
            return google_descriptor(name)
        return descriptor_of(name, known_file(name), names)
    try:
        for imported in file.every_import():
            if imported not in files and imported not in NAMES:
                raise InvalidSchema(f"import '{imported}' is not among the references")
        check_file(file)
        return descriptor_of(name, file, names)
    except InvalidSchema as error:
        raise _located(name, main, str(error)) from None


def _check_together(main: str, descriptors: Mapping[str, FileDescriptorProto]) -> None:
    pool = DescriptorPool()
    for name, descriptor in descriptors.items():
        try:
            pool.AddSerializedFile(descriptor.SerializeToString())
        except (TypeError, ValueError) as error:
            detail = str(error).removeprefix(_REFUSAL).strip()
            raise _located(name, main, f"protobuf does not accept the file: {detail}") from None


def _located(name: str, main: str, message: str) -> InvalidSchema:
    return InvalidSchema(message if name == main else f"import '{name}': {message}")

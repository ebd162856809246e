"""A Protobuf schema: a .proto file together with the files that it imports."""

import base64
import binascii
from collections.abc import Mapping
from functools import cached_property
from typing import Self

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import DecodeError

from tailrace.base.schema_limits import PROTOBUF_CHARACTERS_MAX
from tailrace.schema.language import CompatibilityPolicy, Difference, Imports, InvalidSchema, SchemaType
from tailrace.schema.protobuf.difference import Side, differences
from tailrace.schema.protobuf.element import ProtoFile
from tailrace.schema.protobuf.known_import import NAMES, known_file, known_names
from tailrace.schema.protobuf.link import link
from tailrace.schema.protobuf.parser import parse_file
from tailrace.schema.protobuf.printer import Printer
from tailrace.schema.protobuf.reverse import file_of
from tailrace.schema.protobuf.scope import NameTable

FILE_NAME = "default"
"""The name of the file in its descriptor, which Confluent's registry uses too: a schema itself has no name."""

_NO_IMPORTS: Imports = {}


def parse(text: str, imports: Imports = _NO_IMPORTS) -> "ProtobufSchema":
    """Parse a .proto file, or the serialized descriptor of one in base64, and check it together with its imports."""
    files = {FILE_NAME: read_file(text)}
    for name, body in imports.items():
        if name == FILE_NAME:
            raise InvalidSchema(f"a reference cannot have the name '{FILE_NAME}'")
        try:
            files[name] = read_file(body)
        except InvalidSchema as error:
            raise InvalidSchema(f"import '{name}': {error}") from None
    schema = ProtobufSchema(files)
    schema.linked()
    _ = schema.text  # which may be too long
    return schema


def read_file(text: str) -> ProtoFile:
    """Return the declarations of a .proto file, or of a serialized descriptor in base64."""
    if len(text) > PROTOBUF_CHARACTERS_MAX:
        raise InvalidSchema(
            f"a Protobuf schema has at most {PROTOBUF_CHARACTERS_MAX} characters, and this one {len(text)}"
        )
    if not _is_encodable(text):
        raise InvalidSchema("a Protobuf schema must be valid Unicode, and this one has half of a surrogate pair")
    try:
        return parse_file(text)
    except InvalidSchema as error:
        file = _read_descriptor(text)
        if file is None:
            raise InvalidSchema(f"invalid Protobuf schema: {error}") from None
        return file


def _read_descriptor(text: str) -> ProtoFile | None:
    """Return the file whose serialized descriptor a text is; None if it is anything else.

    The file is read back from its own text, because that is what the registry stores.
    """
    try:
        file = file_of(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        return None
    own_text = canonical_text(file)
    try:
        read_back = parse_file(own_text)
    except InvalidSchema as error:
        raise InvalidSchema(f"invalid Protobuf descriptor: as a file it has an error in {error}") from None
    if canonical_text(read_back) != own_text:
        raise InvalidSchema("invalid Protobuf descriptor: a name in it is not an identifier")
    return read_back


def canonical_text(file: ProtoFile) -> str:
    """Return the text of a file as the registry stores it."""
    return Printer(file, NameTable.of({})).text()


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class ProtobufSchema:
    """A schema that has been checked. Its text is the canonical one."""

    type = SchemaType.PROTOBUF

    def __init__(self, files: Mapping[str, ProtoFile], text: str | None = None) -> None:
        self._files = files
        self._file = files[FILE_NAME]
        self._text = text
        self._linked: dict[str, FileDescriptorProto] | None = None

    def __repr__(self) -> str:
        return f"<ProtobufSchema {self.name}>"

    @cached_property
    def text(self) -> str:
        """The canonical text."""
        return self._text or canonical_text(self._file)

    @cached_property
    def name(self) -> str | None:
        """The full name of the first message, or of the first enum if there are only enums."""
        file = self._counted[1]
        first = next(file.messages(), None) or next(iter(file.types), None)
        if first is None:
            return None
        return f"{file.package}.{first.name}" if file.package else first.name

    def linked(self) -> Mapping[str, FileDescriptorProto]:
        """Return the descriptors of this file and of all that it needs, in the order in which a pool accepts them.

        Raise `InvalidSchema` if a name or a number is wrong.
        """
        if self._linked is None:
            self._linked = link(FILE_NAME, self._files, self._names)
        return self._linked

    @property
    def descriptor(self) -> FileDescriptorProto:
        """The descriptor of the file, with all names resolved."""
        return self.linked()[FILE_NAME]

    @property
    def counted_descriptor(self) -> FileDescriptorProto:
        """The descriptor in which the message indexes of the wire format count."""
        return self.linked()[self._counted[0]]

    def normalized(self) -> Self:
        """Return the schema with sorted fields, options and imports, and with full names."""
        text = Printer(self._file, self._names, normalize=True).text()
        return type(self)({**self._files, FILE_NAME: parse_file(text)}, text)

    def differences(self, writer: Self, policy: CompatibilityPolicy = CompatibilityPolicy.STRICT) -> list[Difference]:
        """Return why this schema cannot read what `writer` wrote. Protobuf has only one policy."""
        return differences(self._side, writer._side)

    def formatted(self, form: str) -> str:
        """Return the text, the text without extensions, or the serialized descriptor in base64."""
        if form == "serialized":
            return base64.b64encode(self.descriptor.SerializeToString()).decode()
        if form == "ignore_extensions":
            return Printer(self._file, self._names, ignore_extensions=True).text()
        return self.text

    @cached_property
    def _names(self) -> NameTable:
        return NameTable.of(self._files, known_names())

    @property
    def _side(self) -> Side:
        return Side(self._file, self._names, FILE_NAME)

    @cached_property
    def _counted(self) -> tuple[str, ProtoFile]:
        """The file whose messages clients count: another one if this one only imports it publicly."""
        file = self._file
        is_wrapper = len(file.public_imports) == 1 and not (file.types or file.imports or file.services or file.extends)
        if is_wrapper:
            name = file.public_imports[0]
            imported = self._files.get(name) or (known_file(name) if name in NAMES else None)
            if imported is not None and imported.types:
                return name, imported
        return FILE_NAME, file

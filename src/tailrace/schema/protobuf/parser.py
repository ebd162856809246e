"""The parser of .proto files: proto2, proto3 and editions.

It accepts what Confluent's registry accepts, and editions besides, so that both read each other's texts. Whether names
exist and numbers are allowed is checked later, when the whole file is known.
"""

from tailrace.base.schema_limits import PROTOBUF_NAME_CHARACTERS_MAX
from tailrace.schema.protobuf.element import (
    FIELD_NUMBER_MAX,
    MAP_KEYS,
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
from tailrace.schema.protobuf.lexer import Lexer
from tailrace.schema.protobuf.option_parser import DEPTH_MAX, read_option, read_options

_LABELS = ("required", "optional", "repeated")
_SPECIAL_OPTIONS = ("default", "json_name")
_SYNTAXES = ("proto2", "proto3")
_EDITIONS = ("2023", "2024")


def parse_file(text: str) -> ProtoFile:
    """Parse a .proto file. Raise `InvalidSchema` with the line of the first error."""
    return _Parser(text).file()


class _Parser:
    def __init__(self, text: str) -> None:
        self._lexer = Lexer(text)
        self._file = ProtoFile()

    def file(self) -> ProtoFile:
        lexer, file = self._lexer, self._file
        if lexer.value in ("syntax", "edition"):
            self._read_syntax(lexer.advance())
        while lexer.kind != "end":
            if lexer.skip(";"):
                continue
            line = lexer.line
            keyword = lexer.word("a declaration")
            if keyword == "package":
                self._read_package()
            elif keyword == "import":
                self._read_import()
            elif keyword == "option":
                file.options.append(self._option())
            elif keyword == "message":
                file.types.append(self._message(line, 1))
            elif keyword == "enum":
                file.types.append(self._enum(line))
            elif keyword == "service":
                file.services.append(self._service(line))
            elif keyword == "extend":
                file.extends.append(self._extend(line))
            elif keyword in ("syntax", "edition"):
                raise lexer.error(f"'{keyword}' must be the first declaration of the file")
            else:
                raise lexer.error(f"unexpected '{keyword[:100]}'")
        return file

    def _read_syntax(self, keyword: str) -> None:
        lexer = self._lexer
        lexer.require("=")
        value = lexer.string()
        if value not in (_SYNTAXES if keyword == "syntax" else _EDITIONS):
            raise lexer.error(f"unknown {keyword} '{value[:100]}'")
        setattr(self._file, keyword, value)
        lexer.require(";")

    def _read_package(self) -> None:
        lexer = self._lexer
        self._file.package = lexer.word("the name of the package")
        if self._file.package.count(".") >= DEPTH_MAX:
            raise lexer.error(f"the name of the package has more than {DEPTH_MAX} parts")
        if len(self._file.package) > PROTOBUF_NAME_CHARACTERS_MAX:
            raise lexer.error(f"the name of the package has more than {PROTOBUF_NAME_CHARACTERS_MAX} characters")
        lexer.require(";")

    def _read_import(self) -> None:
        lexer, names = self._lexer, self._file.imports
        if lexer.kind == "word":
            modifier = lexer.advance()
            if modifier not in ("public", "weak"):
                raise lexer.error(f"expected a quoted string but found '{modifier[:100]}'")
            names = self._file.public_imports if modifier == "public" else self._file.weak_imports
        names.append(lexer.string())
        lexer.require(";")

    def _option(self) -> Option:
        option = read_option(self._lexer)
        self._lexer.require(";")
        return option

    def _message(self, line: int, depth: int) -> Message:
        lexer = self._lexer
        message = Message(lexer.word("the name of a message"), line=line)
        if depth > DEPTH_MAX:
            raise lexer.error(f"message {message.name} is nested deeper than {DEPTH_MAX} levels")
        lexer.require("{")
        while not lexer.skip("}"):
            if not lexer.skip(";"):
                self._read_member(message, depth)
        return message

    def _read_member(self, message: Message, depth: int) -> None:
        lexer = self._lexer
        line = lexer.line
        keyword = lexer.word("a field or '}'")
        if keyword == "option":
            message.options.append(self._option())
        elif keyword == "reserved":
            message.reserved.append(self._reserved(line))
        elif keyword == "message":
            message.types.append(self._message(line, depth + 1))
        elif keyword == "enum":
            message.types.append(self._enum(line))
        elif keyword == "extend":
            message.extends.append(self._extend(line))
        elif keyword == "oneof":
            message.oneofs.append(self._oneof(line))
        elif keyword == "extensions":
            message.extensions.append(self._extensions(line))
        else:
            label, type_name = self._label_and_type(keyword)
            if type_name == "group":
                message.groups.append(self._group(label, line))
            else:
                message.fields.append(self._field(label, type_name, line))

    def _label_and_type(self, keyword: str) -> tuple[str | None, str]:
        lexer = self._lexer
        label = keyword if keyword in _LABELS else None
        if label is None and self._file.needs_labels and not (keyword == "map" and lexer.at("<")):
            raise lexer.error(f"a field of proto2 needs a label, such as optional, before '{keyword[:100]}'")
        if label == "required" and self._file.syntax == "proto3":
            raise lexer.error("proto3 has no required fields")
        type_name = self._type(keyword if label is None else lexer.word("the type of a field"))
        if label and map_parts(type_name):
            raise lexer.error(f"a map cannot be {label}")
        return label, type_name

    def _plain_field(self, place: str) -> Field:
        """Read a field in a place where no group can stand."""
        lexer = self._lexer
        line = lexer.line
        label, type_name = self._label_and_type(lexer.word("a field or '}'"))
        if type_name == "group":
            raise lexer.error(f"{place} cannot hold a group here")
        return self._field(label, type_name, line)

    def _field(self, label: str | None, type_name: str, line: int) -> Field:
        lexer = self._lexer
        name = self._name("the name of a field")
        lexer.require("=")
        number = lexer.integer()
        options = read_options(lexer)
        lexer.require(";")
        values = {option.name: self._text(option) for option in options if option.name in _SPECIAL_OPTIONS}
        others = tuple(option for option in options if option.name not in values)
        return Field(label, type_name, name, number, values.get("default"), values.get("json_name"), others, line)

    def _group(self, label: str | None, line: int) -> Group:
        lexer = self._lexer
        name = self._name("the name of a group")
        lexer.require("=")
        number = lexer.integer()
        lexer.require("{")
        fields = []
        while not lexer.skip("}"):
            fields.append(self._plain_field(f"group {name}"))
        return Group(label, name, number, tuple(fields), line)

    def _oneof(self, line: int) -> OneOf:
        lexer = self._lexer
        name = self._name("the name of a oneof")
        fields: list[Field] = []
        groups: list[Group] = []
        options: list[Option] = []
        lexer.require("{")
        while not lexer.skip("}"):
            if lexer.skip(";"):
                continue
            field_line = lexer.line
            keyword = lexer.word("a field or '}'")
            if keyword == "option":
                options.append(self._option())
            elif keyword == "group":
                groups.append(self._group(None, field_line))
            elif keyword in _LABELS:
                raise lexer.error(f"a field of a oneof cannot be {keyword}")
            else:
                fields.append(self._field(None, self._type(keyword), field_line))
        return OneOf(name, tuple(fields), tuple(groups), tuple(options), line)

    def _extend(self, line: int) -> Extend:
        lexer = self._lexer
        name = self._type(lexer.word("the name of a message"))
        fields = []
        lexer.require("{")
        while not lexer.skip("}"):
            if lexer.skip(";"):
                continue
            fields.append(self._plain_field(f"extend {name}"))
        return Extend(name, tuple(fields), line)

    def _enum(self, line: int) -> Enum:
        lexer = self._lexer
        name = self._name("the name of an enum")
        constants: list[Constant] = []
        reserved: list[Reserved] = []
        options: list[Option] = []
        lexer.require("{")
        while not lexer.skip("}"):
            if lexer.skip(";"):
                continue
            constant_line = lexer.line
            keyword = self._name("a constant or '}'")
            if lexer.skip("="):
                number = lexer.integer()
                constants.append(Constant(keyword, number, tuple(read_options(lexer)), constant_line))
                lexer.require(";")
            elif keyword == "option":
                options.append(self._option())
            elif keyword == "reserved":
                reserved.append(self._reserved(constant_line))
            else:
                raise lexer.unexpected("'='")
        return Enum(name, tuple(constants), tuple(reserved), tuple(options), line)

    def _reserved(self, line: int) -> Reserved:
        lexer = self._lexer
        values: list[int | str | Range] = []
        while True:
            if lexer.kind == "string":
                values.append(lexer.string())
            elif self._file.edition and lexer.kind == "word" and not lexer.value.lstrip("-")[:1].isdigit():
                values.append(lexer.advance())
            else:
                values.append(self._number_or_range())
            if lexer.skip(";"):
                return Reserved(tuple(values), line)
            lexer.require(",")

    def _extensions(self, line: int) -> Extensions:
        lexer = self._lexer
        values = [self._number_or_range()]
        while lexer.skip(","):
            values.append(self._number_or_range())
        options = read_options(lexer)
        lexer.require(";")
        return Extensions(tuple(values), tuple(options), line)

    def _number_or_range(self) -> int | Range:
        lexer = self._lexer
        start = lexer.integer()
        if lexer.kind != "word":
            return start
        if lexer.value != "to":
            raise lexer.unexpected("',', ';' or 'to'")
        lexer.advance()
        if lexer.value == "max":
            lexer.advance()
            return start, FIELD_NUMBER_MAX
        return start, lexer.integer()

    def _service(self, line: int) -> Service:
        lexer = self._lexer
        name = self._name("the name of a service")
        rpcs: list[Rpc] = []
        options: list[Option] = []
        lexer.require("{")
        while not lexer.skip("}"):
            if lexer.skip(";"):
                continue
            rpc_line = lexer.line
            keyword = lexer.word("'rpc' or '}'")
            if keyword == "option":
                options.append(self._option())
            elif keyword == "rpc":
                rpcs.append(self._rpc(rpc_line))
            else:
                raise lexer.error(f"expected 'rpc', 'option' or '}}' but found '{keyword[:100]}'")
        return Service(name, tuple(rpcs), tuple(options), line)

    def _rpc(self, line: int) -> Rpc:
        lexer = self._lexer
        name = self._name("the name of a method")
        request, is_request_stream = self._message_of_rpc()
        if lexer.value != "returns":
            raise lexer.unexpected("'returns'")
        lexer.advance()
        response, is_response_stream = self._message_of_rpc()
        options = []
        if lexer.skip("{"):
            while not lexer.skip("}"):
                if lexer.skip(";"):
                    continue
                if lexer.word("'option' or '}'") != "option":
                    raise lexer.error(f"method {name} can hold only options")
                options.append(self._option())
        else:
            lexer.require(";")
        return Rpc(name, request, response, is_request_stream, is_response_stream, tuple(options), line)

    def _message_of_rpc(self) -> tuple[str, bool]:
        lexer = self._lexer
        lexer.require("(")
        word = lexer.word("the name of a message")
        is_stream = word == "stream" and lexer.kind == "word"
        name = self._type(lexer.advance() if is_stream else word)
        lexer.require(")")
        return name, is_stream

    def _type(self, word: str) -> str:
        """Return the type that begins with a word; the dots of a name may stand between blanks."""
        lexer = self._lexer
        if word == "map" and lexer.skip("<"):
            key = lexer.word("the type of the keys")
            if key not in MAP_KEYS:
                raise lexer.error(f"the keys of a map must be integers, strings or bool, and not {key[:100]}")
            lexer.require(",")
            value = lexer.word("the type of the values")
            if lexer.at("<"):
                raise lexer.error("the values of a map cannot be maps")
            value = self._type(value)
            lexer.require(">")
            return f"map<{key}, {value}>"
        while lexer.kind == "word" and (lexer.value.startswith(".") or word.endswith(".")):
            word += lexer.advance()
        return word

    def _name(self, expected: str) -> str:
        if self._lexer.value[:1].isdigit():
            raise self._lexer.error(f"'{self._lexer.value[:100]}' cannot be a name because it begins with a digit")
        return self._lexer.word(expected)

    def _text(self, option: Option) -> str:
        """Return the value of `default` or `json_name`, which are no options for protobuf though they look like it."""
        value = option.value
        if isinstance(value, Literal):
            return value.text
        if isinstance(value, str):
            return value
        raise self._lexer.error(f"the value of {option.name} must be a string, a number or a name")

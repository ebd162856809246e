"""What the parser accepts and refuses. Every refusal names the place; no input exhausts the stack or the time."""

import base64
import contextlib
import itertools

import pytest
from google.protobuf import timestamp_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from hypothesis import given
from hypothesis import strategies as st

from tailrace.schema.language import InvalidSchema
from tailrace.schema.protobuf import parse
from tailrace.schema.protobuf.known_import import NAMES

REFUSED = {
    "message M { int32 a = 1 }": "line 2: expected ';' but found '}'",
    "message M { int32 a = 1;": "line 2: expected a field or '}' but found the end of the file",
    "message M {\n  int32 a = 1;\n  int32 = 2;\n}": "line 4: expected the name of a field but found '='",
    "message M { int32 a = x; }": "line 2: expected an integer but found 'x'",
    "message M { int32 a = 99999999999; }": "line 2: expected an integer but found '99999999999'",
    "message M { int32 a = 4294967295; }": "line 2: 4294967295 does not fit into 32 bits",
    "message M { int32 2a = 1; }": "line 2: '2a' cannot be a name because it begins with a digit",
    "message { }": "line 2: expected the name of a message but found '{'",
    "mesage M { }": "line 2: unexpected 'mesage'",
    "message M { } }": "line 2: expected a declaration but found '}'",
    "message M { int32 a = 1 [deprecated]; }": "line 2: expected '=' but found ']'",
    "message M { int32 a = 1 [deprecated = true; }": "line 2: expected ',' but found ';'",
    "message M { int32 a = 1 [(x) = {a 1}]; }": "line 2: expected ':' or '{' but found '1'",
    "import google; message M { }": "line 2: expected a quoted string but found 'google'",
    'option java_package = "x; message M { }': "line 2: a string has no end",
    "/* message M { }": "line 2: unexpected character '/'",
    "message M { } @": "line 2: unexpected character '@'",
    'syntax = "proto2"; message M { }': "line 2: 'syntax' must be the first declaration of the file",
    "message M { required int32 a = 1; }": "line 2: proto3 has no required fields",
    "message M { repeated map<string, int32> a = 1; }": "line 2: a map cannot be repeated",
    "message M { map<float, M> a = 1; }": "line 2: the keys of a map must be integers, strings or bool, and not float",
    "message M { map<string, map<string, int32>> a = 1; }": "line 2: the values of a map cannot be maps",
    "message M { oneof o { repeated int32 a = 1; } }": "line 2: a field of a oneof cannot be repeated",
    "message M { reserved 2 until 5; }": "line 2: expected ',', ';' or 'to' but found 'until'",
    "service S { get M; }": "line 2: expected 'rpc', 'option' or '}' but found 'get'",
    "message M { option (a)..b = 1; }": "line 2: the name of an option has two dots in a row",
}
"""Texts of proto3 that are no .proto files."""

WRONG = {
    "message M { int32 a = 1; int32 b = 1; }": "line 2: message M: field 'b' has number 1, which field 'a' has already",
    "message M { int32 a = 1; oneof o { int32 b = 1; } }": (
        "line 2: message M: field 'b' has number 1, which field 'a' has already"
    ),
    "package p; message M { message N { int32 a = 0; } }": (
        "line 2: message p.M.N: field 'a' has number 0, which is not between 1 and 536870911"
    ),
    "message M { int32 a = 536870912; }": (
        "line 2: message M: field 'a' has number 536870912, which is not between 1 and 536870911"
    ),
    "message M { int32 a = -1; }": "line 2: message M: field 'a' has number -1, which is not between 1 and 536870911",
    "message M { int32 a = 19500; }": (
        "line 2: message M: field 'a' has number 19500, but protobuf keeps 19000 to 19999 for itself"
    ),
    "message M { reserved 2 to 4;\n int32 a = 3; }": "line 3: message M: field 'a' has number 3, which is reserved",
    'message M { reserved "a"; int32 a = 3; }': "line 2: message M: field 'a' has a reserved name",
    "message M { reserved 5 to 2; }": "line 2: message M: the range 5 to 2 is not valid",
    "message M { reserved 0 to 2; }": "line 2: message M: the range 0 to 2 is not valid",
    "message M { reserved 1 to 5, 4 to 9; }": "line 2: message M: the ranges 1 to 5 and 4 to 9 overlap",
    "message M { int32 a = 1; string a = 2; }": "line 2: message M: the name 'a' is used twice",
    "message M { } message M { }": "line 2: the file: the name 'M' is used twice",
    "package p; message M { } enum M { X = 0; }": "line 2: package p: the name 'M' is used twice",
    "message M { message N { } enum N { X = 0; } }": "line 2: message M: the name 'N' is used twice",
    "message M { oneof o { } }": "line 2: message M: oneof o has no fields",
    "enum E { }": "line 2: enum E has no constants",
    "enum E { X = 1; }": "line 2: enum E: the first constant of an enum of proto3 must be 0",
    "enum E { X = 0; Y = 0; }": (
        "line 2: enum E: constant Y has number 0, which X has already; set allow_alias if both are meant"
    ),
    "enum E { X = 0; X = 1; }": "line 2: enum E: the name 'X' is used twice",
    "enum E { reserved -3 to -1; X = 0; Y = -2; }": "line 2: enum E: constant Y has number -2, which is reserved",
    'enum E { reserved "Y"; X = 0; Y = 2; }': "line 2: enum E: constant Y has a reserved name",
    "message M { N n = 1; }": (
        "line 2: message M: field 'n': type 'N' is not defined here, in an import or in a reference"
    ),
    "message M { map<string, p.N> n = 1; }": (
        "line 2: message M: map n: field 'value': type 'p.N' is not defined here, in an import or in a reference"
    ),
    "package p; message M { message N { O o = 1; } }": (
        "line 2: message p.M.N: field 'o': type 'O' is not defined here, in an import or in a reference"
    ),
    "message M { } service S { rpc Get (M) returns (N); }": (
        "line 2: service S: method Get: type 'N' is not defined here, in an import or in a reference"
    ),
    "extend M { int32 a = 1; }": "line 2: extend M: type 'M' is not defined here, in an import or in a reference",
    'import "n.proto"; message M { }': "import 'n.proto' is not among the references",
    "message M { option deprecated = maybe; }": "message M: option deprecated must be true or false",
    "option optimize_for = FUN; message M { }": (
        "file: option optimize_for must be one of SPEED, CODE_SIZE, LITE_RUNTIME"
    ),
    "option java_package = 7; message M { }": "file: option java_package must be a quoted string",
    "message M { int32 a-b = 1; }": (
        "protobuf does not accept the file: invalid name: non-alphanumeric character (a-b)"
    ),
    "message M { message E { option map_entry = true; string key = 1; } }": (
        "line 2: message M.E: the entry of a map has the fields key = 1 and value = 2 and no others"
    ),
    "message M { int32 fooBar = 1; int32 foo_bar = 2; }": (
        "protobuf does not accept the file: duplicate json_name for (foo_bar) with original field name (fooBar)"
    ),
}
"""Files of proto3 whose names or numbers protobuf forbids."""


@pytest.mark.parametrize("text", REFUSED)
def test_a_text_with_an_error_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(InvalidSchema) as caught:
        parse('syntax = "proto3";\n' + text)
    assert str(caught.value) == f"invalid Protobuf schema: {REFUSED[text]}"


@pytest.mark.parametrize("text", WRONG)
def test_wrong_names_and_numbers_are_refused_with_their_place(text: str) -> None:
    with pytest.raises(InvalidSchema) as caught:
        parse('syntax = "proto3";\n' + text)
    assert str(caught.value) == WRONG[text]


def test_a_field_of_proto2_needs_a_label() -> None:
    with pytest.raises(
        InvalidSchema, match="line 1: a field of proto2 needs a label, such as optional, before 'int32'"
    ):
        parse("message M { int32 a = 1; }")


DEEP = {
    "messages": "message M { " * 10_000 + "}" * 10_000,
    "braces of an option": "option (a) = " + "{a: " * 10_000 + "1" + "}" * 10_000 + ";",
    "brackets of an option": "option (a) = " + "[" * 10_000 + "]" * 10_000 + ";",
    "parentheses": "option " + "(" * 10_000 + "a" + ")" * 10_000 + " = 1;",
    "dots of an option": "option (a)" + ".b" * 10_000 + " = 1;",
    "dots of a plain option": "option a" + ".b" * 10_000 + " = 1;",
    "dots of a package": "package a" + ".b" * 10_000 + "; message M { N n = 1; }",
    "dots of a type": "message M { a" + ".b" * 10_000 + " n = 1; }",
    "maps": "message M { " + "map<string, " * 10_000 + "int32" + ">" * 10_000 + " a = 1; }",
    "groups": "message M { " + "optional group G = 1 { " * 10_000 + "}" * 10_001,
    "comments": "/* " * 100_000,
    "backslashes": 'option a = "' + "\\" * 99_999,
    "blanks before an error": " " * 1_000_000 + "@",
    "stars": "/*" + "*" * 1_000_000,
}


@pytest.mark.parametrize("name", DEEP)
def test_deep_nesting_is_refused_without_recursion(name: str) -> None:
    with pytest.raises(InvalidSchema):
        parse('syntax = "proto3";\n' + DEEP[name])


def test_messages_may_be_nested_as_deep_as_protobuf_reads_descriptors() -> None:
    def nested(depth: int) -> str:
        return 'syntax = "proto3"; ' + "message M { int32 a = 1 [deprecated = true]; " * depth + "}" * depth

    schema = parse(nested(90))
    assert parse(schema.formatted("serialized")).text == schema.text
    with pytest.raises(InvalidSchema, match="message M is nested deeper than 90 levels"):
        parse(nested(91))


def test_ten_megabytes_are_refused_at_once() -> None:
    text = 'syntax = "proto3"; ' + "message M { int32 first = 1; string second = 2; }\n" * 210_000
    with pytest.raises(InvalidSchema, match="at most 2097152 characters, and this one"):
        parse(text)


@pytest.mark.parametrize(
    "text", ["\0\1\2", "😀", "option a = '\ud800';", "====", "AAAA" * 100, "//", "{", "null", "[]"]
)
def test_other_texts_are_refused_or_hold_no_message(text: str) -> None:
    with contextlib.suppress(InvalidSchema):
        assert parse(text).name is None


@given(st.text(alphabet=st.sampled_from("messag M{}()[]<>=;,:.\"'/*-0123456789\\\n\tint32 optional"), max_size=60))
def test_no_text_raises_anything_else(text: str) -> None:
    for head in ("", 'syntax = "proto3"; message M { '):
        try:
            schema = parse(head + text)
        except InvalidSchema:
            continue
        assert parse(schema.text).text == schema.text


TOKENS = [
    "message",
    "M",
    "{",
    "}",
    "int32",
    "a",
    "=",
    "1",
    ";",
    "oneof",
    "map",
    "<",
    ">",
    "enum",
    "0",
    "group",
    "[",
    "]",
]


@given(
    st.lists(
        st.sampled_from([*TOKENS, "optional", "reserved", "to", "max", "option", "(", ")", '"x"', "extend"]),
        max_size=40,
    )
)
def test_no_order_of_words_raises_anything_else(words: list[str]) -> None:
    try:
        schema = parse(" ".join(words))
    except InvalidSchema:
        return
    assert parse(schema.text).text == schema.text


def test_every_prefix_of_a_schema_is_refused_or_parsed() -> None:
    text = """syntax = "proto2"; package p; import "google/protobuf/any.proto"; option java_package = "x";
        message M { optional int32 a = 1 [default = 1, (x) = {a: "b" c: [1]}]; oneof o { string b = 2; }
        reserved 9 to max; map<string, M> m = 3; optional group G = 4 { optional int32 a = 1; } } enum E { X = 0; }
        service S { rpc Get (stream M) returns (M) { option deprecated = true; } }"""
    assert parse(text).name == "p.M"
    for end in range(len(text)):
        try:
            parse(text[:end])
        except InvalidSchema:
            continue


def serialized(descriptor: FileDescriptorProto) -> str:
    return base64.b64encode(descriptor.SerializeToString()).decode()


def test_a_serialized_descriptor_is_a_schema() -> None:
    schema = parse(base64.b64encode(timestamp_pb2.DESCRIPTOR.serialized_pb).decode())
    assert schema.name == "google.protobuf.Timestamp"
    assert 'message Timestamp {\n  int64 seconds = 1 [json_name = "seconds"];\n' in schema.text


def test_the_text_of_a_descriptor_cannot_hold_what_the_descriptor_does_not() -> None:
    for name in ("M { } message N", "M;", 'a"b', "", "a b", "1"):
        descriptor = FileDescriptorProto(syntax="proto3")
        descriptor.message_type.add(name=name)
        with pytest.raises(InvalidSchema):
            parse(serialized(descriptor))


def test_a_descriptor_with_strings_that_are_not_utf_8_is_refused() -> None:
    descriptor = FileDescriptorProto(syntax="proto3", package="abc")
    broken = descriptor.SerializeToString().replace(b"abc", b"a\xffc")
    with pytest.raises(InvalidSchema):
        parse(base64.b64encode(broken).decode())


def test_the_features_of_a_descriptor_stay_in_the_text_but_count_only_in_editions() -> None:
    """Confluent's registry stores the descriptor of an edition as proto2, and so does this one."""
    edition = parse('edition = "2023"; message M { int32 a = 1 [features.field_presence = IMPLICIT]; }')
    schema = parse(edition.formatted("serialized"))
    assert "optional int32 a = 1 [features = {\n    field_presence: IMPLICIT\n  }];" in schema.text
    assert not schema.descriptor.message_type[0].field[0].HasField("options")


@pytest.mark.parametrize("name", sorted(NAMES))
def test_well_known_files_need_no_reference(name: str) -> None:
    assert parse(f'syntax = "proto3"; import "{name}"; message M {{ int32 a = 1; }}').name == "M"


def test_imports_are_found_by_their_names_and_through_each_other() -> None:
    imports = {
        "a/b.proto": 'syntax = "proto3"; package ab; message B { }',
        "c.proto": 'syntax = "proto3"; import "a/b.proto"; package c; message C { ab.B b = 1; }',
    }
    schema = parse('syntax = "proto3"; import "c.proto"; message M { c.C c = 1; ab.B b = 2; }', imports)
    assert list(schema.linked()) == ["a/b.proto", "c.proto", "default"]


def test_errors_of_an_import_name_it() -> None:
    text = 'syntax = "proto3"; import "a.proto"; message M { }'
    for imported, message in {
        "message {": "import 'a.proto': invalid Protobuf schema: line 1: expected the name of a message but found '{'",
        'import "b.proto";': "import 'a.proto': import 'b.proto' is not among the references",
        "message A { optional int32 a = 1; optional int32 b = 1; }": (
            "import 'a.proto': line 1: message A: field 'b' has number 1, which field 'a' has already"
        ),
    }.items():
        with pytest.raises(InvalidSchema) as caught:
            parse(text, {"a.proto": imported})
        assert str(caught.value) == message


def test_imports_that_go_in_a_circle_are_refused() -> None:
    imports = {"a.proto": 'import "b.proto";', "b.proto": 'import "a.proto";'}
    with pytest.raises(InvalidSchema, match=r"files import each other in a circle: .*a\.proto"):
        parse('import "a.proto"; message M { }', imports)
    with pytest.raises(InvalidSchema, match="files import each other in a circle"):
        parse('import "a.proto"; message M { }', {"a.proto": 'import "a.proto";'})


def test_a_long_chain_of_imports_is_no_problem() -> None:
    imports = {"0.proto": "message M0 { }"}
    for before, place in itertools.pairwise(range(1_500)):
        imports[f"{place}.proto"] = f'import "{before}.proto"; message M{place} {{ optional M{before} m = 1; }}'
    assert parse('import "1499.proto"; message M { optional M1499 m = 1; }', imports).name == "M"


def test_a_message_that_an_import_declares_too_is_refused() -> None:
    with pytest.raises(InvalidSchema, match="protobuf does not accept the file: duplicate symbol 'M'"):
        parse('import "a.proto"; message M { }', {"a.proto": "message M { }"})


@pytest.mark.parametrize(
    "text",
    [
        "option (a) = " + "{a: " * 85 + "{" + "b:1 " * 20_000 + "}" + "}" * 85 + ";",
        "".join(f"message M{depth} {{ " for depth in range(85))
        + "enum E { A = 0; "
        + "".join(f"B{number} = {number}; " for number in range(1, 20_000))
        + "}" * 86,
    ],
)
def test_deep_nesting_does_not_multiply_the_text(text: str) -> None:
    """Each level indented all lines within once more: 40 KB became 3 MB."""
    with pytest.raises(InvalidSchema, match=r"with its lines indented, .* more than 2097152 characters; nest messages"):
        parse('syntax = "proto3"; ' + text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("package {name};", "line 2: the name of the package has more than 1000 characters"),
        ("message {name} {{ }}", "the full name of a type has 1001 characters of at most 1000: aaa"),
        ("package p; message M {{ enum {name} {{ A = 0; }} }}", "the full name of a type has 1005 characters"),
    ],
)
def test_a_name_of_too_many_characters_is_refused(text: str, said: str) -> None:
    """Each reference to a type was looked for below the whole name of the package, which could have 320 KB."""
    file = 'syntax = "proto3";\n' + text
    with pytest.raises(InvalidSchema) as error:
        parse(file.format(name="a" * 1_001))
    assert said in str(error.value)
    parse(file.format(name="a" * 990))

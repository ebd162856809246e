"""The table of compatibility cases, written from the specification of Avro 1.12, section Schema Resolution."""

from dataclasses import dataclass

from tailrace.records.avro.type import Json

DEFAULT = "READER_FIELD_MISSING_DEFAULT_VALUE"
TYPE = "TYPE_MISMATCH"
NAME = "NAME_MISMATCH"
SIZE = "FIXED_SIZE_MISMATCH"
SYMBOLS = "MISSING_ENUM_SYMBOLS"
BRANCH = "MISSING_UNION_BRANCH"
OK = ""


@dataclass(frozen=True)
class Case:
    """Two schemas, and what breaks if the first reads what the second wrote, and the other way round."""

    name: str
    one: Json
    other: Json
    one_reads: str
    other_reads: str


def record(*fields: Json, name: str = "R", **attributes: Json) -> Json:
    return {"type": "record", "name": name, "fields": list(fields), **attributes}


def field(name: str, type_: Json, **attributes: Json) -> Json:
    return {"name": name, "type": type_, **attributes}


def enum(*symbols: Json, name: str = "E", **attributes: Json) -> Json:
    return {"type": "enum", "name": name, "symbols": list(symbols), **attributes}


def fixed(size: int, name: str = "F", **attributes: Json) -> Json:
    return {"type": "fixed", "name": name, "size": size, **attributes}


def array(items: Json) -> Json:
    return {"type": "array", "items": items}


def map_of(values: Json) -> Json:
    return {"type": "map", "values": values}


def decimal(precision: int, scale: int | None = None) -> Json:
    attributes: dict[str, Json] = {} if scale is None else {"scale": scale}
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, **attributes}


def logical(type_: str, name: str) -> Json:
    return {"type": type_, "logicalType": name}


A = field("a", "int")
B = field("b", "string", default="")
LIST = record(field("next", ["null", "R"]), A)
TREE = record(A, field("children", array("R")))

PRIMITIVE_CASES = [
    Case("the same primitive", "string", "string", OK, OK),
    Case("int to long", "long", "int", OK, TYPE),
    Case("int to float", "float", "int", OK, TYPE),
    Case("int to double", "double", "int", OK, TYPE),
    Case("long to float", "float", "long", OK, TYPE),
    Case("long to double", "double", "long", OK, TYPE),
    Case("float to double", "double", "float", OK, TYPE),
    Case("string to bytes and back", "bytes", "string", OK, OK),
    Case("int and boolean", "int", "boolean", TYPE, TYPE),
    Case("int and string", "string", "int", TYPE, TYPE),
    Case("double and string", "double", "string", TYPE, TYPE),
    Case("null and int", "null", "int", TYPE, TYPE),
    Case("boolean and null", "boolean", "null", TYPE, TYPE),
    Case("long and bytes", "long", "bytes", TYPE, TYPE),
    Case("a primitive as an object", {"type": "int"}, "int", OK, OK),
    Case("a primitive and a record", "string", record(A), TYPE, TYPE),
    Case("a primitive and an array", "int", array("int"), TYPE, TYPE),
]

FIELD_CASES = [
    Case("the same record", record(A, B), record(A, B), OK, OK),
    Case("fields in another order", record(A, B), record(B, A), OK, OK),
    Case("a field with a default is added", record(A, B), record(A), OK, OK),
    Case("a field without a default is added", record(B, A), record(B), DEFAULT, OK),
    Case("two fields without defaults are added", record(A, field("c", "int")), record(), f"{DEFAULT} {DEFAULT}", OK),
    Case("a field with the default null", record(field("a", ["null", "int"], default=None)), record(), OK, OK),
    Case("an optional field without a default", record(field("a", ["null", "int"])), record(), DEFAULT, OK),
    Case("a default of the second branch", record(field("a", ["null", "int"], default=1)), record(), OK, OK),
    Case("a field is renamed", record(A), record(field("b", "int")), DEFAULT, DEFAULT),
    Case("a field becomes wider", record(field("a", "long")), record(A), OK, TYPE),
    Case("a field becomes another type", record(field("a", "string")), record(A), TYPE, TYPE),
    Case("a default does not help against a type", record(field("a", "string", default="")), record(A), TYPE, TYPE),
    Case("a field becomes optional", record(field("a", ["null", "int"])), record(A), OK, TYPE),
    Case("only the default changes", record(field("a", "int", default=1)), record(A), OK, OK),
    Case("only documentation changes", record(field("a", "int", doc="new"), doc="new"), record(A), OK, OK),
    Case("only the order changes", record(field("a", "int", order="ignore")), record(A), OK, OK),
    Case(
        "a nested record gains a field",
        record(field("x", record(A, B, name="N"))),
        record(field("x", record(B, name="N"))),
        DEFAULT,
        OK,
    ),
    Case("an empty record", record(), record(A, B), OK, DEFAULT),
    Case("an error and a record", {"type": "error", "name": "R", "fields": [A]}, record(A), OK, OK),
    Case("a record and a map", record(A), map_of("int"), TYPE, TYPE),
    Case("an enum's default is no field's default", record(field("e", enum("X", default="X"))), record(), DEFAULT, OK),
]

NAME_CASES = [
    Case("another name", record(A, name="S"), record(A), NAME, NAME),
    Case("another namespace", record(A, namespace="x"), record(A, namespace="y"), OK, OK),
    Case("a namespace is added", record(A, namespace="x"), record(A), OK, OK),
    Case("an alias of a record", record(A, name="S", aliases=["R"]), record(A), OK, NAME),
    Case("an alias in the namespace", record(A, name="x.S", aliases=["R"]), record(A, name="x.R"), OK, NAME),
    Case("an alias in another namespace", record(A, name="x.S", aliases=["y.R"]), record(A, name="y.R"), OK, NAME),
    Case(
        "an alias that means another namespace", record(A, name="x.S", aliases=["R"]), record(A, name="y.R"), NAME, NAME
    ),
    Case("aliases on both sides", record(A, name="S", aliases=["R"]), record(A, aliases=["S"]), OK, OK),
    Case("an alias of an enum", enum("X", name="D", aliases=["E"]), enum("X"), OK, NAME),
    Case("an alias of a fixed", fixed(4, name="G", aliases=["F"]), fixed(4), OK, NAME),
    Case("another name of an enum", enum("X", name="D"), enum("X"), NAME, NAME),
    Case("another name of a fixed", fixed(4, name="G"), fixed(4), NAME, NAME),
    Case("an alias of a field", record(field("b", "int", aliases=["a"])), record(A), OK, DEFAULT),
    Case("one of several aliases of a field", record(field("b", "int", aliases=["z", "a"])), record(A), OK, DEFAULT),
    Case("an alias of a field of another type", record(field("b", "string", aliases=["a"])), record(A), TYPE, DEFAULT),
    Case(
        "a field's alias that the writer has too",
        record(field("b", "int", aliases=["a"])),
        record(A, field("b", "int")),
        NAME,
        DEFAULT,
    ),
    Case(
        "an alias of a nested record",
        record(field("x", record(A, name="N", aliases=["M"]))),
        record(field("x", record(A, name="M"))),
        OK,
        NAME,
    ),
    Case("an enum and a record of one name", enum("X", name="R"), record(A), TYPE, TYPE),
    Case("an enum and a string", enum("X"), "string", TYPE, TYPE),
    Case("a fixed and bytes", fixed(4), "bytes", TYPE, TYPE),
]

ENUM_AND_FIXED_CASES = [
    Case("the same enum", enum("X", "Y"), enum("X", "Y"), OK, OK),
    Case("symbols in another order", enum("Y", "X"), enum("X", "Y"), OK, OK),
    Case("a symbol is added", enum("X", "Y"), enum("X"), OK, SYMBOLS),
    Case("a symbol is added with a default", enum("X", "Y", default="X"), enum("X", default="X"), OK, OK),
    Case("a symbol is removed, only the old enum has a default", enum("X"), enum("X", "Y", default="X"), SYMBOLS, OK),
    Case("a symbol is replaced", enum("X", "Z"), enum("X", "Y"), SYMBOLS, SYMBOLS),
    Case("all symbols are replaced, with a default", enum("Z", default="Z"), enum("X"), OK, SYMBOLS),
    Case(
        "an enum in a field loses a symbol",
        record(field("e", enum("X"))),
        record(field("e", enum("X", "Y"))),
        SYMBOLS,
        OK,
    ),
    Case(
        "a field's default is no enum's default",
        record(field("e", enum("X"), default="X")),
        record(field("e", enum("X", "Y"))),
        SYMBOLS,
        OK,
    ),
    Case("the same fixed", fixed(4), fixed(4), OK, OK),
    Case("another size", fixed(8), fixed(4), SIZE, SIZE),
    Case("another name and size", fixed(8, name="G"), fixed(4), f"{NAME} {SIZE}", f"{NAME} {SIZE}"),
    Case("another name and symbols", enum("X", name="D"), enum("Y"), f"{NAME} {SYMBOLS}", f"{NAME} {SYMBOLS}"),
]

CONTAINER_CASES = [
    Case("the same array", array("int"), array("int"), OK, OK),
    Case("items become wider", array("long"), array("int"), OK, TYPE),
    Case("items of another type", array("string"), array("int"), TYPE, TYPE),
    Case("values become wider", map_of("double"), map_of("float"), OK, TYPE),
    Case("values of another type", map_of("boolean"), map_of("int"), TYPE, TYPE),
    Case("an array and a map", array("int"), map_of("int"), TYPE, TYPE),
    Case("an array of arrays", array(array("long")), array(array("int")), OK, TYPE),
    Case("records in a map gain a field", map_of(record(A)), map_of(record()), DEFAULT, OK),
    Case("items become optional", array(["null", "int"]), array("int"), OK, TYPE),
    Case("an enum in an array loses a symbol", array(enum("X")), array(enum("X", "Y")), SYMBOLS, OK),
]

UNION_CASES = [
    Case("the same union", ["null", "int"], ["null", "int"], OK, OK),
    Case("branches in another order", ["int", "null"], ["null", "int"], OK, OK),
    Case("a branch is added", ["null", "int", "string"], ["null", "int"], OK, BRANCH),
    Case("two branches are added", ["null", "int", "string"], ["null"], OK, f"{BRANCH} {BRANCH}"),
    Case("a type becomes a union", ["null", "int"], "int", OK, TYPE),
    Case("a type becomes a union without it", ["null", "string"], "int", BRANCH, f"{TYPE} {TYPE}"),
    Case("a type becomes a union with a wider one", ["null", "long"], "int", OK, f"{TYPE} {TYPE}"),
    Case("a union of one type", ["int"], "int", OK, OK),
    Case("a union of narrower types", "double", ["int", "float"], OK, BRANCH),
    Case("a branch becomes wider", ["null", "long"], ["null", "int"], OK, BRANCH),
    Case("string and bytes in unions", ["null", "bytes"], ["null", "string"], OK, OK),
    Case("records in a union", ["null", record(A, B)], ["null", record(A)], OK, OK),
    Case("a record in a union gains a field", ["null", record(A)], ["null", record()], BRANCH, OK),
    Case("a record in a union has another name", ["null", record(A, name="S")], ["null", record(A)], BRANCH, BRANCH),
    Case(
        "a record in a union has an alias",
        ["null", record(A, name="S", aliases=["R"])],
        ["null", record(A)],
        OK,
        BRANCH,
    ),
    Case("two records in a union", [record(A, name="S"), record(A)], [record(A)], OK, BRANCH),
    Case("two records of one name, the second fits", [record(A, name="x.R"), record(name="y.R")], record(), OK, OK),
    Case("an enum in a union loses a symbol", ["null", enum("X")], ["null", enum("X", "Y")], BRANCH, OK),
    Case("a fixed in a union changes its size", ["null", fixed(8)], ["null", fixed(4)], BRANCH, BRANCH),
    Case("arrays in a union", ["null", array("long")], ["null", array("int")], OK, BRANCH),
    Case("an empty union", [], ["int"], BRANCH, OK),
    Case(
        "a union in a field",
        record(field("a", ["null", "int", "string"])),
        record(field("a", ["null", "int"])),
        OK,
        BRANCH,
    ),
]

RECURSION_CASES = [
    Case("the same list", LIST, LIST, OK, OK),
    Case("a list gains a field with a default", record(field("next", ["null", "R"]), A, B), LIST, OK, OK),
    Case("a list gains a field without a default", LIST, record(field("next", ["null", "R"])), DEFAULT, OK),
    Case("a list's items become wider", record(field("next", ["null", "R"]), field("a", "long")), LIST, OK, TYPE),
    Case("the same tree", TREE, TREE, OK, OK),
    Case("a tree of another name", record(A, field("children", array("T")), name="T"), TREE, NAME, NAME),
    Case("a tree with an alias", record(A, field("children", array("T")), name="T", aliases=["R"]), TREE, OK, NAME),
    Case("a list becomes a tree", TREE, LIST, DEFAULT, DEFAULT),
    Case(
        "two records that contain each other",
        record(field("s", ["null", record(field("r", ["null", "R"]), name="S")])),
        record(field("s", ["null", record(field("r", ["null", "R"]), A, name="S")])),
        OK,
        BRANCH,
    ),
    Case(
        "a list is unrolled once",
        record(field("next", ["null", record(field("next", ["null", "R"]), A, name="x.R")]), A),
        LIST,
        OK,
        OK,
    ),
]

LOGICAL_CASES = [
    Case("the same decimal", decimal(10, 2), decimal(10, 2), OK, OK),
    Case("another scale", decimal(10, 3), decimal(10, 2), TYPE, TYPE),
    Case("a larger precision", decimal(12, 2), decimal(10, 2), TYPE, TYPE),
    Case("no scale and the scale 0", decimal(10), decimal(10, 0), OK, OK),
    Case("a decimal and bytes", decimal(10, 2), "bytes", OK, OK),
    Case("an invalid decimal is plain bytes", decimal(2, 10), decimal(10, 2), OK, OK),
    Case(
        "fixed decimals of another scale",
        fixed(8, logicalType="decimal", precision=10, scale=1),
        fixed(8, logicalType="decimal", precision=10, scale=2),
        TYPE,
        TYPE,
    ),
    Case(
        "a precision too large for its fixed is ignored",
        fixed(2, logicalType="decimal", precision=10, scale=1),
        fixed(2, logicalType="decimal", precision=4, scale=2),
        OK,
        OK,
    ),
    Case(
        "a decimal in an optional field",
        record(field("d", ["null", decimal(10, 3)])),
        record(field("d", ["null", decimal(10, 2)])),
        BRANCH,
        BRANCH,
    ),
    Case("decimals in an array", array(decimal(9, 1)), array(decimal(9, 2)), TYPE, TYPE),
    Case("a date and an int", logical("int", "date"), "int", OK, OK),
    Case("a date and a time", logical("int", "date"), logical("int", "time-millis"), OK, OK),
    Case("timestamps of other units", logical("long", "timestamp-micros"), logical("long", "timestamp-millis"), OK, OK),
    Case("a timestamp and an int", logical("long", "timestamp-millis"), "int", OK, TYPE),
    Case("a uuid and a string", logical("string", "uuid"), "string", OK, OK),
    Case("a date and a string", logical("int", "date"), "string", TYPE, TYPE),
    Case("an unknown logical type", logical("int", "colour"), logical("int", "date"), OK, OK),
    Case("a duration and its fixed", fixed(12, logicalType="duration"), fixed(12), OK, OK),
]

CASES = [
    *PRIMITIVE_CASES,
    *FIELD_CASES,
    *NAME_CASES,
    *ENUM_AND_FIXED_CASES,
    *CONTAINER_CASES,
    *UNION_CASES,
    *RECURSION_CASES,
    *LOGICAL_CASES,
]

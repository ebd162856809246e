"""The conversion of Arrow columns from the schema of their writer to that of a reader, by Avro's rules.

    resolver = ColumnResolver(reader_type, writer_type)
    rows = resolver.resolve(AvroDecoder(writer_type, schema_id=7).decode(values))

A resolver is compiled once for a pair of schemas to steps over whole columns. A step gets a column and which of its
rows are present, and returns a column of the reader's type that is null where no row is present.

Avro for Java ignores logical types here. A change from plain numbers to a date, time or timestamp, or back, does keep
the number, but a timestamp in milliseconds that is read in microseconds remains the same moment.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pyarrow.compute as pc

from tailrace.records.arrow.avro_plan import UnsupportedAvroType, make_plan
from tailrace.records.arrow.schema import pa
from tailrace.records.avro.type import Array, Enum, Map, Record, Type, Union, name_of
from tailrace.records.error import RecordError
from tailrace.schema.avro.default_value import default_column
from tailrace.schema.avro.resolution import MISSING_ENUM_SYMBOLS, Problem, Resolver, described

Step = Callable[[Any, Any], Any]

_NUMBERS = {"int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64()}
_STORAGE = {**_NUMBERS, "bytes": pa.binary(), "string": pa.string()}
_UNITS = ("s", "ms", "us", "ns")


class UnresolvedValue(RecordError):
    """A value that the reader's schema cannot describe. The message names the row."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(f"row {row}: the value does not fit the reader's schema: {reason}")
        self.row = row
        self.reason = reason


class ColumnResolver:
    """Converts columns that were decoded with the writer's schema."""

    def __init__(self, reader: Type, writer: Type) -> None:
        """Raise `UnsupportedAvroType` for a recursive schema, and for bytes that become a decimal or were one.

        Schemas that do not fit are no error: each value that would need the missing rule is.
        """
        self.type = make_plan(reader).column.type
        make_plan(writer)
        self._step = _Compiler().compile(reader, writer)

    def resolve(self, column: Any) -> Any:
        """Return the column with the reader's type. Null stays null. Raise `UnresolvedValue` at the first wrong row."""
        if isinstance(column, pa.ChunkedArray):
            return pa.chunked_array([self.resolve(chunk) for chunk in column.chunks], self.type)
        if self._step is _keep:
            return column
        try:
            return self._step(column, column.is_valid())
        except _Misfit as misfit:
            raise self._located(column, misfit) from None

    def _located(self, column: Any, misfit: "_Misfit") -> UnresolvedValue:
        """Find the first wrong row by halves: columns of items do not say to which row an item belongs."""
        start, end = 0, len(column)
        while end - start > 1:
            middle = (start + end) // 2
            try:
                self._step(part := column[start:middle], part.is_valid())
            except _Misfit as earlier:
                end, misfit = middle, earlier
            else:
                start = middle
        return UnresolvedValue(start, str(misfit))


class _Misfit(Exception):
    """Why a value does not fit."""


class _Compiler:
    def __init__(self) -> None:
        self._rules = Resolver()

    def compile(self, reader: Type, writer: Type) -> Step:
        if _shape(reader) == _shape(writer):
            return _keep
        if isinstance(writer, Union):
            return self._from_union(reader, writer)
        if isinstance(reader, Union):
            return self._to_union(reader, writer)
        reason = self._misfit(reader, writer)
        type_ = _arrow_type(reader)
        if reason is not None:
            return partial(_refuse, type_, reason)
        if isinstance(reader, Record) and isinstance(writer, Record):
            return partial(_convert_record, type_, self._fields(reader, writer))
        if isinstance(reader, Array) and isinstance(writer, Array):
            return partial(_convert_items, type_, self.compile(reader.items, writer.items))
        if isinstance(reader, Map) and isinstance(writer, Map):
            return partial(_convert_values, type_, self.compile(reader.values, writer.values))
        if isinstance(reader, Enum) and isinstance(writer, Enum):
            return partial(_convert_symbols, reader)
        return _leaf(reader, writer)

    def _misfit(self, reader: Type, writer: Type) -> str | None:
        """Return why no value fits. Whether the symbol of an enum fits depends on the value."""
        steps = self._rules.resolve(reader, writer).steps
        problems = (step for step in steps if isinstance(step, Problem) and step.kind != MISSING_ENUM_SYMBOLS)
        problem = next(problems, None)
        if problem is None:
            return None
        return f"{problem.place}: {problem.message}" if problem.place else problem.message

    def _from_union(self, reader: Type, writer: Union) -> Step:
        branches = [branch for branch in writer.branches if branch.kind != "null"]
        steps = [self.compile(reader, branch) for branch in branches]
        has_null = len(branches) < len(writer.branches)
        is_optional = has_null and len(branches) == 1
        step = partial(_if_valid, steps[0]) if is_optional else partial(_join_members, _arrow_type(reader), steps)
        if has_null and not _takes_null(reader):
            return partial(_refuse_null, f"null cannot be read as {described(reader)}", step)
        return step

    def _to_union(self, reader: Union, writer: Type) -> Step:
        type_ = _arrow_type(reader)
        if writer.kind == "null" and _takes_null(reader):
            return partial(_all_null, type_)
        branches = [branch for branch in reader.branches if branch.kind != "null"]
        index = self._branch(branches, writer)
        if index is None:
            return partial(_refuse, type_, f"the reader's union has no branch for the writer's {described(writer)}")
        step = self.compile(branches[index], writer)
        if len(branches) == 1 and len(reader.branches) > 1:
            return step
        return partial(_set_member, type_, index, step)

    def _branch(self, branches: list[Type], writer: Type) -> int | None:
        """Return the branch that Avro for Java takes: the type of the same name, else one of the same kind, else any.

        The first one is taken among equals.
        """
        fitting = [index for index, branch in enumerate(branches) if self._misfit(branch, writer) is None]
        same_name = [index for index in fitting if name_of(branches[index]) == name_of(writer)]
        same_kind = [index for index in fitting if branches[index].kind == writer.kind]
        return next(iter(same_name or same_kind or fitting), None)

    def _fields(self, reader: Record, writer: Record) -> "list[_WrittenField | _Default]":
        indexes = {field.name: index for index, field in enumerate(writer.fields)}
        fields: list[_WrittenField | _Default] = []
        for field in reader.fields:
            index = next((indexes[name] for name in (field.name, *field.aliases) if name in indexes), None)
            if index is None:
                fields.append(_Default(default_column(field)))
            else:
                fields.append(_WrittenField(index, self.compile(field.type, writer.fields[index].type)))
        return fields


class _WrittenField(NamedTuple):
    position: int
    step: Step


class _Default(NamedTuple):
    column: Any


def _arrow_type(type_: Type) -> Any:
    return make_plan(type_).column.type


def _shape(type_: Type) -> tuple[Any, ...]:
    """Return all of a type that resolution depends on, so that types of equal shape need none."""
    if isinstance(type_, Record):
        return "record", type_.name.full, tuple((field.name, _shape(field.type)) for field in type_.fields)
    if isinstance(type_, Union):
        return "union", tuple(map(_shape, type_.branches))
    if isinstance(type_, Array):
        return "array", _shape(type_.items)
    if isinstance(type_, Map):
        return "map", _shape(type_.values)
    if isinstance(type_, Enum):
        return "enum", type_.name.full, type_.symbols
    return name_of(type_), str(_arrow_type(type_))


def _takes_null(type_: Type) -> bool:
    return any(branch.kind == "null" for branch in (type_.branches if isinstance(type_, Union) else [type_]))


# Steps


def _keep(array: Any, _present: Any) -> Any:
    return array


def _all_null(type_: Any, array: Any, _present: Any) -> Any:
    return pa.nulls(len(array), type_)


def _refuse(type_: Any, reason: str, array: Any, present: Any) -> Any:
    if pc.any(present).as_py():
        raise _Misfit(reason)
    return pa.nulls(len(array), type_)


def _if_valid(step: Step, array: Any, present: Any) -> Any:
    return step(array, pc.and_(present, array.is_valid()))


def _refuse_null(reason: str, step: Step, array: Any, present: Any) -> Any:
    if pc.any(pc.and_(present, array.is_null())).as_py():
        raise _Misfit(reason)
    return step(array, present)


def _join_members(type_: Any, steps: list[Step], array: Any, present: Any) -> Any:
    """Convert each member of a union, and take each row from the member that is set."""
    count = len(array)
    members = array.flatten()
    parts = [step(member, pc.and_(present, member.is_valid())) for step, member in zip(steps, members, strict=True)]
    if len(parts) <= 1:
        return parts[0] if parts else pa.nulls(count, type_)
    rows = pa.array(range(count), pa.int64())
    indexes = pa.nulls(count, pa.int64())
    for position, member in enumerate(members):
        indexes = pc.if_else(member.is_valid(), pc.add(rows, position * count), indexes)
    return pa.concat_arrays(parts).take(indexes)


def _set_member(type_: Any, index: int, step: Step, array: Any, present: Any) -> Any:
    value = step(array, present)
    members = [value if i == index else pa.nulls(len(array), field.type) for i, field in enumerate(type_)]
    return pa.StructArray.from_arrays(members, fields=list(type_), mask=pc.invert(present))


def _convert_record(type_: Any, fields: list[_WrittenField | _Default], array: Any, present: Any) -> Any:
    count = len(array)
    written = array.flatten()
    first_row = pa.nulls(count, pa.int64()).fill_null(0)
    columns = [
        field.column.take(first_row) if isinstance(field, _Default) else field.step(written[field.position], present)
        for field in fields
    ]
    if not columns:
        return pa.array([{} if is_present else None for is_present in present.to_pylist()], type_)
    return pa.StructArray.from_arrays(columns, fields=list(type_), mask=pc.invert(present))


def _convert_items(type_: Any, step: Step, array: Any, _present: Any) -> Any:
    offsets, start, count = _extent(array)
    items = array.values.slice(start, count)
    return pa.ListArray.from_arrays(offsets, step(items, _all_present(items)), type=type_, mask=array.is_null())


def _convert_values(type_: Any, step: Step, array: Any, _present: Any) -> Any:
    offsets, start, count = _extent(array)
    keys, values = array.keys.slice(start, count), array.items.slice(start, count)
    values = step(values, _all_present(values))
    return pa.MapArray.from_arrays(offsets, keys, values, type=type_, mask=array.is_null())


def _extent(array: Any) -> tuple[Any, int, int]:
    """Return where the items of each row begin, from 0 on, and which items are those of the rows."""
    start, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
    return pc.subtract(array.offsets, pa.scalar(start, pa.int32())), start, end - start


def _all_present(array: Any) -> Any:
    return pa.nulls(len(array), pa.bool_()).fill_null(True)


def _convert_symbols(reader: Enum, array: Any, _present: Any) -> Any:
    is_known = pc.is_in(array, value_set=pa.array(reader.symbols, pa.string()))
    unknown = array.filter(pc.and_(array.is_valid(), pc.invert(is_known)))
    if not len(unknown):
        return array
    if reader.default is None:
        raise _Misfit(f"the reader's {described(reader)} has no symbol {unknown[0].as_py()!r} and no default")
    return pc.if_else(pc.or_(is_known, array.is_null()), array, reader.default)


def _leaf(reader: Type, writer: Type) -> Step:
    to, origin = _arrow_type(reader), _arrow_type(writer)
    if to == origin:
        return _keep
    if pa.types.is_decimal(to) or pa.types.is_decimal(origin):
        raise UnsupportedAvroType(f"{described(writer)} cannot be read by column as {described(reader)}: a decimal")
    if any(is_kind(to) and is_kind(origin) for is_kind in (pa.types.is_timestamp, pa.types.is_time)):
        is_finer = _UNITS.index(to.unit) >= _UNITS.index(origin.unit)
        return partial(_cast, to, is_finer)
    if pa.types.is_fixed_size_binary(to):
        return partial(_cast, to, True)
    return partial(_convert_number, _STORAGE[writer.kind], _STORAGE[reader.kind], to)


def _cast(to: Any, is_exact: bool, array: Any, _present: Any) -> Any:
    try:
        return array.cast(to, safe=is_exact)
    except pa.ArrowInvalid as error:
        raise _Misfit(str(error)) from None


def _convert_number(origin: Any, to_storage: Any, to: Any, array: Any, present: Any) -> Any:
    """Convert the number or the bytes by which a value is stored. A float loses what it cannot hold, as in Avro."""
    is_text = pa.types.is_string(to_storage)
    return _cast(to_storage, is_text, array.view(origin), present).view(to)

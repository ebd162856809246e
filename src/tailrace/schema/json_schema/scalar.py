"""Changes of strings, numbers, enums and constants, and of the bounds that all types have."""

from decimal import Decimal

from tailrace.schema.json_schema.change import Change, Changes
from tailrace.schema.json_schema.node import ConstValue, EnumValue, Number, NumberValue, StringValue


def raised(keyword: str, kind: str, writer: Number | None, reader: Number | None) -> Changes:
    """Return the change if a reader has a lower bound that the writer has not, or a higher one."""
    if reader is None or (writer is not None and reader <= writer):
        return []
    return [Change(f"{kind}_ADDED" if writer is None else f"{kind}_INCREASED", (keyword, None), writer, reader)]


def lowered(keyword: str, kind: str, writer: Number | None, reader: Number | None) -> Changes:
    """Return the change if a reader has an upper bound that the writer has not, or a lower one."""
    if reader is None or (writer is not None and reader >= writer):
        return []
    return [Change(f"{kind}_ADDED" if writer is None else f"{kind}_DECREASED", (keyword, None), writer, reader)]


def string_changes(writer: StringValue, reader: StringValue) -> Changes:
    """Compare two strings."""
    changes = lowered("maxLength", "MAX_LENGTH", writer.length_max, reader.length_max)
    changes += raised("minLength", "MIN_LENGTH", writer.length_min, reader.length_min)
    if reader.pattern is not None and reader.pattern != writer.pattern:
        kind = "PATTERN_ADDED" if writer.pattern is None else "PATTERN_CHANGED"
        changes.append(Change(kind, ("pattern", None), writer.pattern, reader.pattern))
    return changes


def number_changes(writer: NumberValue, reader: NumberValue) -> Changes:
    """Compare two numbers."""
    changes = lowered("maximum", "MAXIMUM", writer.maximum, reader.maximum)
    changes += raised("minimum", "MINIMUM", writer.minimum, reader.minimum)
    changes += lowered("exclusiveMaximum", "EXCLUSIVE_MAXIMUM", writer.below, reader.below)
    changes += raised("exclusiveMinimum", "EXCLUSIVE_MINIMUM", writer.above, reader.above)
    changes += _multiple_changes(writer.multiple_of, reader.multiple_of)
    if reader.is_integer and not writer.is_integer:
        changes.append(Change("TYPE_NARROWED", None, "number", "integer"))
    return changes


def _multiple_changes(writer: Number | None, reader: Number | None) -> Changes:
    if reader is None or reader == writer:
        return []
    if writer is None:
        kind = "MULTIPLE_OF_ADDED"
    elif _divides(reader, writer):
        return []
    else:
        kind = "MULTIPLE_OF_EXPANDED" if _divides(writer, reader) else "MULTIPLE_OF_CHANGED"
    return [Change(kind, ("multipleOf", None), writer, reader)]


def _divides(divisor: Number, number: Number) -> bool:
    """Tell whether a number is a multiple of another, without rounding and whatever their exponents."""
    over, under = Decimal(number).as_tuple(), Decimal(divisor).as_tuple()
    if not isinstance(over.exponent, int) or not isinstance(under.exponent, int):
        return False
    digits = int("".join(map(str, over.digits)) or "0")
    divisor_digits = int("".join(map(str, under.digits)) or "0")
    shift = over.exponent - under.exponent
    if shift >= 0:
        return digits * pow(10, shift, divisor_digits) % divisor_digits == 0
    if -shift > len(over.digits):  # then the number is smaller than the divisor's last place
        return digits == 0
    places: int = 10**-shift
    return digits % (divisor_digits * places) == 0


def enum_changes(writer: EnumValue, reader: EnumValue) -> Changes:
    """Compare two enums."""
    lost = [value for key, value in writer.values.items() if key not in reader.values]
    if not lost:
        return []
    kind = "ENUM_ARRAY_NARROWED" if reader.values.keys() <= writer.values.keys() else "ENUM_ARRAY_CHANGED"
    return [Change(kind, ("enum", None), lost, None)]


def const_changes(writer: ConstValue, reader: ConstValue) -> Changes:
    """Compare two constants, which Confluent's registry names like enums."""
    if writer.value == reader.value:
        return []
    return [Change("ENUM_ARRAY_CHANGED", ("const", None), writer.value, reader.value)]

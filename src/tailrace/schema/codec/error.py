"""Errors of columns."""

from tailrace.schema.error import CodecError


class InvalidRow(CodecError):
    """A row of a column that cannot be decoded or encoded, and why."""

    def __init__(self, place: str, row: int, reason: str) -> None:
        super().__init__(f"{place}, row {row}: {reason}")
        self.row = row
        self.reason = reason

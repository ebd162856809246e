"""The parts of a record that may have a schema."""

from typing import Literal

RecordPart = Literal["key", "value"]

"""The arguments that all sinks for tables have, and their checks."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tailrace.spark.connector.argument import check_choice, check_duration_s
from tailrace.spark.error import PipelineError

NEVER = "never"
COMPACT_S = 600.0
KEEP_S = 7 * 86400.0
MAX_FILES = 1_000


class Mode(StrEnum):
    """What becomes of a row whose key is in the table."""

    UPSERT = "upsert"
    APPEND = "append"


class Envelope(StrEnum):
    """The form in which rows describe changes."""

    DEBEZIUM = "debezium"


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """How a table is read; created by `check_source_settings`."""

    skip_changes: bool | None = None
    max_files: int | None = None

    @property
    def given(self) -> str | None:
        """The name of an argument that was given."""
        given = {"skip_changes": self.skip_changes, "max_files": self.max_files}
        return next((name for name, value in given.items() if value is not None), None)


def check_source_settings(place: str, skip_changes: Any, max_files: Any) -> SourceSettings:
    """Return the settings of a source; raises `PipelineError`."""
    if skip_changes is not None and not isinstance(skip_changes, bool):
        raise PipelineError(f"{place}: skip_changes={skip_changes!r} is neither True nor False")
    if max_files is not None and (not isinstance(max_files, int) or isinstance(max_files, bool) or max_files < 1):
        raise PipelineError(f"{place}: max_files={max_files!r} is not a positive number")
    return SourceSettings(skip_changes, max_files)


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """How rows are written to a table; created by `check_settings`."""

    mode: Mode | None = None
    key: tuple[str, ...] = ()
    delete_when: str | None = None
    changes: Envelope | None = None
    exclude: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    evolve: bool = True
    create: bool = True
    compact_s: float | None = COMPACT_S
    keep_s: float | None = KEEP_S
    given: str | None = None
    """An argument that was given, and that a source does not have."""

    @property
    def merge_key(self) -> tuple[str, ...]:
        """The columns that tell which row to replace; empty if rows are only added."""
        return () if self.mode is Mode.APPEND else self.key

    def check(self, sink: object) -> None:
        """Raise `PipelineError` if the arguments do not fit together."""
        if self.mode is Mode.UPSERT and not self.key:
            raise PipelineError(f'{sink}: mode="upsert" needs key=, the columns that tell which row to replace')
        if self.delete_when is not None and not self.merge_key:
            raise PipelineError(f"{sink}: delete_when= needs key=, the columns that tell which row to delete")
        if self.changes is not None and not self.merge_key:
            raise PipelineError(f"{sink}: changes= needs key=, the columns that tell which row has changed")
        if self.changes is not None and self.delete_when is not None:
            raise PipelineError(f"{sink}: changes= and delete_when= exclude each other: op says what is deleted")
        for name in self.key + self.partition_by:
            if name in self.exclude:
                raise PipelineError(f"{sink}: exclude= has the column {name}, which key= or partition_by= needs")


def check_settings(
    place: str,
    *,
    mode: object,
    key: str | Sequence[str],
    delete_when: Any,
    changes: object,
    exclude: str | Sequence[str],
    partition_by: str | Sequence[str],
    evolve: Any = None,
    create: Any = None,
    compact: object = None,
    keep: object = None,
) -> SinkSettings:
    """Return the settings of a sink; raises `PipelineError` for an argument that is wrong by itself."""
    for label, flag in (("evolve", evolve), ("create", create)):
        if flag is not None and not isinstance(flag, bool):
            raise PipelineError(f"{place}: {label}={flag!r} is neither True nor False")
    if delete_when is not None and (not isinstance(delete_when, str) or not delete_when.strip()):
        raise PipelineError(f"{place}: delete_when={delete_when!r} is not a condition")
    given = {
        "mode": mode,
        "key": key or None,
        "delete_when": delete_when,
        "changes": changes,
        "exclude": exclude or None,
        "partition_by": partition_by or None,
        "evolve": evolve,
        "create": create,
        "compact": compact,
        "keep": keep,
    }
    return SinkSettings(
        None if mode is None else Mode(check_choice(place, "mode", mode, Mode)),
        check_names(key),
        delete_when,
        None if changes is None else Envelope(check_choice(place, "changes", changes, Envelope)),
        check_names(exclude),
        check_names(partition_by),
        evolve is not False,
        create is not False,
        _check_interval_s(place, "compact", compact, COMPACT_S),
        _check_interval_s(place, "keep", keep, KEEP_S),
        next((name for name, value in given.items() if value is not None), None),
    )


def _check_interval_s(place: str, name: str, value: object, default: float) -> float | None:
    if value is None:
        return default
    return None if value == NEVER else check_duration_s(place, name, value)


def check_names(given: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of columns, of which a text may have several with commas between them."""
    names = given.split(",") if isinstance(given, str) else given
    return tuple(str(name).strip() for name in names if str(name).strip())

"""The catalogs of Iceberg tables, and their failures as errors that say whether a restart can help."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace.spark.error import ConnectorError, PipelineError, RetriableConnectorError, SparkSourceError
from tailrace.spark.message import shorten

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

DATABASE = "catalog.db"
_PASSING = ("database is locked", "timed out", "Connection refused", "Connection aborted", "Max retries exceeded")
_PASSING_KINDS = ("CommitStateUnknownException", "ServerError", "ServiceUnavailableError", "RESTError")


@dataclass(frozen=True, slots=True)
class CatalogSettings:
    """A catalog: the folder of a warehouse with one in SQLite, or the properties that pyiceberg takes."""

    folder: Path | None
    properties: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def is_there(self) -> bool:
        """Whether the catalog can hold tables already; one in a folder is created with the first table."""
        return self.folder is None or (self.folder / DATABASE).exists()

    def open(self) -> "Catalog":
        """Return the catalog; that of a folder is created if it is missing."""
        from pyiceberg.catalog import load_catalog
        from pyiceberg.catalog.sql import SqlCatalog
        from sqlalchemy import URL

        if self.folder is None:
            given: dict[str, Any] = dict(self.properties)
            return load_catalog(given.pop("name", "default"), **given)
        self.folder.mkdir(parents=True, exist_ok=True)
        address = URL.create("sqlite", database=str(self.folder / DATABASE)).render_as_string(hide_password=False)
        return SqlCatalog("tailrace", uri=address, warehouse=f"file://{self.folder}")


def check_catalog(place: str, catalog: object) -> str | tuple[tuple[str, str], ...]:
    """Return a catalog's folder or properties; raises `PipelineError`."""
    if isinstance(catalog, str) and catalog.strip() and "://" not in catalog:
        return catalog
    if isinstance(catalog, Mapping) and catalog:
        return tuple((str(name), str(value)) for name, value in catalog.items())
    raise PipelineError(
        f'{place}: catalog={catalog!r} is neither a folder nor a mapping such as {{"type": "rest", "uri": "http://…"}}'
    )


def check_identifier(place: str, table: object) -> tuple[str, ...]:
    """Return the parts of a table's name; one without a namespace is in `default`."""
    parts = tuple(table.split(".")) if isinstance(table, str) else ()
    if not parts or not all(part.strip() for part in parts):
        raise PipelineError(f"{place} needs the name of a table, such as orders or shop.orders")
    return parts if len(parts) > 1 else ("default", *parts)


@contextmanager
def iceberg_scope(table: object, what: str, passed: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Raise `RetriableConnectorError` if the catalog or the store is away, and `ConnectorError` for other errors.

    Errors of the kinds `passed` stay as they are.
    """
    try:
        yield
    except Exception as error:  # of the library, of its drivers for catalogs, and of Arrow
        if isinstance(error, (SparkSourceError, *passed)):
            raise
        kind, text = type(error).__name__, shorten(str(error).split("\n")[0])
        is_passing = kind in _PASSING_KINDS or isinstance(error, ConnectionError | TimeoutError)
        if is_passing or any(word in text for word in _PASSING):
            raise RetriableConnectorError(f"{table}: {what}: {text}") from None
        raise ConnectorError(f"{table}: {what}: {text or kind}") from None

"""The checks of a database before a flow reads its changes, and the creation of the publication and the slot."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace.spark.connector.postgres_changes.catalog import (
    CapturedTable,
    create_publication,
    describe,
    published_tables,
    shown,
)
from tailrace.spark.connector.postgres_changes.slot import PLUGIN, Slot
from tailrace.spark.connector.postgres_changes.start_record import StartRecord, read_record, write_record
from tailrace.spark.connector.postgres_changes.table_form import QualifiedName
from tailrace.spark.error import ConnectorError

if TYPE_CHECKING:
    from psycopg import Connection

_MAY_REPLICATE = """\
SELECT rolsuper OR rolreplication OR EXISTS (
    SELECT FROM pg_roles g WHERE g.rolname = 'rds_replication' AND pg_has_role(r.oid, g.oid, 'member')), rolname::text
FROM pg_roles r WHERE rolname = current_user"""

_PUBLISHED = "SELECT pubinsert AND pubupdate AND pubdelete FROM pg_publication WHERE pubname = %s"


def find_tables(
    connection: "Connection[Any]", slot: Slot, wanted: Sequence[QualifiedName]
) -> dict[QualifiedName, CapturedTable]:
    """Return the tables whose changes are read; raises `ConnectorError` if one is not there, or cannot be read."""
    published = published_tables(connection, slot.publication)
    if published is None and not wanted:
        raise ConnectorError(f"there is no publication {slot.publication}; name the tables with tables=, to create it")
    if published is not None:
        if connection.execute(_PUBLISHED, [slot.publication]).fetchone() != (True,):
            raise ConnectorError(f"publication {slot.publication} does not publish all of insert, update and delete")
        missing = [name for name in wanted if name not in published]
        if missing:
            have = ", ".join(map(shown, sorted(published))) or "no table"
            raise ConnectorError(
                f"publication {slot.publication} does not have table {shown(missing[0])}; it has {have}. "
                f"Add it with ALTER PUBLICATION {slot.publication} ADD TABLE {shown(missing[0])}"
            )
    names = sorted(wanted or published or ())
    tables = {name: describe(connection, name, (published or {}).get(name)) for name in names}
    for table in tables.values():
        _check_identity(table)
    return tables


def check_database(connection: "Connection[Any]", slot: Slot, wanted: Sequence[QualifiedName]) -> None:
    """Raise `ConnectorError` if the database cannot give the changes of these tables to this user."""
    level = connection.execute("SHOW wal_level").fetchone()
    if level != ("logical",):
        raise ConnectorError(
            f"{slot.database} has wal_level = {level[0] if level else '?'}, and changes need logical: "
            "set it in postgresql.conf and restart the server"
        )
    may_replicate, user = connection.execute(_MAY_REPLICATE).fetchone() or (False, "?")
    if not may_replicate:
        raise ConnectorError(
            f"user {user} of {slot.database} may not replicate; give it the right with ALTER ROLE {user} REPLICATION"
        )
    find_tables(connection, slot, wanted)


def check_slot(connection: "Connection[Any]", slot: Slot, record: StartRecord | None, *, is_adopted: bool) -> None:
    """Raise `ConnectorError` if the slot does not fit to what the flow has noted about it.

    A slot without a note belongs to another flow, or its flow was reset. `is_adopted` means that it may be used.
    """
    state = slot.look(connection)
    if state is None:
        if record is not None and record.lsn is not None:
            raise ConnectorError(
                f"{slot} is missing, and with it the changes since the flow has stopped; "
                "reset the flow to read its tables again with a new slot"
            )
        return
    if state.plugin != PLUGIN:
        raise ConnectorError(f"{slot} has the plug-in {state.plugin}, not {PLUGIN}")
    if record is None and not is_adopted:
        raise ConnectorError(
            f"{slot} exists, and this flow has not created it. If the flow was reset, drop the slot with "
            f"SELECT pg_drop_replication_slot('{slot.name}'); to read only what it retains, use snapshot=\"never\""
        )


def start_slot(slot: Slot, wanted: Sequence[QualifiedName], path: Path, *, has_snapshot: bool) -> None:
    """Create what the first start of a flow needs, and note it; after the first start, changes nothing."""
    record = read_record(path)
    if record is not None and record.lsn is not None:
        return
    with slot.session() as connection:
        check_slot(connection, slot, record, is_adopted=not has_snapshot)
        state = slot.look(connection)
        if record is None and state is not None:
            write_record(path, StartRecord(state.confirmed_lsn, created_us=_now_us()))
            return
        write_record(path, StartRecord())
        slot.drop(connection)
        if published_tables(connection, slot.publication) is None:
            create_publication(connection, slot.publication, wanted)
        # Their files are looked up before the slot is created, so that tables that are written anew later are noticed.
        tables = {name: table.file for name, table in find_tables(connection, slot, wanted).items()}
        created_us = _now_us()
        new = slot.create()
        base = new.base if has_snapshot else None
        write_record(path, StartRecord(new.lsn, base, created_us, tables if has_snapshot else {}))


def _check_identity(table: CapturedTable) -> None:
    """Raise `ConnectorError` for a table in a publication whose rows could then not be updated or deleted."""
    has_none = table.replica_identity == "n" or (table.replica_identity == "d" and not table.key)
    if has_none:
        name = shown(table.name)
        raise ConnectorError(
            f"table {name} has no primary key and no replica identity, so PostgreSQL would refuse to update it while "
            f"its changes are published; give it a primary key, or use ALTER TABLE {name} REPLICA IDENTITY FULL"
        )


def _now_us() -> int:
    return time.time_ns() // 1000

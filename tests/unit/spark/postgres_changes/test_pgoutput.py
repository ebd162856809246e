"""The messages of pgoutput: bytes of a real server, round trips, and damaged bytes."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.spark.connector.postgres_changes.pgoutput import (
    UNCHANGED,
    Begin,
    Column,
    Commit,
    Delete,
    Insert,
    LogicalMessage,
    MalformedMessage,
    Message,
    Origin,
    Relation,
    Row,
    Truncate,
    Type,
    Update,
    decode,
)

# Sent by PostgreSQL 18.4 for a table a (id int PRIMARY KEY, t text).
OF_A_SERVER: dict[bytes, Message] = {
    b"B\x00\x00\x00\x00\x01o,h\x00\x03\x03c\xba\xf8\xba\xee\x00\x00\x02\xf4": Begin(0x16F2C68, 1794836603640558, 756),
    b"R\x00\x00@\x00public\x00a\x00d\x00\x02\x01id\x00\x00\x00\x00\x17\xff\xff\xff\xff"
    b"\x00t\x00\x00\x00\x00\x19\xff\xff\xff\xff": Relation(
        16384, "public", "a", "d", (Column("id", 23, -1, True), Column("t", 25, -1, False))
    ),
    b"I\x00\x00@\x00N\x00\x02t\x00\x00\x00\x012t\x00\x00\x00\x01y": Insert(16384, ("2", "y")),
    b"U\x00\x00@\x00N\x00\x02t\x00\x00\x00\x011t\x00\x00\x00\x01z": Update(16384, None, False, ("1", "z")),
    b"C\x00\x00\x00\x00\x00\x01o,h\x00\x00\x00\x00\x01o,\xa0\x00\x03\x03c\xba\xf8\xba\xee": Commit(
        0x16F2C68, 0x16F2CA0, 1794836603640558
    ),
    b"T\x00\x00\x00\x01\x00\x00\x00@\x00": Truncate((16384,), False, False),
}

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
OIDS = st.integers(0, 2**32 - 1)
LSNS = st.integers(0, 2**64 - 1)
TIMES = st.integers(0, 2**50)
ROWS = st.lists(st.none() | st.just(UNCHANGED) | st.text(max_size=9) | st.binary(max_size=9), max_size=5).map(tuple)
MESSAGES = st.one_of(
    st.builds(Begin, LSNS, TIMES, OIDS),
    st.builds(Commit, LSNS, LSNS, TIMES),
    st.builds(Origin, LSNS, TEXTS),
    st.builds(
        Relation,
        OIDS,
        TEXTS.filter(bool),
        TEXTS,
        st.sampled_from("dnfi"),
        st.lists(st.builds(Column, TEXTS, OIDS, st.integers(-1, 2**31 - 1), st.booleans()), max_size=4).map(tuple),
    ),
    st.builds(Type, OIDS, TEXTS.filter(bool), TEXTS),
    st.builds(Insert, OIDS, ROWS),
    st.builds(lambda oid, new: Update(oid, None, False, new), OIDS, ROWS),
    st.builds(Update, OIDS, ROWS, st.booleans(), ROWS),
    st.builds(Delete, OIDS, ROWS, st.booleans()),
    st.builds(Truncate, st.lists(OIDS, max_size=3).map(tuple), st.booleans(), st.booleans()),
    st.builds(LogicalMessage, st.booleans(), LSNS, TEXTS, st.binary(max_size=20)),
)
EPOCH_US = 946_684_800_000_000


@pytest.mark.parametrize("data", OF_A_SERVER)
def test_messages_of_a_server(data: bytes) -> None:
    assert decode(data) == OF_A_SERVER[data]


@given(MESSAGES)
def test_every_message_is_decoded_as_it_was_encoded(message: Message) -> None:
    assert decode(encode(message)) == message


@given(MESSAGES)
def test_every_part_of_a_message_is_an_error(message: Message) -> None:
    data = encode(message)
    for end in range(len(data)):
        with pytest.raises(MalformedMessage, match="PostgreSQL sent"):
            decode(data[:end])
    with pytest.raises(MalformedMessage, match="bytes too many"):
        decode(data + b"\0")


@given(
    st.binary(max_size=60)
    | st.builds(lambda kind, rest: kind + rest, st.sampled_from("BCORYIUDTM").map(str.encode), st.binary(max_size=60))
)
def test_any_bytes_are_a_message_or_an_error(data: bytes) -> None:
    with contextlib.suppress(MalformedMessage):
        decode(data)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "PostgreSQL sent a message of pgoutput that is empty (0 bytes)"),
        (b"S\0\0", "PostgreSQL sent a message of pgoutput of the unknown kind 'S' (3 bytes)"),
        (b"I\0\0@\0X", "PostgreSQL sent a damaged insert message (6 bytes): a row has the unknown kind 'X'"),
        (b"I\0\0@\0N\0\x01q", "PostgreSQL sent a damaged insert message (9 bytes): a value has the unknown kind 'q'"),
        (b"B\0", "PostgreSQL sent a damaged begin message (2 bytes): it is cut off"),
    ],
)
def test_errors_name_the_message(data: bytes, expected: str) -> None:
    with pytest.raises(MalformedMessage) as caught:
        decode(data)
    assert str(caught.value) == expected


def encode(message: Message) -> bytes:
    """Encode a message as PostgreSQL's manual describes it."""
    match message:
        case Begin():
            return b"B" + struct.pack(">QqI", message.commit_lsn, message.commit_time_us - EPOCH_US, message.xid)
        case Commit():
            times = (message.commit_lsn, message.end_lsn, message.commit_time_us - EPOCH_US)
            return b"C" + struct.pack(">BQQq", 0, *times)
        case Origin():
            return b"O" + struct.pack(">Q", message.commit_lsn) + text(message.name)
        case Relation():
            columns = [
                bytes([column.is_key]) + text(column.name) + struct.pack(">Ii", column.type_oid, column.modifier)
                for column in message.columns
            ]
            names = text(message.schema) + text(message.table) + message.replica_identity.encode()
            return b"R" + struct.pack(">I", message.oid) + names + struct.pack(">H", len(columns)) + b"".join(columns)
        case Type():
            return b"Y" + struct.pack(">I", message.oid) + text(message.schema) + text(message.name)
        case Insert():
            return b"I" + struct.pack(">I", message.relation_oid) + b"N" + row(message.new)
        case Update():
            old = b"" if message.old is None else (b"K" if message.is_old_key else b"O") + row(message.old)
            return b"U" + struct.pack(">I", message.relation_oid) + old + b"N" + row(message.new)
        case Delete():
            kind = b"K" if message.is_old_key else b"O"
            return b"D" + struct.pack(">I", message.relation_oid) + kind + row(message.old)
        case Truncate():
            flags = message.is_cascade + 2 * message.is_restarting_identity
            oids = struct.pack(f">{len(message.relation_oids)}I", *message.relation_oids)
            return b"T" + struct.pack(">IB", len(message.relation_oids), flags) + oids
        case LogicalMessage():
            content = struct.pack(">I", len(message.content)) + message.content
            return b"M" + struct.pack(">BQ", message.is_transactional, message.lsn) + text(message.prefix) + content


def text(value: str) -> bytes:
    return value.encode() + b"\0"


def row(values: Row) -> bytes:
    parts = [struct.pack(">H", len(values))]
    for value in values:
        if value is None:
            parts.append(b"n")
        elif value is UNCHANGED:
            parts.append(b"u")
        else:
            data = value.encode() if isinstance(value, str) else value
            assert isinstance(data, bytes)
            parts.append((b"t" if isinstance(value, str) else b"b") + struct.pack(">I", len(data)) + data)
    return b"".join(parts)

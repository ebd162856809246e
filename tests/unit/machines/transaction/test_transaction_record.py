"""Records of `__transaction_state` against the bytes that Apache Kafka 4.3.1 wrote.

What happened there stands in `kafka_story`: the same requests, in the same order, are put to our coordinator.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.machines.transaction.transaction_script import BEGUN, ID, ORDERS, START_MS, TransactionScript

from tailrace.machines.log_record import CorruptRecord, UnknownRecord
from tailrace.machines.transaction.record import TRANSACTION_RECORDS, TransactionRecord
from tailrace.machines.transaction.setting import TransactionSetting
from tailrace.machines.transaction.state import COMPLETE_COMMIT, EMPTY, ONGOING, PREPARE_COMMIT, STORED_STATES
from tailrace.machines.transaction.transaction import (
    CLIENT_VERSION_1,
    CLIENT_VERSION_2,
    PRODUCER_EPOCH_MAX,
    TWO_PHASE_TIMEOUT_MS,
    Identity,
    Transaction,
)
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.transaction import EndTxnResponse

GROUP_PARTITION = ("__consumer_offsets", 0)
KEY = bytes.fromhex("0000 000b 636f70792d6f7264657273")


def kafka_records(name: str = "kafka_transactions.json") -> list[tuple[bytes, bytes]]:
    written = json.loads((Path(__file__).parent / name).read_text())
    return [(bytes.fromhex(key), bytes.fromhex(value)) for key, value in written]


def timeless(key: bytes, value: bytes | None) -> Transaction:
    """A transaction without its times, which no two brokers share."""
    transaction = TRANSACTION_RECORDS.decode(key, value).transaction
    assert transaction is not None
    start_ms = -1 if transaction.start_ms == -1 else START_MS
    return replace(transaction, update_ms=START_MS, start_ms=start_ms)


def kafka_story() -> TransactionScript:
    script = TransactionScript(TransactionSetting(is_two_phase_enabled=True))
    script.next_producer_id = 0
    _run_second_generation(script)
    _run_first_generation(script)
    script.transactional_id = "fence"
    script.opened(script.begin(), ORDERS)
    assert script.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    script.write_markers()
    script.begin()
    script.transactional_id = "late"
    script.opened(script.begin(timeout_ms=1_000), ORDERS)
    script.pass_time(15_000)
    script.write_markers()
    script.transactional_id = "prepared"
    script.opened(script.begin(two_phase=True), ORDERS)
    return script


def _run_second_generation(script: TransactionScript) -> None:
    script.transactional_id = "v2"
    identity = script.opened(script.begin(), ORDERS)
    script.opened(identity, ("orders", 1))
    following = script.finish(identity, commit=True)
    assert script.end(identity, commit=True).error_code == ErrorCode.NONE
    assert script.end(identity, commit=False).error_code == ErrorCode.INVALID_TXN_STATE
    assert script.end(following, commit=True).error_code == ErrorCode.INVALID_TXN_STATE
    script.finish(following, commit=False)


def _run_first_generation(script: TransactionScript) -> None:
    script.transactional_id = "v1"
    identity = script.begin(version=4)
    script.add(identity, ORDERS, client_version=CLIENT_VERSION_1)
    script.add(identity, GROUP_PARTITION, client_version=CLIENT_VERSION_1)
    script.finish(identity, commit=False, version=4)
    assert script.end(identity, commit=True, version=4).error_code == ErrorCode.INVALID_TXN_STATE
    assert script.begin(version=4, expected=identity) == script.begin(version=4, expected=identity)


def test_our_coordinator_writes_what_kafka_wrote() -> None:
    ours = [timeless(key, value) for key, value in kafka_story().log]
    assert ours == [timeless(key, value) for key, value in kafka_records()]


def test_our_last_epoch_ends_as_kafka_s() -> None:
    """The end of 32,766 transactions of one producer, and what it gets when it asks again."""
    kafka = kafka_records("kafka_last_epoch.json")
    script = TransactionScript()
    script.transactional_id = "long"
    script.log.append(kafka[0])
    script.restart()
    script.next_producer_id = 1
    last = Identity(0, PRODUCER_EPOCH_MAX - 1)
    assert script.finish(script.opened(last, ORDERS), commit=True) == (1, 0)
    assert script.end(last, commit=True) == EndTxnResponse(producer_id=1, producer_epoch=0)
    assert script.end(last, commit=False).error_code == ErrorCode.INVALID_TXN_STATE
    assert script.begin(expected=last) == (1, 0)
    assert script.begin() == (1, 1)
    assert [timeless(*record) for record in script.log] == [timeless(*record) for record in kafka]


def test_bytes_come_out_as_they_came_in() -> None:
    """Where there are topics to choose from, Kafka writes them in the order of a hash map."""
    for key, value in kafka_records():
        record = TRANSACTION_RECORDS.decode(key, value)
        assert record.transaction is not None
        again = TRANSACTION_RECORDS.encode(record)
        if len({topic for topic, _ in record.transaction.partitions}) <= 1:
            assert again == (key, value)
        else:
            assert TRANSACTION_RECORDS.decode(*again) == record


def test_a_coordinator_goes_on_where_kafka_left_off() -> None:
    script = TransactionScript(TransactionSetting(is_two_phase_enabled=True))
    script.log += kafka_records()
    script.restart()
    assert {name: value.state.title for name, value in script.machine.transactions.items()} == {
        "v2": "CompleteAbort",
        "v1": "Empty",
        "fence": "Empty",
        "late": "CompleteAbort",
        "prepared": "Ongoing",
    }
    script.transactional_id = "prepared"
    assert script.finish(Identity(4, 0), commit=True) == (4, 1)


@pytest.mark.parametrize(
    ("transaction", "value"),
    [
        (None, None),
        (
            BEGUN,
            "0001 0000000000000fa0 0000 0000ea60 00 00 00000000000f4240 ffffffffffffffff 01 00 08 0000000000000fa0",
        ),
        (
            replace(BEGUN, state=ONGOING, start_ms=START_MS, partitions=frozenset({ORDERS, ("orders", 2)})),
            "0001 0000000000000fa0 0000 0000ea60 01 02 07 6f7264657273 03 00000000 00000002 00"
            "00000000000f4240 00000000000f4240 01 00 08 0000000000000fa0",
        ),
        (
            replace(
                BEGUN,
                state=PREPARE_COMMIT,
                start_ms=START_MS,
                producer_epoch=1,
                next_producer_id=5,
                next_producer_epoch=2,
                client_version=CLIENT_VERSION_2,
            ),
            "0001 0000000000000fa0 0001 0000ea60 02 01 00000000000f4240 00000000000f4240 04"
            "00 08 0000000000000fa0 01 08 0000000000000005 02 02 0002 03 02 0002",
        ),
    ],
)
def test_bytes_put_together_by_hand(transaction: Transaction | None, value: str | None) -> None:
    record = TransactionRecord(ID, transaction)
    expected = (KEY, None if value is None else bytes.fromhex(value))
    assert TRANSACTION_RECORDS.encode(record) == expected
    assert TRANSACTION_RECORDS.decode(*expected) == record


names = st.text(min_size=1, max_size=300).filter(lambda name: len(name.encode()) < 1000)
numbers = st.integers(-1, 2**63 - 1)
transactions = st.builds(
    Transaction,
    transactional_id=names,
    producer_id=numbers,
    producer_epoch=st.integers(0, PRODUCER_EPOCH_MAX),
    timeout_ms=st.integers(0, TWO_PHASE_TIMEOUT_MS),
    state=st.sampled_from(sorted(STORED_STATES)),
    update_ms=numbers,
    start_ms=numbers,
    partitions=st.frozensets(st.tuples(st.one_of(st.just("orders"), names), st.integers(0, 2**31 - 1)), max_size=200),
    client_version=st.sampled_from([0, 1, 2]),
    previous_producer_id=numbers,
    next_producer_id=numbers,
    next_producer_epoch=st.integers(-1, PRODUCER_EPOCH_MAX),
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(transaction=transactions)
def test_the_quick_encoding_is_the_declared_one(transaction: Transaction) -> None:
    record = TransactionRecord(transaction.transactional_id, transaction)
    encoded = TRANSACTION_RECORDS.encode(record)
    assert encoded == TRANSACTION_RECORDS.encode_as_declared(record)
    if transaction.state is not EMPTY:
        assert TRANSACTION_RECORDS.decode(*encoded) == record


def test_version_0_is_read() -> None:
    """Kafka before 4.0 wrote it; there are no tagged fields."""
    value = bytes.fromhex(
        "0000 0000000000000fa0 0003 0000ea60 04 00000001 0006 6f7264657273 00000001 00000000"
        "00000000000f4240 00000000000f4240"
    )
    assert TRANSACTION_RECORDS.decode(KEY, value).transaction == replace(
        BEGUN,
        state=COMPLETE_COMMIT,
        producer_epoch=3,
        previous_producer_id=-1,
        start_ms=START_MS,
        partitions=frozenset({ORDERS}),
    )


def test_what_is_not_understood_is_told_apart() -> None:
    key, value = TRANSACTION_RECORDS.encode(TransactionRecord(ID, BEGUN))
    assert value is not None
    with pytest.raises(UnknownRecord):
        TRANSACTION_RECORDS.decode(b"\0\1" + key[2:], value)
    with pytest.raises(UnknownRecord):
        TRANSACTION_RECORDS.decode(key, b"\0\2" + value[2:])
    for state in (6, 7, 8, 255):
        with pytest.raises(CorruptRecord):
            TRANSACTION_RECORDS.decode(key, value[:16] + bytes([state]) + value[17:])
    for size in range(len(value)):
        with pytest.raises(CorruptRecord):
            TRANSACTION_RECORDS.decode(key, value[:size])

"""Dead letters: their headers, and the errors of records that they stand for."""

import json
import pickle
from base64 import b64encode
from typing import Any

import pytest

from tailrace.pipeline import PipelineError
from tailrace.spark.connector.error_policy import ErrorPolicy, OnError, check_errors
from tailrace.spark.connector.record_row import read_record
from tailrace.spark.connector.reject import RefusedCount, Rejects, refused_row
from tailrace.spark.connector.topic.json_value import JsonReject
from tailrace.spark.dead_letter import REPLAYS, DeadLetter, Fault, Rejected, Stage, write_headers
from tailrace.spark.error import MalformedValue, RowRefused, WriteError
from tailrace.spark.message import piece

ROW: dict[str, Any] = {
    "key": b"k",
    "value": b'{"n":',
    "headers": [{"key": "trace", "value": b"7"}, {"key": "empty", "value": None}],
    "topic": "orders",
    "partition": 2,
    "offset": 1817,
    "timestamp_ms": 77,
}


def rejected_row(row: dict[str, Any], schema: str = "struct<n:int>") -> Rejected:
    """Reject a record as Spark hands it over: a text without what is null."""

    def encode(value: bytes) -> str:
        return b64encode(value).decode()

    headers = [
        {"key": each["key"]} | ({} if each["value"] is None else {"value": encode(each["value"])})
        for each in row["headers"]
    ]
    packed = row | {"key": encode(row["key"]), "value": encode(row["value"]), "headers": headers}
    return JsonReject(schema)(json.dumps({name: value for name, value in packed.items() if value is not None}))


def letter(rejected: Rejected) -> DeadLetter:
    return DeadLetter(0, 5, 1_000, rejected.key, rejected.value, write_headers(rejected, "copied", 3))


def test_the_headers_have_the_names_of_kafka_connect() -> None:
    headers = dict(write_headers(rejected_row(ROW), "copied", 3))
    assert headers.pop("__connect.errors.exception.stacktrace") is not None
    assert headers == {
        "trace": b"7",
        "empty": None,
        "tailrace.errors.timestamp": b"77",
        "__connect.errors.topic": b"orders",
        "__connect.errors.partition": b"2",
        "__connect.errors.offset": b"1817",
        "__connect.errors.connector.name": b"copied",
        "__connect.errors.task.id": b"3",
        "__connect.errors.stage": b"VALUE_CONVERTER",
        "__connect.errors.class.name": b"tailrace.spark.connector.topic.json_value.JsonReject",
        "__connect.errors.exception.class.name": b"tailrace.spark.error.MalformedValue",
        "__connect.errors.exception.message": b"value is not valid JSON for the schema: "
        b"Expecting value: line 1 column 6 (char 5)",
    }


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "Expecting value"),
        (b"\xff", "codec can't decode"),
        (b"[1]", "it is not an object"),
        (b'{"n": "x"}', "struct<n:int>: a field does not have its type"),
        (b"[" * 100_000, "recursion"),
    ],
)
def test_a_value_that_is_not_json_says_why(value: bytes, reason: str) -> None:
    assert reason in rejected_row(ROW | {"value": value}).fault.reason


def test_a_dead_letter_can_be_sent_again_once_more() -> None:
    first = letter(rejected_row(ROW))
    assert (first.origin, first.flow, first.is_record, first.replays) == (("orders", 2, 1817), "copied", True, 0)
    again = first.replay_headers()
    assert again == (("trace", b"7"), ("empty", None), (REPLAYS, b"1"))
    row = ROW | {"headers": [{"key": name, "value": value} for name, value in again], "offset": 1900}
    second = letter(rejected_row(row))
    assert (second.origin, second.replays) == (("orders", 2, 1900), 1)
    assert second.replay_headers()[-1] == (REPLAYS, b"2")


def test_a_record_without_the_headers_of_an_error_is_not_sent_again() -> None:
    for headers in ((), (("__connect.errors.partition", b"x"), ("__connect.errors.topic", b"t"))):
        found = DeadLetter(0, 0, 0, None, b"x", headers)
        assert (found.is_record, found.origin, found.reason) == (False, None, None)


def test_a_refused_row_is_json_and_not_a_record() -> None:
    found = letter(refused_row(RowRefused("cents must not be null", {"id": 1, "at": b"x"})))
    assert json.loads(found.value or b"") == {"id": 1, "at": "b'x'"}
    assert (found.stage, found.reason, found.is_record) == ("TASK_PUT", "cents must not be null", False)


def test_what_stops_a_flow_names_the_record_and_a_piece_of_its_value() -> None:
    stops = Rejects("copied")
    with pytest.raises(MalformedValue, match=r'^orders-2 offset 1817: value is not .* \(char 5\) \(\{"n":\)$'):
        stops.take([rejected_row(ROW)])
    with pytest.raises(WriteError, match=r'^too long \(\{"id": 1\}\)$'):
        stops.refuse([RowRefused("too long", {"id": 1})])
    stops.refuse([])
    Rejects("copied", check_errors("skip")).refuse([RowRefused("too long", {"id": 1})])


def test_a_check_sends_no_dead_letters() -> None:
    sends = Rejects("copied", check_errors({"to": "dead"}))
    assert sends.policy == ErrorPolicy(OnError.SEND, "dead")
    assert sends.without_sending().policy.action is OnError.SKIP
    assert Rejects("copied").without_sending() == Rejects("copied")


@pytest.mark.parametrize("given", [{}, {"to": "a", "by": "b"}, {"to": ""}, {"to": 5}, "to", "drop", 3, ["skip"]])
def test_other_choices_are_refused(given: object) -> None:
    with pytest.raises(PipelineError, match="errors="):
        check_errors(given)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (b"", "0x"),
        (b'{"a":\n 1}', '{"a": 1}'),
        (b"x" * 61, "x" * 60 + "…"),
        ("ä".encode() * 40, "ä" * 30 + "…"),
        (b"\x00\x00\x00\x00\x07ab", "0x00000000076162"),
        (b"\x00" * 99, "0x" + "00" * 30 + "…"),
    ],
)
def test_a_piece_of_a_value(value: bytes | None, text: str) -> None:
    assert piece(value) == text


def test_counts_of_a_sink_stay_in_the_driver() -> None:
    counts = RefusedCount()
    counts.add({"too long": 2})
    counts.add({"too long": 1, "null": 1})
    assert counts.counts() == {"too long": 3, "null": 1}
    assert pickle.loads(pickle.dumps(counts)).counts() == {}  # noqa: S301 - made here


def test_a_long_stack_keeps_its_end() -> None:
    rejected = read_record(ROW, Fault("r" * 9_000, "E", "F", "s" * 9_000 + "end"))
    found = dict(write_headers(rejected, "f", None))
    stack = found["__connect.errors.exception.stacktrace"]
    assert (len(stack or b""), (stack or b"")[-3:]) == (8_000, b"end")
    assert len(found["__connect.errors.exception.message"] or b"") == 2_000
    assert Stage(found["__connect.errors.stage"].decode()) is Stage.DECODE  # type: ignore[union-attr]

"""The search for records for which a function fails, over functions that say so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from tailrace.base.limits import PIPELINE_CULPRITS_MAX
from tailrace.client.topic_partition import TopicPartition
from tailrace.spark.connector.topic.left_out import read_left_out, write_left_out
from tailrace.spark.error import PipelineError
from tailrace.spark.pipeline.checkpoint import Unfinished, read_unfinished
from tailrace.spark.pipeline.culprit import Ranges, find_culprits, halve, is_row_by_row
from tailrace.spark.plan import OffsetRange
from tailrace.spark.record_place import RecordPlace

WHOLE = (OffsetRange("t", 0, 100, 164), OffsetRange("t", 2, 5, 6), OffsetRange("u", 0, 0, 1_000))


class Function:
    """Fails for a batch with one of these records, or with so many records together."""

    def __init__(self, *bad: tuple[str, int, int], size_max: int = 10**9) -> None:
        self.bad = {RecordPlace(*place) for place in bad}
        self.size_max = size_max
        self.call_count = 0

    def __call__(self, ranges: Ranges) -> Exception | None:
        self.call_count += 1
        for one in ranges:
            for offset in range(one.start, one.end):
                if (place := RecordPlace(one.topic, one.partition, offset)) in self.bad:
                    return ValueError(str(place))
        return OverflowError("too many") if sum(one.size for one in ranges) > self.size_max else None


@pytest.mark.parametrize(
    "bad",
    [
        [],
        [("t", 2, 5)],
        [("t", 0, 100), ("u", 0, 999)],
        [("t", 0, 163), ("t", 2, 5), ("u", 0, 0), ("u", 0, 1), ("u", 0, 500)],
    ],
)
def test_all_of_them_are_found_each_with_its_error(bad: list[tuple[str, int, int]]) -> None:
    function = Function(*bad)
    found = find_culprits(WHOLE, function)
    assert [tuple(one.record) for one in found] == bad
    assert [str(one.error) for one in found] == [str(RecordPlace(*place)) for place in bad]
    assert function.call_count <= 1 + 2 * 12 * len(bad)


def test_an_error_that_no_single_record_causes_is_nobodys() -> None:
    assert find_culprits(WHOLE, Function(size_max=700)) == []


def test_a_search_ends_at_its_limit() -> None:
    every = [("u", 0, offset) for offset in range(1_000)]
    assert len(find_culprits(WHOLE, Function(*every))) == PIPELINE_CULPRITS_MAX


def test_halves_are_never_empty() -> None:
    assert halve((OffsetRange("t", 0, 3, 6),)) == ((OffsetRange("t", 0, 3, 4),), (OffsetRange("t", 0, 4, 6),))
    assert halve(WHOLE) == (WHOLE[:1], WHOLE[1:])


def test_records_that_are_left_out_are_remembered(tmp_path: Path) -> None:
    assert read_left_out(tmp_path) == []
    records = [RecordPlace("a", 0, 7), RecordPlace("b", 1, 2)]
    write_left_out(tmp_path, 3, reversed(records))
    assert read_left_out(tmp_path) == records
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "2").touch()
    assert read_left_out(tmp_path) == records
    (tmp_path / "commits" / "3").touch()
    assert read_left_out(tmp_path) == []  # a topic that was created anew may have these offsets again
    (tmp_path / "left-out.json").write_text("[[1]]")
    with pytest.raises(PipelineError, match=r"left-out\.json cannot be read"):
        read_left_out(tmp_path)


def write_batch(folder: Path, batch_id: int, offsets: dict[str, dict[str, int]]) -> None:
    folder.joinpath("offsets").mkdir(exist_ok=True)
    folder.joinpath("commits").mkdir(exist_ok=True)
    folder.joinpath("offsets", str(batch_id)).write_text(f"v1\n{{}}\n{json.dumps(offsets)}")


def test_the_batch_that_was_not_finished(tmp_path: Path) -> None:
    assert read_unfinished(tmp_path) is None
    write_batch(tmp_path, 0, {"t": {"0": 5}})
    assert read_unfinished(tmp_path) == Unfinished(0, {}, {TopicPartition("t", 0): 5})
    tmp_path.joinpath("commits", "0").write_text("v1")
    assert read_unfinished(tmp_path) is None
    write_batch(tmp_path, 1, {"t": {"0": 8, "1": 2}})
    begin, end = {TopicPartition("t", 0): 5}, {TopicPartition("t", 0): 8, TopicPartition("t", 1): 2}
    assert read_unfinished(tmp_path) == Unfinished(1, begin, end)
    tmp_path.joinpath("offsets", "1").write_text("v1\n{}\n{")
    with pytest.raises(PipelineError, match="offsets/1 cannot be read"):
        read_unfinished(tmp_path)


@pytest.mark.parametrize(
    ("plan", "is_one"),
    [
        ("Project [cast(text#1 as bigint) AS n#2]\n+- SubqueryAlias source\n   +- RelationV2[value#0] tailrace ", True),
        ("Project [n#2]\n+- Filter (n#2 > 0)\n   +- CollectMetrics x\n      +- RelationV2[value#0] tailrace ", True),
        ("Aggregate [user#1], [user#1, sum(n#2)]\n+- RelationV2[value#0] tailrace ", False),
        ("Join Inner, (a#1 = b#2)\n:- RelationV2[a#1] tailrace \n+- RelationV2[b#2] tailrace ", False),
        ("Project [n#2]\n+- TransformWithState f(x)\n   +- RelationV2[value#0] tailrace ", False),
        ("Project [a\n- odd text]\n+- RelationV2[value#0] tailrace ", False),
    ],
)
def test_where_rows_meet_no_record_is_to_blame(plan: str, is_one: bool) -> None:
    """A part of a group can fail though the whole group would not."""
    assert is_row_by_row(plan) is is_one

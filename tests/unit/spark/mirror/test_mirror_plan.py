"""Names, selections and plans of a mirror."""

import re

import pytest

from tailrace.client.admin.acl import Acl
from tailrace.client.group.offset import OffsetAndMetadata
from tailrace.client.topic_partition import TopicPartition
from tailrace.spark.mirror.acl_plan import missing_acls
from tailrace.spark.mirror.claim import Claim, check_claim, decode_claim, next_claim
from tailrace.spark.mirror.cycle import cycle_problem, read_route, routes_of, write_route
from tailrace.spark.mirror.error import MirrorError, MirrorReplaced
from tailrace.spark.mirror.group_plan import plan_commits, translate_group
from tailrace.spark.mirror.job import PartitionJob, split_jobs
from tailrace.spark.mirror.name import MirrorName, name_problem
from tailrace.spark.mirror.record import Checkpoint
from tailrace.spark.mirror.rename import Renaming
from tailrace.spark.mirror.run import find_reason
from tailrace.spark.mirror.selection import read_pattern, selects_group, selects_topic
from tailrace.spark.mirror.state import TopicStatus, decode_status
from tailrace.spark.mirror.topic_plan import TopicState, plan_topics
from tailrace.spark.mirror.translation import Span, Translation

NAME = MirrorName("east", "west")


def test_copies_keep_their_names_by_default() -> None:
    renaming = Renaming("{topic}", NAME)
    assert renaming.apply("orders") == "orders"
    assert renaming.keeps_names
    assert not renaming.came_from_target("west.orders")


def test_a_template_renames_copies_and_recognises_those_of_the_other_direction() -> None:
    renaming = Renaming("{source}.{topic}", NAME)
    assert renaming.apply("orders") == "east.orders"
    assert renaming.came_from_target("west.orders")
    assert not renaming.came_from_target("east.orders")
    assert not renaming.came_from_target("orders")


def test_heartbeats_have_the_names_of_mirrormaker() -> None:
    assert Renaming("{topic}", NAME).apply("heartbeats") == "east.heartbeats"


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("copy", "must have {topic} once"),
        ("{topic}{topic}", "must have {topic} once"),
        ("{Topic}", "unknown field {Topic}"),
        ("{topic", "is not a template"),
        ("{}{topic}", "unknown field {}"),
    ],
)
def test_a_wrong_template_is_refused(template: str, reason: str) -> None:
    with pytest.raises(MirrorError, match=re.escape(reason)):
        Renaming(template, NAME)


def test_a_copy_without_a_valid_name_is_refused() -> None:
    with pytest.raises(MirrorError, match="topic orders the name 'a/orders'"):
        Renaming("a/{topic}", NAME).apply("orders")


def test_internal_topics_are_left_out() -> None:
    pattern = read_pattern("--topics", ".*")
    assert selects_topic(pattern, "orders")
    left_out = ["__consumer_offsets", "mm2-offset-syncs.east.internal", "heartbeats", "_tailrace_spark_decisions"]
    assert not any(selects_topic(pattern, topic) for topic in left_out)
    assert not selects_topic(read_pattern("--topics", "order"), "orders")
    assert selects_group(pattern, "billing")
    assert not selects_group(pattern, NAME.group_id)


def test_a_wrong_pattern_is_refused() -> None:
    with pytest.raises(MirrorError, match="--topics '\\(' is not a regular expression"):
        read_pattern("--topics", "(")


def test_names_of_clusters() -> None:
    assert name_problem("us-east_1") is None
    assert name_problem("a.b") is not None
    assert name_problem("") is not None


def test_a_missing_topic_is_created_with_the_configs_that_are_followed() -> None:
    found = plan_topics(
        {"topic": TopicState(3, {"retention.ms": "1", "min.insync.replicas": "2"})}, {}, {"topic": "copy"}, set()
    )
    assert found.create == {"copy": TopicState(3, {"retention.ms": "1"})}


def test_partitions_and_configs_follow_the_source() -> None:
    source = TopicState(3, {"retention.ms": "1", "cleanup.policy": "compact"})
    target = TopicState(1, {"retention.ms": "2", "segment.ms": "5", "unclean.leader.election.enable": "true"})
    found = plan_topics({"topic": source}, {"copy": target}, {"topic": "copy"}, {"copy"})
    assert found.grow == {"copy": 3}
    assert found.alter == {"copy": {"retention.ms": "1", "cleanup.policy": "compact", "segment.ms": None}}


def test_a_foreign_topic_with_fewer_partitions_is_refused() -> None:
    found = plan_topics({"topic": TopicState(3)}, {"copy": TopicState(1)}, {"topic": "copy"}, set())
    assert "copy exists in the target with 1 partitions and has 3 in the source" in found.refused["topic"]
    assert not found.grow


def test_two_topics_cannot_have_one_copy() -> None:
    found = plan_topics({"a": TopicState(1), "b": TopicState(1)}, {}, {"a": "copy", "b": "copy"}, set())
    assert found.refused == {"b": "topics a and b would both be copied to copy"}


def test_readers_of_a_topic_may_read_its_copy_and_nobody_may_write_it() -> None:
    read = Acl("topic", "orders", "User:r", "read")
    write = Acl("topic", "orders", "User:w", "write")
    everything = Acl("topic", "orders", "User:a", "all")
    denied = Acl("topic", "orders", "User:d", "write", permission="deny")
    other = Acl("topic", "others", "User:o", "read")
    found = missing_acls([read, write, everything, denied, other], {"orders": "copy"}, [])
    assert found == sorted(
        [
            Acl("topic", "copy", "User:r", "read"),
            Acl("topic", "copy", "User:a", "read"),
            Acl("topic", "copy", "User:d", "write", permission="deny"),
        ]
    )
    assert missing_acls([read], {"orders": "copy"}, [Acl("topic", "copy", "User:r", "read")]) == []


def test_the_route_of_a_topic_grows_and_ends_a_cycle() -> None:
    place = TopicPartition("orders", 0)
    assert routes_of([{place: write_route(["a", "b"])}]) == {"orders": ("a", "b")}
    assert cycle_problem("orders", "orders", ("a", "b"), "c") is None
    assert "would form a cycle" in (cycle_problem("orders", "orders", ("a", "b"), "a") or "")
    assert read_route("") == ()


def test_a_group_is_never_set_back() -> None:
    place = TopicPartition("copy", 0)
    checkpoint = Checkpoint("g", place, 10, 20)
    assert plan_commits({place: checkpoint}, {}) == {place: 20}
    assert plan_commits({place: checkpoint}, {place: OffsetAndMetadata(19)}) == {place: 20}
    assert plan_commits({place: checkpoint}, {place: OffsetAndMetadata(20)}) == {}
    assert plan_commits({place: checkpoint}, {place: OffsetAndMetadata(25)}) == {}


def test_offsets_that_cannot_be_translated_are_left_out() -> None:
    translation = Translation()
    translation.add(Span(10, 100, 5))
    known, unknown = TopicPartition("topic", 0), TopicPartition("topic", 1)
    committed = {known: OffsetAndMetadata(12, "m"), unknown: OffsetAndMetadata(1)}
    found = translate_group("g", committed, {known: translation}, {"topic": "copy"})
    copy = TopicPartition("copy", 0)
    assert found == {copy: Checkpoint("g", copy, 12, 102, "m")}


def test_a_claim_passes_to_the_next_run_and_knows_all_tasks() -> None:
    first = next_claim(None, NAME, "run1", "cluster", 8)
    second = next_claim(decode_claim(first.encode()), NAME, "run2", "cluster", 2)
    assert second == Claim("run2", "cluster", 8)
    check_claim(second.encode(), "run2", NAME)
    with pytest.raises(MirrorReplaced):
        check_claim(second.encode(), "run1", NAME)
    with pytest.raises(MirrorReplaced):
        check_claim(None, "run1", NAME)


def test_a_mirror_keeps_to_its_source_cluster() -> None:
    claim = next_claim(None, NAME, "run1", "cluster", 8)
    with pytest.raises(MirrorError, match="give it another name"):
        next_claim(claim, NAME, "run2", "other", 8)


@pytest.mark.parametrize("text", ["", "no json", "[]", "{}", '{"run_id": 1}'])
def test_a_text_without_a_claim(text: str) -> None:
    assert decode_claim(text) is None


def test_each_partition_is_in_one_bucket() -> None:
    jobs = [PartitionJob("t", partition, "t", "") for partition in range(10)]
    buckets = split_jobs(jobs, 3)
    assert sorted(job for found in buckets.values() for job in found) == jobs
    assert len(buckets) == 3
    assert max(len(found) for found in buckets.values()) <= 4


def test_a_status_is_read_back() -> None:
    status = TopicStatus("t", "copy", 5, 2.5, 3, 0, "an error", 7)
    assert decode_status(status.encode()) == status
    assert decode_status(b"{}") is None
    assert decode_status(None) is None


def test_the_reason_of_a_lost_task_is_the_python_error() -> None:
    text = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times
Traceback (most recent call last):
  File "worker.py", line 1, in main
tailrace.spark.error.BrokerError: no broker answers
	at org.apache.spark.api.python.BasePythonRunner"""
    assert find_reason(text) == "tailrace.spark.error.BrokerError: no broker answers"
    assert find_reason("Executor lost\nmore") == "Executor lost"
    assert find_reason("") == "no reason given"

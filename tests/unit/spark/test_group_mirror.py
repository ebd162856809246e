"""Positions of flows as the committed offsets of consumer groups."""

from pathlib import Path
from typing import Any

import pytest
from tests.logged import logged

from tailrace.client.admin.core import NewTopic
from tailrace.client.admin.sync import Admin
from tailrace.client.error import ClientError
from tailrace.client.topic_partition import TopicPartition
from tailrace.pipeline import flow, topic
from tailrace.spark.pipeline.group_mirror import GroupCommits, GroupMirror, group_name
from tailrace.spark.pipeline.plan import FlowPlan, plan_flow
from tailrace.spark.position import Offsets
from tailrace.testing import Broker

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


def plan(*sources: Any, servers: str = "h:1") -> FlowPlan:
    @flow(source=list(sources), sink=topic("out"))
    def counts(*frames: Any) -> Any:
        return frames[0]

    return plan_flow(counts, {"bootstrap.servers": servers}, Path("/c"), Path("/o"))


class Commits:
    """Brokers that note what is committed, and may be unreachable."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, str, Offsets]] = []
        self.is_down = False

    def commit(self, address: str, group: str, offsets: Offsets) -> None:
        if self.is_down:
            raise ClientError("no broker answers")
        self.taken.append((address, group, offsets))


def test_only_the_newest_position_is_committed_and_only_of_topics_that_the_flow_reads() -> None:
    commits = Commits()
    mirror = GroupMirror("site", [plan(topic("orders"))], commits.commit)
    mirror.note("counts", {FIRST: 3, SECOND: 4})
    mirror.note("counts", {FIRST: 5, TopicPartition("elsewhere", 0): 9})
    mirror.start()
    mirror.stop()
    assert commits.taken == [("h:1", "pipeline-site-counts", {FIRST: 5, SECOND: 4})]


def test_all_flows_can_share_a_group() -> None:
    commits = Commits()
    mirror = GroupMirror("connector", [plan(topic("orders"))], commits.commit, group="connect-out")
    mirror.note("counts", {FIRST: 3})
    mirror._commit_new()
    assert commits.taken == [("h:1", "connect-out", {FIRST: 3})]


def test_a_topic_that_two_clusters_have_is_left_out() -> None:
    commits = Commits()
    other = topic("orders", options={"kafka.bootstrap.servers": "h:2"})
    mirror = GroupMirror("site", [plan(topic("orders"), other, topic("users"))], commits.commit)
    mirror.note("counts", {FIRST: 5, TopicPartition("users", 0): 7})
    mirror._commit_new()
    assert commits.taken == [("h:1", "pipeline-site-counts", {TopicPartition("users", 0): 7})]


def test_brokers_that_do_not_answer_are_told_once_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    commits = Commits()
    mirror = GroupMirror("site", [plan(topic("orders"))], commits.commit)
    commits.is_down = True
    for offset in (1, 2):
        mirror.note("counts", {FIRST: offset})
        mirror._commit_new()
    assert logged(caplog).count("is not shown in its consumer group pipeline-site-counts: no broker answers") == 1
    commits.is_down = False
    mirror.note("counts", {FIRST: 3})
    mirror._commit_new()
    assert commits.taken == [("h:1", "pipeline-site-counts", {FIRST: 3})]


def test_a_broker_has_the_position_of_the_flow(tailrace_broker: Broker) -> None:
    servers = tailrace_broker.bootstrap_servers
    with Admin(config={"bootstrap.servers": servers}) as admin:
        admin.create_topics([NewTopic("orders", 2)])
        commits = GroupCommits({})
        try:
            commits.commit(servers, group_name("site", "counts"), {FIRST: 5, SECOND: 6})
        finally:
            commits.close()
        found = admin.list_group_offsets("pipeline-site-counts")
    assert {partition: each.offset for partition, each in found.items()} == {FIRST: 5, SECOND: 6}

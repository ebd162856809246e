"""Copies that keep offsets: each record, marker and gap of the source at its offset."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.spark.mirror.pair import copy_once, in_threads, options, running

import tailrace
from tailrace.cli.main import main
from tailrace.client.admin.core import ResourceType
from tailrace.client.cluster import Cluster
from tailrace.client.fetch.isolation import Isolation
from tailrace.client.offset import EARLIEST, LATEST
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.spark.mirror.error import MirrorError, MirrorReplaced
from tailrace.spark.mirror.job import PartitionJob
from tailrace.spark.mirror.keep_append import KeepAppender
from tailrace.spark.mirror.source_reader import SourceReader
from tailrace.testing import Broker

CLAIM = "tailrace.mirror.claim"


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Broker, Broker]]:
    with Broker() as source, Broker() as target:
        yield source, target


def copy(source: Broker, target: Broker, topic: str, end: int, claim: str = "mine") -> None:
    """Copy partition 0 of a topic up to an offset, as a task does."""

    async def run() -> None:
        one = PartitionJob(topic, 0, topic, "")
        async with Cluster(source.bootstrap_servers) as left, Cluster(target.bootstrap_servers) as right:
            appender = KeepAppender(right, {topic: claim})
            reader = SourceReader(left, await appender.find_positions([one]), isolation=Isolation.READ_UNCOMMITTED)
            try:
                while not reader.is_at({one.source: end}):
                    for fetched in await reader.next(1.0):
                        await appender.append(one, fetched)
            finally:
                await reader.close()
                await appender.close()

    asyncio.run(run())


def rows(broker: Broker, topic: str, isolation_level: str) -> list[dict[str, Any]]:
    table = tailrace.read_table(broker.bootstrap_servers, topic, isolation_level=isolation_level)
    found: list[dict[str, Any]] = table.to_pylist()
    return found


def write_transactions(broker: Broker, topic: str, count: int) -> None:
    with tailrace.Producer(broker.bootstrap_servers, transactional_id=f"{topic}-{count}") as producer:
        for number in range(count):
            producer.begin_transaction()
            for index in range(10):
                producer.send(topic, b"%d %d" % (number, index), b"%d" % index)
            producer.flush()
            if number % 3 == 1:
                producer.abort_transaction()
            else:
                producer.commit_transaction()


def end_of(broker: Broker, topic: str) -> int:
    with tailrace.Admin(broker.bootstrap_servers) as admin:
        return admin.list_offsets(topic, {0: LATEST})[0].offset


def test_offsets_transactions_and_markers_are_those_of_the_source(pair: tuple[Broker, Broker]) -> None:
    source, target = pair
    source.create_topic("ledger", 1)
    target.create_topic("ledger", 1, {CLAIM: "mine"})
    for _ in range(2):
        write_transactions(source, "ledger", 5)
        copy(source, target, "ledger", end_of(source, "ledger"))
        assert end_of(target, "ledger") == end_of(source, "ledger")
        for isolation_level in ("read_uncommitted", "read_committed"):
            assert rows(target, "ledger", isolation_level) == rows(source, "ledger", isolation_level)
    assert len(rows(target, "ledger", "read_committed")) == 60


def test_a_copy_begins_where_its_source_begins(pair: tuple[Broker, Broker]) -> None:
    source, target = pair
    source.create_topic("trimmed", 1)
    target.create_topic("trimmed", 1, {CLAIM: "mine"})
    source.produce("trimmed", [b"%d" % number for number in range(50)])
    with tailrace.Admin(source.bootstrap_servers) as admin:
        admin.delete_records({("trimmed", 0): 20})
    copy(source, target, "trimmed", 50)
    assert rows(target, "trimmed", "read_uncommitted") == rows(source, "trimmed", "read_uncommitted")
    with tailrace.Admin(target.bootstrap_servers) as admin:
        assert admin.list_offsets("trimmed", {0: EARLIEST})[0].offset == 20


def test_a_run_whose_claim_is_gone_is_told_so(pair: tuple[Broker, Broker]) -> None:
    source, target = pair
    source.create_topic("claimed", 1)
    target.create_topic("claimed", 1, {CLAIM: "theirs"})
    source.produce("claimed", [b"a"])
    with pytest.raises(MirrorReplaced, match="another run of the mirror has claimed topic claimed"):
        copy(source, target, "claimed", 1)
    assert end_of(target, "claimed") == 0


# --- the whole mirror


def test_a_mirror_creates_claims_and_fills_copies(pair: tuple[Broker, Broker]) -> None:
    source, target = pair
    source.create_topic("whole", 3, {"retention.ms": -1})
    source.produce("whole", [(b"%d" % number, b"v") for number in range(100)])
    write_transactions(source, "whole", 4)
    chosen = options(source, target, "whole", name=("keep", "there"), keep_offsets=True)
    for _ in range(2):
        copy_once(chosen)
        for isolation_level in ("read_uncommitted", "read_committed"):
            assert rows(target, "whole", isolation_level) == rows(source, "whole", isolation_level)
        source.produce("whole", [b"more"])
    with tailrace.Admin(source.bootstrap_servers) as admin:
        admin.alter_group_offsets("readers", {("whole", 0): 7})
    with running(chosen, once=True) as run:
        run.run(in_threads, lambda _: False, once=True)
        assert run.mirror.sync_error is None
    with tailrace.Admin(target.bootstrap_servers) as admin:
        configs = {one.name: one.value for one in admin.describe_configs(ResourceType.TOPIC, "whole")}
        assert configs["retention.ms"] == "-1"
        assert (configs[CLAIM] or "").endswith(run.mirror.run_id)
        assert admin.list_group_offsets("readers")["whole", 0].offset == 7  # type: ignore[index]


def test_a_topic_that_is_not_a_copy_is_left_alone(pair: tuple[Broker, Broker]) -> None:
    source, target = pair
    source.create_topic("mine")
    target.create_topic("mine")
    target.produce("mine", [b"theirs"])
    with pytest.raises(MirrorError, match="topic mine in the target has records that no mirror with --keep-offsets"):
        copy_once(options(source, target, "mine", name=("keep-mine", "there"), keep_offsets=True))
    target.create_topic("other", 1, {CLAIM: "cluster/topic/run"})
    source.create_topic("other")
    with pytest.raises(MirrorError, match=r"topic other in the target is the copy of another topic \(tailrace.mirror"):
        copy_once(options(source, target, "other", name=("keep-other", "there"), keep_offsets=True))


def test_a_promoted_copy_is_written_by_producers(
    pair: tuple[Broker, Broker], capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = pair
    source.create_topic("stage", 1)
    with tailrace.Producer(source.bootstrap_servers, transactional_id="stage") as producer:
        producer.begin_transaction()
        producer.send("stage", b"open")
        producer.flush()
        copy_up_to = end_of(source, "stage")
        target.create_topic("stage", 1, {CLAIM: "mine"})
        copy(source, target, "stage", copy_up_to)
        producer.abort_transaction()
    with tailrace.Producer(target.bootstrap_servers) as writer, pytest.raises(ApiError) as refused:
        writer.send("stage", b"early").result()
    assert refused.value.code is ErrorCode.POLICY_VIOLATION
    address = target.bootstrap_servers
    assert main(["mirror", "promote", "stage", "--to", address, "--dry-run"]) == 0
    assert capsys.readouterr().out == "stage\t1\t1\n"
    assert main(["mirror", "promote", "stage", "--to", address, "--dry-run", "--json"]) == 0
    plan = {"topic": "stage", "partitions": 1, "open_transactions": 1}
    assert json.loads(capsys.readouterr().out) == [{**plan, "promoted": False, "aborted_transactions": 0}]
    assert main(["mirror", "promote", "stage", "--to", address, "--yes"]) == 0
    assert "topic stage is promoted, 1 transactions were aborted" in capsys.readouterr().out
    with tailrace.Producer(address) as writer:
        assert writer.send("stage", b"after").result().offset == 2
    assert [row["value"] for row in rows(target, "stage", "read_committed")] == [b"after"]
    source.produce("stage", [b"late"] * 5)
    with pytest.raises(ApiError, match=r"POLICY_VIOLATION: stage has no tailrace\.mirror\.claim"):
        copy(source, target, "stage", end_of(source, "stage"))
    assert main(["mirror", "promote", "stage", "--to", address, "--yes"]) == 1
    assert "topic stage is not a copy of a mirror with --keep-offsets" in capsys.readouterr().err

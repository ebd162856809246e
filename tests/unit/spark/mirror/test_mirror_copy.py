"""Copies between two brokers: each committed record once, in order, with its partition, key, headers and timestamp."""

import re
from collections.abc import Iterator

import pytest
from tests.unit.spark.mirror.pair import committed, copy_once, in_threads, options, running

import tailrace
from tailrace.client.admin.acl import Acl
from tailrace.client.admin.core import ResourceType
from tailrace.spark.mirror.error import MirrorError, MirrorReplaced
from tailrace.testing import Broker


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Broker, Broker]]:
    with Broker() as source, Broker() as target:
        yield source, target


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """The name of a topic of the test's own."""
    return re.sub(r"\W", "_", request.node.name)


@pytest.fixture
def name(topic: str) -> tuple[str, str]:
    """The names of the clusters for a mirror of the test's own."""
    return f"a-{topic}"[:100], f"b-{topic}"[:100]


def write(broker: Broker, topic: str, numbers: range, codec: str = "none") -> None:
    with tailrace.Producer(broker.bootstrap_servers, batch_size=2_000, compression_type=codec) as producer:
        for number in numbers:
            key, value = b"%d" % (number % 7), b"value %d" % number
            producer.send(topic, value, key, headers=[("n", b"%d" % number)], timestamp_ms=1_000_000 + number)


def test_records_keep_everything_but_their_offsets(
    pair: tuple[Broker, Broker], topic: str, name: tuple[str, str]
) -> None:
    source, target = pair
    source.create_topic(topic, 3, {"retention.ms": -1})
    for number, codec in enumerate(["none", "gzip", "snappy", "lz4", "zstd"]):
        write(source, topic, range(number * 100, number * 100 + 100), codec=codec)
    source.produce(topic, [(b"k", None), (None, b""), (b"", b"v")])
    run = copy_once(options(source, target, topic, name=name))
    assert run.mirror.statuses[topic].record_count == 503
    assert committed(target, topic) == committed(source, topic)
    assert len(committed(target, topic)) == 503


def test_aborted_records_are_not_copied(pair: tuple[Broker, Broker], topic: str, name: tuple[str, str]) -> None:
    source, target = pair
    source.create_topic(topic)
    with tailrace.Producer(source.bootstrap_servers, transactional_id=topic) as producer:
        for number in range(6):
            producer.begin_transaction()
            for index in range(10):
                producer.send(topic, b"%d %d" % (number, index))
            producer.flush()
            if number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    copy_once(options(source, target, topic, name=name))
    values = [row[2] for row in committed(target, topic)]
    assert values == [b"%d %d" % (number, index) for number in (0, 2, 4) for index in range(10)]


def test_a_second_run_goes_on_where_the_first_ended(
    pair: tuple[Broker, Broker], topic: str, name: tuple[str, str]
) -> None:
    source, target = pair
    source.create_topic(topic, 2)
    for part in range(3):
        write(source, topic, range(part * 50, part * 50 + 50))
        copy_once(options(source, target, topic, name=name, task_count=part + 1))
    assert committed(target, topic) == committed(source, topic)


def test_progress_that_the_group_lost_comes_back_from_the_syncs(
    pair: tuple[Broker, Broker], topic: str, name: tuple[str, str]
) -> None:
    source, target = pair
    source.create_topic(topic)
    write(source, topic, range(50))
    chosen = options(source, target, topic, name=name)
    copy_once(chosen)
    with tailrace.Admin(target.bootstrap_servers) as admin:
        admin.delete_groups([chosen.name.group_id])
    write(source, topic, range(50, 60))
    copy_once(chosen)
    assert committed(target, topic) == committed(source, topic)


def test_new_partitions_topics_and_configs_are_followed(
    pair: tuple[Broker, Broker], topic: str, name: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tailrace.spark.mirror.topic_sync.CONFIG_INTERVAL_S", 0.0)
    source, target = pair
    source.create_topic(topic, 1, {"retention.ms": 1_000_000_000_000})
    write(source, topic, range(10))
    with running(options(source, target, f"{topic}.*", name=name, round_s=0.5)) as run:
        run.run_round(in_threads)
        with tailrace.Admin(source.bootstrap_servers) as admin:
            admin.create_partitions({topic: 3})
            admin.alter_configs(
                ResourceType.TOPIC, topic, {"retention.ms": "2000000000000", "segment.bytes": "1048576"}
            )
        source.create_topic(f"{topic}_more", 2)
        write(source, f"{topic}_more", range(10))
        with tailrace.Producer(source.bootstrap_servers) as producer:
            producer.send(topic, b"in a new partition", partition=2)
        run.run_round(in_threads)
        run.run_round(in_threads)
    for copied in (topic, f"{topic}_more"):
        assert committed(target, copied) == committed(source, copied)
    with tailrace.Admin(target.bootstrap_servers) as admin:
        configs = {config.name: config.value for config in admin.describe_configs(ResourceType.TOPIC, topic)}
    assert (configs["retention.ms"], configs["segment.bytes"]) == ("2000000000000", "1048576")


def test_a_run_that_was_replaced_copies_nothing_more(
    pair: tuple[Broker, Broker], topic: str, name: tuple[str, str]
) -> None:
    source, target = pair
    source.create_topic(topic)
    write(source, topic, range(10))
    chosen = options(source, target, topic, name=name, round_s=0.3)
    with running(chosen) as first:
        first.run_round(in_threads)
        with running(chosen) as second:
            write(source, topic, range(10, 20))
            with pytest.raises(MirrorReplaced, match="has replaced this one"):
                first.run_round(in_threads)
            second.run_round(in_threads)
    assert committed(target, topic) == committed(source, topic)


@pytest.mark.parametrize("api", ["PRODUCE", "END_TXN", "TXN_OFFSET_COMMIT", "INIT_PRODUCER_ID", "OFFSET_FETCH"])
def test_a_lost_request_changes_nothing(
    pair: tuple[Broker, Broker], topic: str, name: tuple[str, str], api: str
) -> None:
    source, target = pair
    source.create_topic(topic)
    write(source, topic, range(20))
    with running(options(source, target, topic, name=name, round_s=0.3)) as run:
        run.run_round(in_threads)
        write(source, topic, range(20, 40))
        fault = target.inject(api, drop=True)
        run.run_round(in_threads)
        run.run_round(in_threads)
        target.clear_faults()
    assert fault.hits == 1
    assert committed(target, topic) == committed(source, topic)


def test_a_topic_that_the_target_refuses_does_not_stop_the_others(
    pair: tuple[Broker, Broker], topic: str, name: tuple[str, str]
) -> None:
    source, target = pair
    small = f"{topic}_small"
    for created in (topic, small):
        source.create_topic(created)
        target.create_topic(created, 1, {"max.message.bytes": 500} if created == small else {})
    write(source, topic, range(10))
    source.produce(small, [b"x" * 2_000])
    with running(options(source, target, f"{topic}.*", name=name, round_s=0.3, task_count=1)) as run:
        run.run_round(in_threads)
        run.run_round(in_threads)
        assert "max.message.bytes" in str(run.mirror.statuses[small].error)
    assert committed(target, topic) == committed(source, topic)


def test_both_directions_without_a_cycle(pair: tuple[Broker, Broker], topic: str) -> None:
    source, target = pair
    more = {"template": "{source}.{topic}", "round_s": 0.3}
    for broker in pair:
        broker.create_topic(topic)
        write(broker, topic, range(10))
    pattern = rf"(.*\.)?{topic}"
    with (
        running(options(source, target, pattern, name=("a2", "b2"), **more)) as there,
        running(options(target, source, pattern, name=("b2", "a2"), **more)) as back,
    ):
        for _ in range(2):
            there.run_round(in_threads)
            back.run_round(in_threads)
    assert committed(target, f"a2.{topic}") == committed(source, topic)
    assert committed(source, f"b2.{topic}") == committed(target, topic)
    for broker in pair:
        with tailrace.Admin(broker.bootstrap_servers) as admin:
            assert len([found for found in admin.list_topics() if found.name.endswith(topic)]) == 2


def test_a_cycle_is_refused(pair: tuple[Broker, Broker], topic: str, name: tuple[str, str]) -> None:
    source, target = pair
    source.create_topic(topic)
    write(source, topic, range(10))
    copy_once(options(source, target, topic, name=name))
    with (
        pytest.raises(MirrorError, match="would form a cycle"),
        running(options(target, source, topic, name=name[::-1])),
    ):
        pass
    with tailrace.Admin(source.bootstrap_servers) as admin:
        assert not any(found.name.endswith(f"{name[1]}.internal") for found in admin.list_topics())


def test_a_cluster_is_not_copied_onto_itself(pair: tuple[Broker, Broker], topic: str, name: tuple[str, str]) -> None:
    source, _ = pair
    with pytest.raises(MirrorError, match="are the same cluster"), running(options(source, source, topic, name=name)):
        pass


def test_a_foreign_topic_with_fewer_partitions_is_refused_before_anything_changes(
    pair: tuple[Broker, Broker], topic: str, name: tuple[str, str]
) -> None:
    source, target = pair
    source.create_topic(topic, 3)
    source.create_topic(f"{topic}_other", 3)
    target.create_topic(topic, 1)
    with (
        pytest.raises(MirrorError, match="exists in the target with 1 partitions and has 3"),
        running(options(source, target, f"{topic}.*", name=name)),
    ):
        pass
    with tailrace.Admin(target.bootstrap_servers) as admin:
        names = [found.name for found in admin.list_topics()]
    assert f"{topic}_other" not in names
    assert not any(name[0] in found for found in names)


def test_another_source_under_the_same_name_is_refused(
    pair: tuple[Broker, Broker], topic: str, name: tuple[str, str]
) -> None:
    source, target = pair
    source.create_topic(topic)
    copy_once(options(source, target, topic, name=name))
    with Broker() as other:
        other.create_topic(f"{topic}_other")
        with (
            pytest.raises(MirrorError, match="give it another name"),
            running(options(other, target, f"{topic}_other", name=name)),
        ):
            pass


def test_an_unreachable_cluster_is_named() -> None:
    with Broker() as source:
        chosen = options(source, source, ".*")
    with pytest.raises(MirrorError, match=r"--from 127\.0\.0\.1"), running(chosen):
        pass


def test_readers_of_a_topic_may_read_its_copy(topic: str) -> None:
    secured: dict[str, str | int | float | bool] = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "allow.everyone.if.no.acl.found": True,
    }
    with Broker(secured) as source, Broker(secured) as target:
        source.create_topic(topic)
        with tailrace.Admin(source.bootstrap_servers) as admin:
            admin.create_acls([Acl("topic", topic, "User:ANONYMOUS", "all"), Acl("topic", topic, "User:r", "read")])
        copy_once(options(source, target, topic, template="{source}.{topic}"))
        with tailrace.Admin(target.bootstrap_servers) as admin:
            found = {(acl.name, acl.principal, acl.operation) for acl in admin.describe_acls()}
    assert {(f"a.{topic}", "User:r", "read"), (f"a.{topic}", "User:ANONYMOUS", "read")} <= found

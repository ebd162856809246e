"""Groups of the source in the target: no record is skipped, and few are read again."""

import time

import pytest
from tests.unit.spark.mirror.pair import in_threads, options, running

import tailrace
from tailrace.client.topic_partition import TopicPartition
from tailrace.spark.mirror.record import decode_checkpoint, decode_heartbeat
from tailrace.testing import Broker

COUNT = 200


def write(broker: Broker, topic: str, numbers: range) -> None:
    with tailrace.Producer(broker.bootstrap_servers, transactional_id=topic, batch_size=500) as producer:
        for start in range(numbers.start, numbers.stop, 10):
            with producer.transaction():  # each one leaves a marker, so offsets are not those of the copy
                for number in range(start, start + 10):
                    producer.send(topic, b"%d" % number)


def test_a_group_goes_on_in_the_target() -> None:
    with Broker() as source, Broker() as target:
        source.create_topic("orders")
        write(source, "orders", range(COUNT))
        with running(options(source, target, "orders", round_s=0.3)) as run:
            run.run_round(in_threads)
            with tailrace.Consumer(
                source.bootstrap_servers, group_id="billing", auto_offset_reset="earliest", enable_auto_commit=False
            ) as consumer:
                consumer.subscribe("orders")
                read = [next(consumer).value for _ in range(57)]
                consumer.commit()
            write(source, "orders", range(COUNT, 2 * COUNT))
            run.run_round(in_threads)
            run._thread.call(run.mirror.finish())
        source.stop()
        with tailrace.Consumer(target.bootstrap_servers, group_id="billing", auto_offset_reset="latest") as consumer:
            consumer.subscribe("orders")
            read += [next(consumer).value for _ in range(2 * COUNT - 57)]
        assert read == [b"%d" % number for number in range(2 * COUNT)]


def test_an_active_group_is_left_alone_and_checkpoints_are_written() -> None:
    with Broker() as source, Broker() as target:
        for broker in (source, target):
            broker.create_topic("orders")
        write(source, "orders", range(COUNT))
        with (
            tailrace.Admin(source.bootstrap_servers) as there,
            tailrace.Admin(target.bootstrap_servers) as here,
            tailrace.Consumer(target.bootstrap_servers, group_id="active", auto_offset_reset="earliest") as consumer,
            running(options(source, target, "orders", round_s=0.3)) as run,
        ):
            run.run_round(in_threads)
            consumer.subscribe("orders")
            next(consumer)
            for group_id in ("active", "idle", "console-consumer-7"):
                there.alter_group_offsets(group_id, {("orders", 0): 23})
            run._thread.call(run.mirror.finish())
            place = TopicPartition("orders", 0)
            assert place not in here.list_group_offsets("active")
            assert here.list_group_offsets("idle")[place].offset == 21  # two markers are not copied
            assert here.list_group_offsets("console-consumer-7") == {}
            here.alter_group_offsets("idle", {("orders", 0): 40})
            there.alter_group_offsets("idle", {("orders", 0): 30})
            run._thread.call(run.mirror.sync_once())
            assert here.list_group_offsets("idle")[place].offset == 40
        found = [decode_checkpoint(one.key, one.value) for one in target.consume("a.checkpoints.internal")]
        assert {(one.group_id, one.partition, one.source_offset, one.target_offset) for one in found} >= {
            ("active", ("orders", 0), 23, 21),
            ("idle", ("orders", 0), 23, 21),
            ("idle", ("orders", 0), 30, 28),
        }
        beats = [decode_heartbeat(one.key, one.value) for one in target.consume("heartbeats")]
        assert {(beat.source, beat.target) for beat in beats} == {("a", "b")}
        assert abs(beats[-1].timestamp_ms / 1000 - time.time()) < 600
        assert target.consume("a.heartbeats")


@pytest.mark.parametrize("restarts", [False, True])
def test_translation_survives_a_restart(restarts: bool) -> None:
    with Broker() as source, Broker() as target:
        source.create_topic("orders")
        write(source, "orders", range(COUNT))
        chosen = options(source, target, "orders", round_s=0.3)
        with running(chosen) as run:
            run.run_round(in_threads)
            translations = dict(run.mirror._follower.translations)
            if not restarts:
                run._thread.call(run.mirror.finish())
                translations = dict(run.mirror._follower.translations)
        if restarts:
            with running(chosen) as again:
                translations = dict(again.mirror._follower.translations)
        found = translations[TopicPartition("orders", 0)]
        assert [found.translate(offset) for offset in (0, 9, 10, 11, 12)] == [0, 9, 10, 10, 11]

"""What Apache Kafka's coordinators wrote with transactions is loaded by ours, which then say what Kafka said.

Kafka lives through the story of `coordinator_story` and answers; then our broker gets `__consumer_offsets`,
`__transaction_state` and the topic as Kafka has left them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from bench.kafka import ApacheKafka, Unavailable
from tests.clients.ask.asker import Asker
from tests.clients.ask.group import new_group
from tests.clients.ask.transaction_step import end, new_transactional_id, settled, stable_end
from tests.clients.coordinator_story import TOPIC, Story, offsets

from tailrace.testing import Broker

# One Kafka serves all of them.
pytestmark = pytest.mark.slow

OPTIONS = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
FOLDERS = ("__consumer_offsets-0", "__transaction_state-0", f"{TOPIC}-0", f"{TOPIC}-1")
UNSTABLE = 88


class Estate(NamedTuple):
    """What Kafka has left, how it came to that, and what Kafka said."""

    folder: Path
    story: Story
    told: dict[str, Any]


@pytest.fixture(scope="module")
def estate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Estate]:
    """Apache Kafka's, after a clean stop."""
    folder = tmp_path_factory.mktemp("kafka")
    try:
        kafka = ApacheKafka(OPTIONS, data=folder).start()
    except Unavailable as reason:
        pytest.skip(str(reason))
    try:
        story = Story(Asker(kafka.bootstrap_servers))
        story.live()
        told = story.told(story.asker)
    finally:
        kafka.stop()
    yield Estate(kafka.log_folder, story, told)
    shutil.rmtree(folder)


@pytest.fixture
def heir(estate: Estate, tmp_path: Path) -> Iterator[Asker]:
    """Our broker with Kafka's logs in the place of its own."""
    with Broker(OPTIONS, data=tmp_path) as broker:
        asker = Asker(broker.bootstrap_servers)
        asker.topic(TOPIC, partitions=2)
        new_group(asker)
        new_transactional_id(asker)
    inherit(estate.folder, tmp_path)
    with Broker(OPTIONS, data=tmp_path) as broker:
        asker = Asker(broker.bootstrap_servers)
        new_group(asker)
        new_transactional_id(asker)
        yield asker


def inherit(source: Path, target: Path) -> None:
    """Put logs in the place of others, whose topic ids stay; nothing else is left that tells of the logs."""
    for name in FOLDERS:
        for file in (target / name).iterdir():
            if file.name != "partition.metadata":
                file.unlink()
        for file in (source / name).iterdir():
            if file.name != "partition.metadata":
                shutil.copy(file, target / name / file.name)
    for file in target.iterdir():
        if file.name.endswith("-checkpoint") or file.name == ".kafka_cleanshutdown":
            file.unlink()


def test_our_coordinators_say_what_kafka_said(estate: Estate, heir: Asker) -> None:
    _, story, told = estate
    ours = story.told(heir)
    for subject, answer in told.items():
        assert as_json(ours[subject]) == as_json(answer), subject
    unstable = [group for group, found in told["offsets"].items() if str(UNSTABLE) in as_json(found["named, stable"])]
    assert sorted(unstable) == sorted(group for group in story.groups if "pending" in group or group == "several")


def as_json(answer: Any) -> str:
    """In lines, so that a difference can be read."""
    return json.dumps(answer, indent=1, default=str, sort_keys=True)


def test_what_kafka_left_open_is_ended_by_our_coordinator(estate: Estate, heir: Asker) -> None:
    _, story, told = estate
    assert told["ends"][0] < told["ends"][1]
    for name, producer in story.producers.items():
        if "pending" in name or name == "several":
            version = 5 if name.endswith("-2") else 3
            assert end(heir, producer, is_commit=name != "several", version=version)[0] == 0
            settled(heir, producer)
    for generation in (1, 2):
        assert committed(heir, f"pending-{generation}") == [10, 11]
        # What stands last in the log counts, whenever it was decided.
        assert committed(heir, f"pending-among-others-{generation}") == [30, 40]
    assert committed(heir, "several") == [52]
    assert len(set(stable_end(heir, TOPIC))) == 1


def committed(asker: Asker, group: str) -> list[int]:
    """The offsets of a group by partition, none of which is pending."""
    code, found = offsets(asker, group)["all, stable"]
    assert (code, {error for _, _, error, *_ in found}) == (0, {0})
    return [offset for _, _, _, offset, *_ in found]

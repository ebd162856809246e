"""Every story that was told to Kafka Connect, told to our service.

A difference fails with both answers; one that we mean to keep belongs into `known_differences.json`, with the reason.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.connect.answers.compare import differences, expected, known, recorded
from tests.unit.connect.answers.record import tell, titles
from tests.unit.connect.answers.stories import STORIES
from tests.unit.connect.serving import served

from tailrace.connect.service import ServiceOptions
from tailrace.testing import Broker

WORKER = dict.fromkeys(("key.converter", "value.converter"), "org.apache.kafka.connect.storage.StringConverter")


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A service and a broker of its own for each story: some leave connectors and offsets behind."""
    with Broker() as broker:
        broker.create_topic("orders", 2)
        with served(ServiceOptions({"bootstrap.servers": broker.bootstrap_servers}, tmp_path, worker=WORKER)) as url:
            yield url


@pytest.mark.parametrize("name", STORIES)
def test_a_story_has_the_answers_of_kafka_connect(url: str, name: str) -> None:
    found = list(differences(expected(name), tell(name, url)))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", STORIES)
def test_every_call_has_a_recorded_answer(name: str) -> None:
    assert list(recorded()["stories"][name]) == titles(name)


def test_every_difference_is_one_and_has_a_reason() -> None:
    """An entry that no longer differs must go."""
    for name, calls in known().items():
        for title, difference in calls.items():
            assert difference["answer"] != recorded()["stories"][name][title], title
            assert difference["why"], title

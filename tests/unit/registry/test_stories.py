"""Every story that was told to Confluent's registry, told to ours.

Each story has an empty registry with a topic of its own. A difference fails with both answers; one that we mean to keep
belongs into `known_differences.json`, with the reason.
"""

from collections.abc import Iterator

import pytest
from tests.unit.registry.answers.compare import differences, expected
from tests.unit.registry.answers.record import tell
from tests.unit.registry.answers.stories import STORIES

from tailrace.testing import Broker, SchemaRegistry


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"group.initial.rebalance.delay.ms": 0}) as running:
        yield running


@pytest.mark.parametrize("name", STORIES)
def test_a_story_has_the_answers_of_confluents_registry(broker: Broker, name: str) -> None:
    with SchemaRegistry(broker.bootstrap_servers, topic=f"_{name}") as registry:
        given = tell(name, registry.url)
    found = list(differences(expected(name), given))
    assert not found, "\n".join(found)

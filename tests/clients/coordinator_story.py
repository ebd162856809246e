"""Groups and transactional ids in every state that a log can hold, made step by step, and what a broker says of them.

The steps and the questions are plain requests, so one broker can be asked to live through the story and another one,
which has got its logs, what came of it.
"""

from __future__ import annotations

from typing import Any

from tests.clients.ask.asker import Asker
from tests.clients.ask.group import new_group
from tests.clients.ask.group_offset import commit
from tests.clients.ask.transaction_step import (
    Identity,
    add,
    add_offsets,
    commit_offset,
    end,
    init,
    new_transactional_id,
    settled,
    stable_end,
    write,
)

TOPIC = "story"
TIMEOUT_MS = 900_000  # what is left open stays open
GENERATIONS = (1, 2)
ENDS = {"committed": True, "aborted": False, "pending": None}
"""What becomes of a transaction; one that is pending has no end."""


class Story:
    """A broker's groups and transactional ids, by names that tell what they went through."""

    def __init__(self, asker: Asker) -> None:
        self.asker = asker
        self.groups: list[str] = []
        self.producers: dict[str, Identity] = {}

    def live(self) -> None:
        """Make them all; the topic has two partitions, and each coordinator's topic one."""
        self.asker.topic(TOPIC, partitions=2)
        new_group(self.asker)
        new_transactional_id(self.asker)
        self.producers["idle"] = self._new_producer("idle")
        for generation in GENERATIONS:
            for fate, is_commit in ENDS.items():
                self._alone(f"{fate}-{generation}", generation, is_commit)
                self._among_others(f"{fate}-among-others-{generation}", generation, is_commit)
        self._several_transactions("several")

    def _alone(self, name: str, generation: int, is_commit: bool | None) -> None:
        """A group of which only transactions know, and records in both partitions."""
        producer = self._new_producer(name)
        self._begin(producer, name, generation)
        for partition in range(2):
            self._write(producer, partition, generation)
            self._commit(producer, name, generation, partition, offset=10 + partition)
        self._end(producer, generation, is_commit)

    def _among_others(self, name: str, generation: int, is_commit: bool | None) -> None:
        """Offsets that were committed plainly before those of the transaction, and one after them."""
        for partition in range(2):
            assert commit(self.asker, name, TOPIC, offset=20 + partition, partition=partition, metadata="before") == 0
        producer = self._new_producer(name)
        self._begin(producer, name, generation)
        for partition in range(2):
            self._commit(producer, name, generation, partition, offset=30 + partition)
        assert commit(self.asker, name, TOPIC, offset=40, partition=1, metadata="after") == 0
        self._end(producer, generation, is_commit)

    def _several_transactions(self, name: str) -> None:
        """One after the other, aborted in between, and at last one that stays open."""
        producer = self._new_producer(name)
        for number, is_commit in enumerate((True, False, True, False, None)):
            self._begin(producer, name, 1)
            self._commit(producer, name, 1, 0, offset=50 + number)
            self._end(producer, 1, is_commit)

    def _new_producer(self, name: str) -> Identity:
        reply = init(self.asker, name, transaction_timeout_ms=TIMEOUT_MS)
        assert reply["error_code"] == 0
        producer = self.producers[name] = Identity(name, reply["producer_id"], reply["producer_epoch"])
        return producer

    def _begin(self, producer: Identity, group: str, generation: int) -> None:
        if group not in self.groups:
            self.groups.append(group)
        if generation == 1:
            assert add(self.asker, producer, (TOPIC, 0), (TOPIC, 1)) == [[0, 0], [1, 0]]
            assert add_offsets(self.asker, producer, group) == 0

    def _write(self, producer: Identity, partition: int, generation: int) -> None:
        version = 11 if generation == 1 else 12
        assert write(self.asker, producer, TOPIC, version=version, partition=partition) == 0

    def _commit(self, producer: Identity, group: str, generation: int, partition: int, offset: int) -> None:
        version = 3 if generation == 1 else 5
        code = commit_offset(self.asker, producer, group, TOPIC, offset=offset, partition=partition, version=version)
        assert code == 0

    def _end(self, producer: Identity, generation: int, is_commit: bool | None) -> None:
        if is_commit is not None:
            assert end(self.asker, producer, is_commit=is_commit, version=3 if generation == 1 else 5)[0] == 0
            settled(self.asker, producer)

    def told(self, asker: Asker) -> dict[str, Any]:
        """What a broker says of all of this."""
        described = asker.fields("DescribeTransactions", 0, transactional_ids=list(self.producers))
        listed = asker.fields("ListTransactions", 0, state_filters=[], producer_id_filters=[])["transaction_states"]
        producers = asker.fields("DescribeProducers", 0, topics=[{"name": TOPIC, "partition_indexes": [0, 1]}])
        partitions = producers["topics"][0]["partitions"]
        return {
            "offsets": {group: offsets(asker, group) for group in self.groups},
            "transactions": [_sorted_topics(each) for each in described["transaction_states"]],
            "listed": sorted([each["transactional_id"], each["transaction_state"]] for each in listed),
            "producers": {
                each["partition_index"]: sorted(each["active_producers"], key=lambda found: found["producer_id"])
                for each in partitions
            },
            "ends": stable_end(asker, TOPIC),
        }


def offsets(asker: Asker, group: str) -> dict[str, Any]:
    """The offsets of a group, asked for by name and as a whole, stable ones and any."""
    by_name = [{"name": TOPIC, "partition_indexes": [0, 1]}]
    return {
        f"{'all' if topics is None else 'named'}, {'stable' if stable else 'any'}": _fetch(asker, group, topics, stable)
        for topics in (by_name, None)
        for stable in (False, True)
    }


def _fetch(asker: Asker, group: str, topics: Any, require_stable: bool) -> Any:
    reply = asker.fields("OffsetFetch", 7, group_id=group, topics=topics, require_stable=require_stable)
    names = ("partition_index", "error_code", "committed_offset", "committed_leader_epoch", "metadata")
    found = sorted(
        [topic["name"], *(partition[name] for name in names)]
        for topic in reply["topics"]
        for partition in topic["partitions"]
    )
    return [reply["error_code"], found]


def _sorted_topics(described: dict[str, Any]) -> dict[str, Any]:
    topics = sorted([topic["topic"], sorted(topic["partitions"])] for topic in described["topics"])
    return {**described, "topics": topics}

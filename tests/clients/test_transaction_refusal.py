"""What is wrong in a transaction gets the right code and changes nothing, asked over sockets of a broker.

Nothing is changed when the coordinator says the same of the transactional id, its log and the log of offsets have not
grown, readers of either kind end where they did, and the group's offset is the same. With TAILRACE_TEST_TARGET=kafka
the same is asked of Apache Kafka, whose codes these are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.clients.ask.asker import Asker
from tests.clients.ask.group import new_group
from tests.clients.ask.transaction_step import (
    Identity,
    add,
    add_offsets,
    changed,
    commit_offset,
    end,
    init,
    new_transactional_id,
    settled,
    stable_end,
    write,
)
from tests.clients.conftest import TARGET
from tests.clients.own_broker import own_broker
from tests.eventual import eventually
from tests.faults.live import Live

from tailrace.protocol.errors import ErrorCode
from tailrace.server.context import RequestContext, Resource

pytestmark = pytest.mark.slow

OPTIONS = {
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
}
STATE, OFFSETS = "__transaction_state", "__consumer_offsets"
TIMEOUT_MS = 10_000  # within which a transaction begins on a machine that is busy
ABORTED_WITHIN_S = 60
WRITES = {"write", "write elsewhere", "offset"}  # these codes come from a partition's leader
ABSENT = "absent-topic"
OFFSET = 5

both_generations = pytest.mark.parametrize("generation", [1, 2])


class Scene(NamedTuple):
    """A producer, where it writes, and the group whose offsets it commits; of generation 2 brokers add partitions."""

    asker: Asker
    producer: Identity
    topic: str
    group: str
    generation: int

    @property
    def end_version(self) -> int:
        return 3 if self.generation == 1 else 5

    @property
    def write_version(self) -> int:
        return 11 if self.generation == 1 else 12

    @property
    def commit_version(self) -> int:
        return 3 if self.generation == 1 else 5

    def state(self) -> dict[str, Any]:
        """All that a request could have changed."""
        described = self.asker.fields("DescribeTransactions", 0, transactional_ids=[self.producer.name])
        return {
            "transaction": described["transaction_states"],
            "logs": [self.asker.list_offsets(name, -1)["offset"] for name in (STATE, OFFSETS)],
            "ends": stable_end(self.asker, self.topic),
            "offset": [self.committed(require_stable=required) for required in (False, True)],
        }

    def committed(self, *, require_stable: bool) -> list[int]:
        """The code and the offset that OffsetFetch gives for the group."""
        topics = [{"name": self.topic, "partition_indexes": [0]}]
        fields = {"group_id": self.group, "topics": topics, "require_stable": require_stable}
        (found,) = self.asker.fields("OffsetFetch", 7, **fields)["topics"][0]["partitions"]
        return [found["error_code"], found["committed_offset"]]


def begin(asker: Asker, generation: int, timeout_ms: int = 60_000) -> Scene:
    """An open transaction with a record and an offset, by the second producer of its transactional id."""
    name = new_transactional_id(asker)
    init(asker, name)
    reply = init(asker, name, transaction_timeout_ms=timeout_ms)
    assert (reply["error_code"], reply["producer_epoch"]) == (0, 1)
    producer = Identity(name, reply["producer_id"], reply["producer_epoch"])
    scene = Scene(asker, producer, asker.topic(partitions=2), new_group(asker), generation)
    if generation == 1:
        assert add(asker, producer, (scene.topic, 0)) == [[0, 0]]
        assert add_offsets(asker, producer, scene.group) == 0
    assert write(asker, producer, scene.topic, version=scene.write_version) == 0
    committed = commit_offset(asker, producer, scene.group, scene.topic, offset=OFFSET, version=scene.commit_version)
    assert committed == 0
    return scene


def finish(scene: Scene) -> None:
    """The rightful producer has lost nothing: it commits, and both record and offset count."""
    assert end(scene.asker, scene.producer, version=scene.end_version)[0] == 0
    assert settled(scene.asker, scene.producer)["state"] == "CompleteCommit"
    end_offset = scene.state()["ends"][1]
    assert scene.state()["ends"] == [end_offset, end_offset]
    assert scene.committed(require_stable=True) == [0, OFFSET]


def requests(scene: Scene, producer: Identity) -> dict[str, Callable[[], int]]:
    """What a producer says in a transaction, by names; each gives its code."""
    asker, topic, group = scene.asker, scene.topic, scene.group
    steps: dict[str, Callable[[], int]] = {
        "write": lambda: write(asker, producer, topic, 1, version=scene.write_version),
        "offset": lambda: commit_offset(asker, producer, group, topic, offset=OFFSET + 1, version=scene.commit_version),
        "commit": lambda: int(end(asker, producer, version=scene.end_version)[0]),
        "abort": lambda: int(end(asker, producer, is_commit=False, version=scene.end_version)[0]),
    }
    if scene.generation == 1:
        steps |= {
            "add": lambda: add(asker, producer, (topic, 1))[0][1],
            "add offsets": lambda: add_offsets(asker, producer, new_group(asker)),
        }
    else:
        steps["write elsewhere"] = lambda: write(asker, producer, topic, version=scene.write_version, partition=1)
    return steps


def refusals(scene: Scene, steps: dict[str, Callable[[], int]]) -> dict[str, str]:
    """The codes of requests, none of which has changed anything."""
    codes = {}
    before = scene.state()
    for name, step in steps.items():
        codes[name] = ErrorCode(step()).name
        assert scene.state() == before, name
    return codes


@pytest.fixture(scope="module")
def asker() -> Iterator[Asker]:
    with own_broker(OPTIONS) as bootstrap:
        yield Asker(bootstrap)


@both_generations
@pytest.mark.parametrize("epoch", [0, 5], ids=["older", "newer"])
def test_a_wrong_epoch(asker: Asker, generation: int, epoch: int) -> None:
    scene = begin(asker, generation)
    wrong = changed(scene.producer, epoch=epoch)
    codes = refusals(scene, requests(scene, wrong))
    assert codes == {name: "INVALID_PRODUCER_EPOCH" if name in WRITES else "PRODUCER_FENCED" for name in codes}
    finish(scene)


@both_generations
def test_a_wrong_producer_id(asker: Asker, generation: int) -> None:
    scene = begin(asker, generation)
    wrong = changed(scene.producer, producer_id=scene.producer.producer_id + 1000)
    codes = refusals(scene, requests(scene, wrong))
    assert set(codes.values()) == {"INVALID_PRODUCER_ID_MAPPING"}
    finish(scene)


@both_generations
def test_a_wrong_identity_of_who_wants_to_go_on(asker: Asker, generation: int) -> None:
    scene = begin(asker, generation)
    finish(scene)
    name, producer_id, epoch = scene.producer

    def resume(producer_id: int, epoch: int) -> Callable[[], int]:
        return lambda: int(init(asker, name, producer_id=producer_id, producer_epoch=epoch)["error_code"])

    steps = {"newer": resume(producer_id, epoch + 5), "other": resume(producer_id + 1000, epoch)}
    steps |= {"half": resume(producer_id, -1)}
    assert refusals(scene, steps) == {"newer": "PRODUCER_FENCED", "other": "PRODUCER_FENCED", "half": "INVALID_REQUEST"}


@both_generations
def test_an_end_twice(asker: Asker, generation: int) -> None:
    scene = begin(asker, generation)
    finish(scene)
    producer, version = scene.producer, scene.end_version
    codes = refusals(
        scene,
        {
            "commit": lambda: int(end(asker, producer, version=version)[0]),
            "abort": lambda: int(end(asker, producer, is_commit=False, version=version)[0]),
            "commit of the next": lambda: int(
                end(asker, changed(producer, epoch=producer.epoch + 1), version=version)[0]
            ),
        },
    )
    following = "PRODUCER_FENCED" if generation == 1 else "INVALID_TXN_STATE"
    assert codes == {"commit": "NONE", "abort": "INVALID_TXN_STATE", "commit of the next": following}


@both_generations
def test_a_partition_that_does_not_exist(asker: Asker, generation: int) -> None:
    scene = begin(asker, generation)
    producer, topic, group = scene.producer, scene.topic, scene.group
    version = scene.write_version
    steps: dict[str, Callable[[], int]] = {
        "partition": lambda: write(asker, producer, topic, version=version, partition=7),
        "topic": lambda: write(asker, producer, ABSENT, version=version),
        "offset": lambda: commit_offset(asker, producer, group, topic, partition=7, version=scene.commit_version),
        "offset of a topic": lambda: commit_offset(asker, producer, group, ABSENT, version=scene.commit_version),
    }
    if generation == 1:
        steps |= {
            "add": lambda: add(asker, producer, (topic, 7))[0][1],
            "add with another": lambda: dict(map(tuple, add(asker, producer, (topic, 1), (topic, 7))))[7],
            "the other": lambda: dict(map(tuple, add(asker, producer, (topic, 1), (topic, 7))))[1],
        }
    codes = refusals(scene, steps)
    assert codes.pop("the other", "OPERATION_NOT_ATTEMPTED") == "OPERATION_NOT_ATTEMPTED"
    assert set(codes.values()) == {"UNKNOWN_TOPIC_OR_PARTITION"}
    finish(scene)


@pytest.fixture(scope="module")
def timed_out(asker: Asker) -> dict[int, Scene]:
    """Producers whose transactions were aborted because they took too long, by their generations."""
    scenes = {generation: begin(asker, generation, timeout_ms=TIMEOUT_MS) for generation in (1, 2)}
    deadline = time.monotonic() + ABORTED_WITHIN_S
    for scene in scenes.values():
        while (state := settled(asker, scene.producer)["state"]) != "CompleteAbort":
            assert time.monotonic() < deadline, state
            time.sleep(0.05)
    return scenes


@both_generations
def test_what_comes_after_the_time_out(timed_out: dict[int, Scene], generation: int) -> None:
    scene = timed_out[generation]
    assert scene.committed(require_stable=True) == [0, -1]
    assert len(set(scene.state()["ends"])) == 1, "nobody is held back any more"
    codes = refusals(scene, requests(scene, scene.producer))
    expected = {name: "INVALID_PRODUCER_EPOCH" if name in WRITES else "PRODUCER_FENCED" for name in codes}
    if generation == 2:
        # The epoch is the one before, as in an EndTxn that is repeated: it is told how the transaction ended.
        expected |= {"commit": "INVALID_TXN_STATE", "abort": "NONE"}
    assert codes == expected


# --- the transactional id of another user


class Guarded(NamedTuple):
    """A broker with an authorizer, which can be told to keep everybody from a transactional id for a while."""

    asker: Asker
    deny: Callable[[str], AbstractContextManager[None]]


@contextmanager
def guarded_tailrace(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Guarded]:
    """There are no users and no ACLs yet, but all handlers ask whether somebody is allowed to do what he asks for."""
    forbidden: set[str] = set()

    def is_allowed(
        _context: RequestContext, _operation: object, resource: Resource, name: str, *, is_probe: bool = False
    ) -> bool:
        return resource is not Resource.TRANSACTIONAL_ID or name not in forbidden

    @contextmanager
    def deny(name: str) -> Iterator[None]:
        forbidden.add(name)
        yield
        forbidden.discard(name)

    monkeypatch.setattr(RequestContext, "is_allowed", is_allowed)
    with Live(folder, OPTIONS) as live:
        yield Guarded(Asker(live.bootstrap), deny)


@contextmanager
def guarded_kafka() -> Iterator[Guarded]:
    """Kafka's own authorizer and an ACL."""
    authorizer = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }

    with own_broker({**OPTIONS, **authorizer}) as bootstrap:
        asker = Asker(bootstrap)

        @contextmanager
        def deny(name: str) -> Iterator[None]:
            place = {"principal": "User:*", "host": "*", "operation": 2, "permission_type": 2}  # all of it is denied
            created = {**place, "resource_type": 5, "resource_name": name, "resource_pattern_type": 3}
            asker.fields("CreateAcls", 2, creations=[created])
            _until_described(asker, name, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            yield
            found = {"resource_type_filter": 5, "resource_name_filter": name, "pattern_type_filter": 3}
            filters = {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}
            asker.fields("DeleteAcls", 2, filters=[{**found, **filters}])
            _until_described(asker, name, ErrorCode.NONE)

        yield Guarded(asker, deny)


def _until_described(asker: Asker, name: str, code: ErrorCode) -> None:
    """Wait until the broker has heard of a change."""
    found = eventually(lambda: _describe(asker, name), lambda found: found == code)
    assert found == code


def _describe(asker: Asker, name: str) -> int:
    described = asker.fields("DescribeTransactions", 0, transactional_ids=[name])
    return int(described["transaction_states"][0]["error_code"])


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        folder = tmp_path_factory.mktemp("guarded")
        with guarded_kafka() if TARGET == "kafka" else guarded_tailrace(folder, monkeypatch) as found:
            yield found


@both_generations
def test_the_transactional_id_of_another_user(guarded: Guarded, generation: int) -> None:
    asker = guarded.asker
    scene = begin(asker, generation)
    name = scene.producer.name
    steps: dict[str, Callable[[], int]] = {
        **requests(scene, scene.producer),
        "find": lambda: int(asker.fields("FindCoordinator", 1, key=name, key_type=1)["error_code"]),
        "init": lambda: int(init(asker, name)["error_code"]),
        "describe": lambda: _describe(asker, name),
    }
    before = scene.state()
    with guarded.deny(name):
        codes = {what: ErrorCode(step()).name for what, step in steps.items()}
        listed = asker.fields("ListTransactions", 0, state_filters=[], producer_id_filters=[])
    assert set(codes.values()) == {"TRANSACTIONAL_ID_AUTHORIZATION_FAILED"}, codes
    assert name not in {each["transactional_id"] for each in listed["transaction_states"]}
    assert scene.state() == before
    finish(scene)

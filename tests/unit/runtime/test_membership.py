"""Brokers that join, lead, stop, die and come back, over one metadata tree."""

import asyncio
import json
from collections.abc import Sequence

import pytest
from tests.logged import logged
from tests.now import now
from tests.settled import settled
from tests.unit.runtime.members import Members, members
from tests.unit.sample import replacing

import tailrace.runtime.controller.election
from tailrace.base.clock import SystemClock
from tailrace.base.invariant import InvariantError
from tailrace.base.sentinel import NO_BROKER
from tailrace.coordination.cluster import ClusterMetadata
from tailrace.coordination.layout import CONTROLLER_EPOCH, admitted_path, broker_path, node_of
from tailrace.coordination.memory import MemoryStore, MemoryTree
from tailrace.coordination.store import ANY_VERSION, CommitTooLargeError, Create, Delete, Operation, Put
from tailrace.machines.controller.departure import decide_unregister
from tailrace.machines.controller.election import Election
from tailrace.machines.controller.move import Move
from tailrace.machines.controller.record import ConfigKind, ControllerRecord
from tailrace.machines.controller.topic import NewTopic
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.runtime.controller.election import ControllerElection
from tailrace.runtime.metadata_store import load_cluster_id
from tailrace.runtime.registration import DuplicateBroker
from tailrace.storage.folder_identity import ForeignFolder


def leads(cluster: Members, broker_id: int, name: str = "t") -> bool:
    partitions = cluster.brokers[broker_id].replicas.all()
    return any(partition.is_leader for partition in partitions if (partition.topic, partition.index) == (name, 0))


async def test_the_first_broker_is_the_controller_and_admits_the_others() -> None:
    async with members(3, 1, 2) as cluster:
        for broker in cluster.brokers.values():
            assert broker.image.controller_id == 3
            assert sorted(broker.image.brokers) == [1, 2, 3]
            assert all(broker.image.is_live(each) for each in (1, 2, 3))
        assert len({broker.cluster_id for broker in cluster.brokers.values()}) == 1


async def test_a_broker_that_loses_the_store_while_it_admits_itself_waits_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It tried again and again without a pause, so nothing else ran, and the connection could never come back.

    Simulated seed 14 found it.
    """
    commit = MemoryStore.commit

    async def break_off(store: MemoryStore, operations: Sequence[Operation]) -> None:
        if any(operation.path == admitted_path(1) for operation in operations):
            monkeypatch.undo()
            store.suspend()
            asyncio.get_running_loop().call_soon(store.resume)
        await commit(store, operations)

    monkeypatch.setattr(MemoryStore, "commit", break_off)
    async with members(1) as cluster:
        assert cluster.brokers[1].image.is_live(1)


async def test_a_broker_whose_registration_ends_before_it_has_admitted_itself_registers_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was the controller and had nobody to admit, and looked for somebody again and again without a pause.

    Simulated seed 108396 found it.
    """
    stand = ControllerElection.stand_while_vacant

    async def stand_and_go(election: ControllerElection) -> None:
        monkeypatch.undo()
        await stand(election)
        store = election._metadata.store
        assert isinstance(store, MemoryStore)
        await store.commit([Delete(broker_path(1), ANY_VERSION)])

    monkeypatch.setattr(ControllerElection, "stand_while_vacant", stand_and_go)
    async with members(1) as cluster:
        assert cluster.brokers[1].image.is_live(1)


async def test_a_broker_whose_election_was_not_answered_is_the_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stood again as soon as it was connected, for an epoch of which nobody knew, and then led nothing.

    The cluster had no controller that did anything as long as this one lived. Simulated seed 153 found it.
    """
    monkeypatch.setattr(tailrace.runtime.controller.election, "SETTLE_AGAIN_S", 0)
    store = MemoryStore(MemoryTree(), SystemClock())
    metadata = ClusterMetadata(store)
    await metadata.load()
    election = ControllerElection(metadata, 1, lambda: True)
    store.lose_next_answer()
    standing = asyncio.create_task(election.stand_while_vacant())
    await settled()  # it stands again, and waits for the store
    store.resume()
    await standing
    assert election.is_controller


async def test_a_broker_that_is_not_answered_when_it_names_the_cluster_asks_again() -> None:
    """It ended with an error of the store. Simulated seed 140 found it."""
    store = MemoryStore(MemoryTree(), SystemClock())
    store.lose_next_answer()
    naming = asyncio.create_task(load_cluster_id(store))
    await settled()
    store.resume()
    assert await naming == await load_cluster_id(store)


async def test_a_broker_that_stops_begins_to_follow_nobody() -> None:
    """It heard of a new leader on its way out, and appended to logs that were closed. Simulated seed 268 found it."""
    async with members(1, 2, 3) as cluster:
        await cluster.create([1, 3, 2])
        stopping = cluster.brokers[2]
        await cluster.until(lambda: stopping.fetchers._tasks)
        await stopping.fetchers.stop()
        await cluster.kill(1)
        await cluster.until(lambda: [partition.leader_id for partition in stopping.replicas.all()] == [3])
        assert not stopping.fetchers._tasks


async def test_only_the_controller_decides() -> None:
    async with members(1, 2) as cluster:
        with pytest.raises(ApiError) as caught:
            await cluster.brokers[2].controller.create_topic(NewTopic("t", 1, 1), cluster.brokers[2].topic_defaults)
        assert caught.value.code is ErrorCode.NOT_CONTROLLER
        await cluster.create([1, 2])
        await cluster.until(lambda: leads(cluster, 1) and not leads(cluster, 2))


async def test_any_broker_takes_configuration() -> None:
    async with members(1, 2) as cluster:
        await cluster.create([1, 2])
        for broker_id, value in ((2, "100"), (1, "200")):
            await cluster.brokers[broker_id].controller.write_config(
                ConfigKind.TOPIC, "t", replacing({"retention.ms": value}), validate_only=False
            )
            assert cluster.brokers[3 - broker_id].topic_config("t").retention_ms == int(value)


async def test_a_dead_leader_is_succeeded_and_comes_back_as_a_follower() -> None:
    async with members(1, 2, 3) as cluster:
        await cluster.create([2, 3, 1])
        await cluster.kill(2)
        await cluster.until(lambda: cluster.state().leader == 3)
        assert (cluster.state().leader_epoch, cluster.state().isr) == (1, (3, 1))
        await cluster.until(lambda: leads(cluster, 3))
        await cluster.start(2)
        assert cluster.state().leader == 3
        assert not leads(cluster, 2)


async def test_a_dead_controller_is_succeeded_by_another_with_a_higher_epoch() -> None:
    async with members(1, 2, 3) as cluster:
        await cluster.create([1, 2, 3])
        epoch = cluster.image.controller_epoch
        await cluster.kill(1)
        await cluster.until(lambda: cluster.image.controller_id in (2, 3) and cluster.state().leader == 2)
        assert cluster.image.controller_epoch == epoch + 1
        await cluster.create([3], name="u")


async def test_kip_380_an_old_controller_can_write_nothing() -> None:
    """It has not heard yet that there is another, and goes on with what it was about to write."""
    async with members(1, 2) as cluster:
        await cluster.create([1, 2])
        old, epoch = cluster.brokers[1], cluster.image.controller_epoch + 1
        cluster.stores[1].hold_news()
        path, value = node_of(ControllerRecord(2, epoch))
        raised = Put(CONTROLLER_EPOCH, str(epoch).encode(), cluster.tree.nodes[CONTROLLER_EPOCH].version)
        await cluster.stores[2].commit([raised, Delete(path, ANY_VERSION)])
        await cluster.stores[2].commit([Create(path, value)])
        before = dict(cluster.tree.nodes)
        assert old.membership.election.is_controller
        with pytest.raises(ApiError) as caught:
            await old.controller.create_topic(NewTopic("u", 1, 1), old.topic_defaults)
        assert caught.value.code is ErrorCode.NOT_CONTROLLER
        assert dict(cluster.tree.nodes) == before


async def test_a_broker_that_stops_hands_over_first() -> None:
    async with members(1, 2, 3) as cluster:
        await cluster.create([2, 3], [3, 2])
        await cluster.create([2], name="u")
        seen = []
        cluster.brokers[1].metadata.listen(
            lambda _: seen.append((2 in cluster.brokers[1].image.brokers, cluster.state().leader))
        )
        await cluster.stop(2)
        assert (True, 3) in seen, "another led while it was still there"
        await cluster.until(lambda: 2 not in cluster.image.brokers)
        assert (cluster.state(0).leader, cluster.state(0).isr) == (3, (3,))
        assert (cluster.state(1).leader, cluster.state(1).isr) == (3, (3,))
        await cluster.until(lambda: cluster.state(name="u").elr == (2,))
        await cluster.start(2)
        assert (cluster.state(name="u").leader, cluster.state(name="u").isr) == (2, (2,))


async def test_the_controller_hands_over_to_itself_last() -> None:
    async with members(1, 2) as cluster:
        await cluster.create([1, 2])
        await cluster.stop(1)
        await cluster.until(lambda: cluster.image.controller_id == 2)
        assert cluster.state().leader == 2


async def test_who_stopped_cleanly_keeps_its_eligibility_and_who_was_killed_does_not() -> None:
    async with members(1, 2, 3) as cluster:
        await cluster.create([2], [3])
        await cluster.stop(2)
        await cluster.kill(3)
        await cluster.until(lambda: cluster.state(1).leader == NO_BROKER)
        before = [cluster.state(index).leader_epoch for index in (0, 1)]
        clean = await cluster.start(2)
        unclean = await cluster.start(3)
        assert clean.image.brokers[2].is_clean
        assert not unclean.image.brokers[3].is_clean
        assert [cluster.state(index).leader for index in (0, 1)] == [2, 3]
        assert [cluster.state(index).leader_epoch for index in (0, 1)] == [before[0] + 1, before[1] + 1]


async def test_a_session_that_ends_costs_leadership_and_the_broker_registers_again() -> None:
    async with members(1, 2, 3) as cluster:
        await cluster.create([2, 3])
        await cluster.create([2], name="u")
        epoch = cluster.image.brokers[2].epoch
        await cluster.until(lambda: leads(cluster, 2))
        cluster.stores[2].expire()
        assert not leads(cluster, 2), "before it registers again"
        await cluster.until(lambda: cluster.image.is_live(2) and cluster.image.brokers[2].epoch > epoch)
        assert cluster.image.brokers[2].is_clean, "it never stopped, so it lost nothing"
        await cluster.until(lambda: cluster.state().leader == 3 and leads(cluster, 2, name="u"))


async def test_a_controller_whose_session_ends_stands_again() -> None:
    async with members(1) as cluster:
        await cluster.create([1])
        cluster.stores[1].expire()
        await cluster.until(lambda: leads(cluster, 1) and cluster.image.controller_id == 1)
        await cluster.create([1], name="u")


async def test_two_brokers_of_one_id_are_told_where_the_other_is() -> None:
    async with members(1, 2) as cluster:
        cluster.disks[2] = type(cluster.disks[2])()
        with pytest.raises(DuplicateBroker, match=r"broker 2 is running already, at 127\.0\.0\.1:2;"):
            await cluster.start(2, initial_broker_registration_timeout_ms="50")
        assert cluster.image.is_live(2)


async def test_a_broker_of_another_cluster_is_refused_and_leaves_no_trace() -> None:
    async with members(1, 2) as cluster, members(1) as other, members() as empty:
        for stranger in (other, empty):
            stranger.disks[2] = cluster.disks[2]
        before = dict(other.tree.nodes)
        await cluster.stop(2)
        with pytest.raises(ForeignFolder, match=f"belong to cluster {cluster.controller.cluster_id}, but this broker"):
            await other.start(2)
        assert dict(other.tree.nodes) == before
        with pytest.raises(ForeignFolder, match=f"to cluster {cluster.controller.cluster_id}, but the metadata store"):
            await empty.start(2)
        assert empty.tree.nodes == {}


async def test_a_broker_waits_for_the_session_of_its_predecessor(caplog: pytest.LogCaptureFixture) -> None:
    async with members(1) as cluster:
        await cluster.start(2)
        epoch = cluster.image.brokers[2].epoch
        old = cluster.brokers.pop(2)
        cluster.disks[2] = type(cluster.disks[2])()
        starting = asyncio.ensure_future(cluster.start(2))
        await cluster.until(lambda: "broker 2 is still registered from" in logged(caplog))
        await settled()
        assert not starting.done()
        old.membership._is_leaving = True
        await old.stop()
        await starting
        assert cluster.image.brokers[2].epoch > epoch


async def test_partitions_move_to_other_brokers_and_back() -> None:
    async with members(1, 2, 3) as cluster:
        await cluster.create([1, 2])
        controller = cluster.controller.controller
        assert await controller.move_partitions("t", [Move(0, [2, 1])], may_change_factor=True) == {}
        assert now(cluster.image.topics["t"].assignment) == ((2, 1),)
        await controller.elect_leader("t", 0, Election.PREFERRED)
        assert cluster.state().leader == 2
        await controller.move_partitions("t", [Move(0, [2])], may_change_factor=True)
        assert cluster.image.topics["t"].assignment == ((2,),)
        assert (cluster.state().leader, cluster.state().isr) == (2, (2,))
        errors = await controller.move_partitions("t", [Move(0, None)], may_change_factor=True)
        assert errors[0].code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


async def test_leaders_go_back_to_the_brokers_that_should_lead() -> None:
    async with members(1, 2, leader_imbalance_check_interval_seconds="1") as cluster:
        await cluster.create([2, 1])
        await cluster.controller.controller.move_partitions("t", [Move(0, [1, 2])], may_change_factor=True)
        await cluster.until(lambda: cluster.state().leader == 1)


async def test_an_unclean_leader_is_elected_once_the_topic_allows_it() -> None:
    async with members(1, 2, 3) as cluster:
        await cluster.create([2, 3])
        await cluster.kill(3)
        await cluster.until(lambda: cluster.state().isr == (2,))
        await cluster.kill(2)
        await cluster.start(3)
        assert cluster.state().leader == NO_BROKER
        await cluster.controller.controller.write_config(
            ConfigKind.TOPIC, "t", lambda _: {"unclean.leader.election.enable": "true"}, validate_only=False
        )
        await cluster.until(lambda: cluster.state().leader == 3)


async def test_a_broker_that_is_gone_for_good_is_forgotten() -> None:
    async with members(1, 2) as cluster:
        controller = cluster.controller.controller
        await cluster.stop(2)
        await cluster.until(lambda: 2 not in cluster.image.brokers)
        await controller.unregister_broker(2)
        assert not cluster.image.is_known(2)


async def test_a_broker_that_is_sent_away_leads_nothing_until_it_starts_again(caplog: pytest.LogCaptureFixture) -> None:
    async with members(1, 2) as cluster:
        await cluster.create([2, 1])
        partition = cluster.brokers[2].replicas.get("t", 0)
        await cluster.until(lambda: partition.is_leader)
        await cluster.controller.controller.unregister_broker(2)
        assert not cluster.image.is_known(2)
        assert (cluster.state().leader, cluster.state().isr) == (1, (1,))
        await cluster.until(lambda: "broker 2 was unregistered; it leads nothing" in logged(caplog))
        assert not partition.is_leader
        assert 2 not in cluster.image.brokers
        await cluster.stop(2)
        await cluster.start(2)
        assert cluster.image.is_live(2)


async def test_a_session_that_ends_sends_nobody_away() -> None:
    async with members(1, 2) as cluster:
        epoch = cluster.image.brokers[2].epoch
        cluster.stores[2].expire()
        await cluster.until(lambda: cluster.image.is_live(2) and cluster.image.brokers[2].epoch > epoch)


async def test_a_broker_that_was_never_elected_cannot_commit_as_controller() -> None:
    """Its guard would be version -1 of the epoch's node, which a store takes for any version."""
    metadata = ClusterMetadata(MemoryStore())
    await metadata.load()
    with pytest.raises(InvariantError, match="broker 1 commits as controller"):
        _ = ControllerElection(metadata, 1, lambda: True).guard


async def test_what_a_controller_began_the_next_one_ends() -> None:
    async with members(1, 2, 3) as cluster:
        await cluster.create([3, 2])
        broker = cluster.controller
        async with broker.controller.turn:
            await broker.controller.commit(decide_unregister(broker.image, 3, broker.live_config.election_rule))
            await cluster.kill(1)
        await cluster.until(lambda: cluster.image.controller_id == 2 and not cluster.image.is_known(3))
        assert cluster.state().leader == 2


async def test_a_controller_that_cannot_reach_the_store_says_so_and_settles_later() -> None:
    async with members(1, 2) as cluster:
        await cluster.create([2, 1])
        cluster.stores[1].suspend()
        with pytest.raises(ApiError) as caught:
            await cluster.create([1], name="u")
        assert caught.value.code is ErrorCode.NOT_CONTROLLER
        await cluster.kill(2)
        assert cluster.state().leader == 2
        cluster.stores[1].resume()
        await cluster.until(lambda: cluster.state().leader == 1)


async def test_a_registration_whose_answer_was_lost_is_found() -> None:
    async with members(1, 2) as cluster:
        store = cluster.stores[2]
        store.suspend()
        await cluster.stores[1].commit([])
        store._is_expired = True
        store._tree.end_session(store)
        store.resume()
        store.lose_next_answer()
        await cluster.until(lambda: store.session_state.value == "suspended")
        registered = json.loads(cluster.tree.nodes[broker_path(2)].value)["incarnation"]
        store.resume()
        await cluster.until(lambda: cluster.image.is_live(2))
        assert cluster.image.brokers[2].incarnation == registered


async def test_a_change_that_the_store_cannot_take_at_once_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async with members(1) as cluster:
        broker = cluster.brokers[1]

        async def refuse(operations: object) -> None:
            raise CommitTooLargeError(f"{operations}")

        monkeypatch.setattr(cluster.stores[1], "commit", refuse)
        with pytest.raises(ApiError, match="requests with fewer partitions") as caught:
            await broker.controller.create_topic(NewTopic("t", 5, 1), broker.topic_defaults)
        assert caught.value.code is ErrorCode.POLICY_VIOLATION
        monkeypatch.undo()
        assert "t" not in broker.image.topics

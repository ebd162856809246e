"""The faults of a cluster: between brokers, and between brokers and the metadata servers."""

from collections.abc import Callable
from dataclasses import replace

from tailrace.base.sentinel import NO_BROKER
from tailrace.coordination.layout import node_of, record_of
from tailrace.coordination.store import Change, Put
from tailrace.machines.controller.record import PartitionRecord
from tailrace.sim.broker import SimBroker
from tailrace.sim.disk_fault import DiskFaults
from tailrace.sim.fault import Fault, Faults
from tailrace.sim.process import Life
from tailrace.sim.world import Client, World
from tailrace.sim.zookeeper import HOST, SimZookeeper

_KIND_SHARE = 0.6  # the share of fault kinds that one seed uses
_KINDS_MIN = 3
_HOSTILE_LINKS_SHARE = 0.25  # of seeds in which little else happens than what links do to clients
_QUICKLY_S = 0.03
_NOTICED_S = (1.0, 1.5)  # replica.lag.time.max.ms, and half of it, after which a leader notices that a follower lags
_OUTRUN_S = 1.6
_BLACK_OUT_S = (0.05, 0.5)
_BEHIND_S = (2.0, 3.5)  # longer than a session, and than replica.lag.time.max.ms


class ClusterFaults(Faults):
    """The faults of a single broker, and those of a cluster.

    A seed uses only some kinds, so that these repeat and follow each other often. In a share of the seeds the brokers
    are left in peace, so that clients lose replies again and again while they have several requests in flight.
    """

    lengths_s = (0.1, 0.5, 1.5, 4.0)
    down_s_max = 3.0

    def __init__(
        self,
        world: World,
        zookeeper: SimZookeeper,
        *,
        isrs: Callable[[], list[tuple[int, ...]]],
        syncs: bool,
        every_s: float,
        is_unclean: bool = False,
    ) -> None:
        """`isrs` returns the current ISRs; with `syncs`, brokers flush what they acknowledge.

        With `is_unclean` a topic allows unclean elections, and the faults that lead to them are frequent.
        """
        super().__init__(world, loses_power=True, every_s=every_s)
        self._zookeeper = zookeeper
        self._isrs = isrs
        self._syncs = syncs
        self._is_unclean = is_unclean
        self._disks = DiskFaults(world, self.loses_power)

    def menu(self) -> list[Fault]:
        if self._world.random.random() < _HOSTILE_LINKS_SHARE:
            return [self.lose_replies, self.lose_replies, self.hold_requests, self.reset_connection, self.elect_another]
        several = [*super().menu(), self.kill_broker, self.stop_broker, self.cut_brokers, self.cut_brokers]
        several += [self.isolate_broker, self.cut_off_leader, self.cut_off_leader, self.pause_leader]
        several += [self.elect_another, self.elect_another, self.elect_two, self.elect_two]
        several += [self.outrun_isr_change]
        several += [self.leave_one_behind, self.kill_all_brokers]
        several += [self.cut_zookeeper, self.cut_zookeeper, self.stall_zookeeper]
        several += [self.expire_session, self.break_session, self.break_after_commit]
        several += self._disks.menu()
        kinds = list(dict.fromkeys(several))
        share = max(_KINDS_MIN, round(len(kinds) * _KIND_SHARE))
        known = set(self._world.random.sample(kinds, share))
        chosen = [fault for fault in several if fault in known]
        if len(self._members()) > 2:
            chosen += [self.hold_member, self.pause_member, self.kill_member] * (len(known) // 2)
        return [*chosen, *([self.leave_one_behind] * 3 if self._is_unclean else [])]

    def heal(self) -> None:
        self._zookeeper.resume()
        super().heal()

    def _keep_up(self) -> None:
        for broker in self._world.brokers:
            self._disks.heal(broker)
        super()._keep_up()

    def loses_power(self, broker: SimBroker, wants_power_loss: bool) -> bool | None:
        """Allow a power loss while enough other brokers that did not crash have the unflushed data (KIP-966)."""
        if self._syncs:
            return wants_power_loss
        for other in self._world.brokers:
            other.is_wounded = other.is_wounded and not other.is_in_sync
        others = [other for other in self._world.brokers if other is not broker]
        if any(other.is_wounded for other in others):
            return None  # the controller treats a kill like a power loss
        running = {other.broker_id for other in others if other.is_admitted and not other.has_failed_disk}
        return wants_power_loss and all(len(running & set(isr)) >= 2 for isr in self._isrs())

    # --- links between brokers

    def cut_brokers(self) -> None:
        """Cut the link between two brokers, in one direction or both."""
        one, other = self._world.random.sample(self._world.brokers, 2)
        self._cut(one.host, other.host)

    def isolate_broker(self) -> None:
        """Cut a broker off from all other brokers, but not from clients or the metadata servers."""
        self._isolate(self._broker())

    def cut_off_leader(self) -> None:
        """Cut a leader off from its followers; half of the time, elect another leader."""
        if (leader := self._leader()) is not None:
            self._isolate(leader)
            if self._world.random.random() < 0.5:
                self._later(self._world.random.uniform(0, 0.8), self.elect_another)

    def pause_leader(self) -> None:
        if (leader := self._leader()) is not None:
            self._pause(leader)

    def leave_one_behind(self) -> None:
        """Cut a broker off until it is out of sync, and kill all others, so that only an unclean election is left."""
        alone, random = self._broker(), self._world.random
        others = [broker for broker in self._world.brokers if broker is not alone]
        self._world.note(f"{alone.host} is left behind")
        network = self._world.loop.network
        for broker in others:
            network.cut(alone.host, broker.host)

        def kill() -> None:
            for broker in others:
                network.mend(alone.host, broker.host)
                if not self._is_over and self.loses_power(broker, False) is not None:
                    broker.kill(is_power_loss=False)
                    self._later(random.uniform(*_BEHIND_S), lambda broker=broker: self._start(broker))  # type: ignore[misc]

        self._later(random.uniform(*_BEHIND_S), kill)

    def kill_all_brokers(self) -> None:
        """Kill all brokers at once, as when the power of a whole site fails, and start them one after the other."""
        random = self._world.random
        wants_power_loss = random.random() < 0.5
        if self._is_over:
            return
        self._world.note("all brokers are killed")
        for broker in self._world.brokers:
            if (is_power_loss := self.loses_power(broker, wants_power_loss)) is not None:
                broker.kill(is_power_loss=is_power_loss)
                self._later(random.uniform(0.1, self.down_s_max), lambda broker=broker: self._start(broker))  # type: ignore[misc]

    def black_out(self) -> None:
        """Elect other leaders, and kill all brokers soon after that, before these leaders have done much."""
        for state in self._states():
            self._elect(state)
        self._world.count("black out")
        self._later(self._world.random.uniform(*_BLACK_OUT_S), self.kill_all_brokers)

    def _isolate(self, alone: SimBroker) -> None:
        for other in self._world.brokers:
            if other is not alone:
                self._cut(alone.host, other.host)

    # --- members of groups

    def hold_member(self) -> None:
        """Hold what a member sends on all its connections, so that its commits may arrive after it repeated them."""
        member, seconds = self._world.random.choice(self._members()), self._length_s()
        self._world.note(f"what {member.host} sends is held for {seconds:g} s")
        for transport in list(self._world.loop.network.transports):
            if transport.local[0] == member.host:
                transport.hold(seconds)

    def pause_member(self) -> None:
        """Pause a member, perhaps until its group has expelled it."""
        member = self._world.random.choice(self._members())
        if member.process.life is Life.RUNNING:
            self._pause_client(member)

    def kill_member(self) -> None:
        """Kill a member; one that is static comes back under its instance id."""
        member = self._world.random.choice(self._members())
        if member.process.life is Life.RUNNING:
            self._restart_client(member)

    def _members(self) -> list[Client]:
        return [client for client in self._world.clients if client.name.startswith("member-")]

    # --- elections

    def elect_another(self) -> None:
        """Elect a live in-sync broker, as a controller may at any time."""
        if states := self._states():
            self._elect(self._world.random.choice(states))

    def elect_two(self) -> None:
        """Elect two leaders of a partition so quickly that not all brokers learn of the first."""
        if states := self._states():
            state = self._world.random.choice(states)
            self._elect(state)
            wait_s = self._world.random.uniform(0, _QUICKLY_S)
            self._later(wait_s, lambda: self._elect_again(state))

    def _elect_again(self, before: PartitionRecord) -> None:
        for state in self._states():
            if (state.topic, state.partition) == (before.topic, before.partition):
                self._elect(state)

    def outrun_isr_change(self) -> None:
        """Pause a follower, and elect another leader while the request to shrink the ISR is under way."""
        random = self._world.random
        states = [state for state in self._states() if len(state.isr) > 2 and state.leader != NO_BROKER]
        if not states:
            return
        state = random.choice(states)
        paused = random.choice([broker_id for broker_id in state.isr if broker_id != state.leader])
        self._pause(next(broker for broker in self._world.brokers if broker.broker_id == paused), _OUTRUN_S)
        self._later(random.uniform(*_NOTICED_S), self._zookeeper.stall)
        self._later(_OUTRUN_S, lambda: self._elect_again(state))
        self._later(_OUTRUN_S, self._zookeeper.resume)

    def _elect(self, state: PartitionRecord) -> None:
        alive = {broker.broker_id for broker in self._world.brokers if broker.is_admitted}
        others = [broker_id for broker_id in state.isr if broker_id in alive and broker_id != state.leader]
        if self._is_over or not others:
            return
        leader = self._world.random.choice(others)
        path, value = node_of(replace(state, leader=leader, leader_epoch=state.leader_epoch + 1))
        self._world.note(f"broker {leader} is elected for {state.topic}-{state.partition}, after {state}")
        self._zookeeper.commit_as_world([Put(path, value, self._zookeeper.tree.nodes[path].version)])

    def _states(self) -> list[PartitionRecord]:
        records = [record_of(Change(path, node)) for path, node in sorted(self._zookeeper.tree.nodes.items())]
        return [record for record in records if isinstance(record, PartitionRecord)]

    def _leader(self) -> SimBroker | None:
        ids = [state.leader for state in self._states() if state.leader != NO_BROKER]
        chosen = self._world.random.choice(ids) if ids else NO_BROKER
        return next((broker for broker in self._world.brokers if broker.broker_id == chosen), None)

    # --- the metadata servers

    def cut_zookeeper(self) -> None:
        self._cut(self._broker().host, HOST)

    def stall_zookeeper(self) -> None:
        seconds = self._world.random.choice([0.5, 1.0, 3.0])
        self._world.note(f"the metadata servers stall for {seconds:g} s")
        self._zookeeper.stall()
        self._later(seconds, self._zookeeper.resume)

    def expire_session(self) -> None:
        if session_ids := self._zookeeper.session_ids:
            session_id = self._world.random.choice(session_ids)
            self._world.note(f"session {session_id} expires")
            self._zookeeper.expire(session_id)

    def break_session(self) -> None:
        if session_ids := self._zookeeper.session_ids:
            session_id = self._world.random.choice(session_ids)
            self._world.note(f"the connection of session {session_id} breaks")
            self._zookeeper.break_connection(session_id)

    def break_after_commit(self) -> None:
        self._world.note("the next commit is applied and its reply lost")
        self._zookeeper.breaks_after_commit = True

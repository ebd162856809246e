"""A cluster in a storm: whatever comes, goes, moves and is asked for, the rules about leaders hold."""

from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tailrace.base.sentinel import NO_BROKER
from tailrace.machines.controller.election import Election, Rule, with_isr
from tailrace.machines.controller.image import ClusterImage
from tailrace.machines.controller.leader_election import decide_balance, decide_elect
from tailrace.machines.controller.move import Move, decide_moves
from tailrace.machines.controller.record import (
    BrokerAdmitted,
    BrokerRecord,
    BrokerRemoved,
    PartitionRecord,
    Record,
    TopicRecord,
)
from tailrace.machines.controller.settle import settle
from tailrace.protocol.errors import ApiError

BROKERS = st.integers(1, 4)
REPLICAS = st.lists(BROKERS, min_size=1, max_size=3, unique=True)
RULES = {
    "safe": Rule(min_insync_replicas=2),
    "default": Rule(),
    "unclean": Rule(min_insync_replicas=2, is_unclean_allowed=True),
}
NAMES = st.sampled_from(sorted(RULES))


class Storm(RuleBasedStateMachine):
    """The image is what was replayed; `complete` says who surely has all that was committed."""

    def __init__(self) -> None:
        super().__init__()
        self.image = ClusterImage()
        self.epoch = 0
        # Who has everything that was committed, by what happened and not by what the controller believes.
        self.complete: dict[str, set[int]] = {}
        self.last: dict[int, BrokerRecord] = {}
        self.is_forced = False  # a client asked for an unclean election
        for broker in (1, 2, 3):
            self.arrive(broker, is_clean=True)
        self.run_settle(count=9)
        for number, name in enumerate(sorted(RULES)):
            self.replay(TopicRecord(name, UUID(int=number + 1), ((1, 2, 3),)))
            self.replay(PartitionRecord(name, 0, 1, 0, (1, 2, 3)))
            self.complete[name] = {1, 2, 3}

    def replay(self, record: Record) -> None:
        if isinstance(record, PartitionRecord):
            self.check_change(self.image.topics[record.topic].leadership.get(0), record)
        self.image.replay(record)

    def check_change(self, before: PartitionRecord | None, after: PartitionRecord) -> None:
        if before is None:
            return
        assert after.leader_epoch - before.leader_epoch in (0, 1)
        if before.leader != after.leader:
            assert after.leader_epoch == before.leader_epoch + 1
        if after.leader_epoch > before.leader_epoch and after.leader != NO_BROKER:
            self.check_election(before, after)

    def check_election(self, before: PartitionRecord, after: PartitionRecord) -> None:
        """Whoever is elected has all that was committed, as long as anybody has it who surely should."""
        complete = self.complete[after.topic]
        if after.leader not in complete:
            is_allowed = RULES[after.topic].is_unclean_allowed or self.is_forced
            assert is_allowed or after.leader in (before.last_known_elr or (before.leader,))
            assert is_allowed or complete.isdisjoint({*before.isr, *before.elr})
            self.complete[after.topic] = {after.leader}

    def rule_of(self, name: str) -> Rule:
        return RULES[name]

    # --- what happens to brokers

    @rule(broker=BROKERS, is_clean=st.booleans())
    def arrive(self, broker: int, is_clean: bool) -> None:
        """Start, or come back so fast that nobody saw it go."""
        # A broker that was unclean stays so until it has been admitted.
        before = self.last.get(broker)
        if before is not None and not before.is_clean and self.image.admitted.get(broker) != before.epoch:
            is_clean = False
        self.epoch += 1
        self.last[broker] = BrokerRecord(broker, self.epoch, is_clean=is_clean)
        self.image.replay(self.last[broker])
        if not is_clean:
            for brokers in self.complete.values():
                brokers.discard(broker)

    @rule(broker=BROKERS)
    def die(self, broker: int) -> None:
        self.image.replay(BrokerRemoved(broker))

    @rule(broker=BROKERS)
    def stop(self, broker: int) -> None:
        if record := self.image.brokers.get(broker):
            self.image.replay(BrokerRecord(broker, record.epoch, is_clean=record.is_clean, is_stopping=True))

    # --- what leaders do

    @rule(name=NAMES, data=st.data())
    def change_isr(self, name: str, data: st.DataObject) -> None:
        """A leader lets followers in that are live and have caught up, or puts them out."""
        topic = self.image.topics[name]
        state, replicas = topic.leadership[0], topic.assignment[0]
        if not self.image.is_live(state.leader):
            return
        may_join = [broker for broker in replicas if self.image.is_active(broker) or broker in state.isr]
        others = set(data.draw(st.lists(st.sampled_from(may_join or [state.leader]), unique=True)))
        isr = [broker for broker in replicas if broker in others or broker == state.leader]
        if state.leader in self.complete[name]:
            self.complete[name] |= {broker for broker in isr if self.image.is_live(broker)}
        self.replay(with_isr(state, isr, replicas, RULES[name].min_insync_replicas))

    @rule(name=NAMES)
    def commit(self, name: str) -> None:
        """A record is committed: only who is in the ISR has it."""
        topic = self.image.topics[name]
        state = topic.leadership[0]
        needed = min(RULES[name].min_insync_replicas, len(topic.assignment[0]))
        if self.image.is_live(state.leader) and len(state.isr) >= needed:
            lost = set(state.isr) - {broker for broker in state.isr if self.image.is_live(broker)}
            if not lost:
                self.complete[name] = set(state.isr)

    # --- what the controller does

    @rule(count=st.integers(1, 4))
    def run_settle(self, count: int) -> None:
        """Settle, and perhaps die in the middle."""
        for group in settle(self.image, self.rule_of):
            for record in group:
                self.replay(record)
            count -= 1
            if not count:
                break

    @rule(name=NAMES, election=st.sampled_from([Election.PREFERRED, Election.UNCLEAN]))
    def ask_for_election(self, name: str, election: Election) -> None:
        try:
            records = decide_elect(self.image, name, 0, election, RULES[name])
        except ApiError:
            return
        self.is_forced = election is Election.UNCLEAN
        for record in records:
            self.replay(record)
        self.is_forced = False

    @rule(percent=st.sampled_from([0, 50]))
    def balance(self, percent: int) -> None:
        for record in decide_balance(self.image, self.rule_of, percent, 100):
            self.replay(record)

    @rule(name=NAMES, replicas=st.one_of(st.none(), REPLICAS))
    def move(self, name: str, replicas: list[int] | None) -> None:
        for record in decide_moves(self.image, name, [Move(0, replicas)], RULES[name]).records:
            self.replay(record)

    # --- what holds always

    @invariant()
    def the_isr_is_of_replicas_and_the_leader_is_in_it(self) -> None:
        for topic in self.image.topics.values():
            state, replicas = topic.leadership[0], topic.assignment[0]
            assert set(state.isr) <= set(replicas)
            assert len(set(state.isr)) == len(state.isr)
            assert state.leader == NO_BROKER or state.leader in state.isr
            assert set(state.elr) <= set(replicas) - set(state.isr)
            assert set(topic.adding.get(0, ())) <= set(replicas)
            assert set(topic.removing.get(0, ())) <= set(replicas)
            needed = min(RULES[topic.name].min_insync_replicas, len(replicas))
            assert not state.elr or len(state.isr) < needed or topic.adding or topic.removing

    @invariant()
    def settling_twice_is_settling_once(self) -> None:
        copy = ClusterImage()
        for registered in self.image.brokers.values():
            copy.replay(registered)
        for broker, epoch in self.image.admitted.items():
            copy.replay(BrokerAdmitted(broker, epoch))
        for topic in self.image.topics.values():
            copy.replay(TopicRecord(topic.name, topic.topic_id, topic.assignment, topic.adding, topic.removing))
            copy.replay(topic.leadership[0])
        for group in settle(copy, self.rule_of):
            for record in group:
                copy.replay(record)
        assert list(settle(copy, self.rule_of)) == []
        for topic in copy.topics.values():
            state = topic.leadership[0]
            assert all(broker in copy.brokers for broker in state.isr)
            if state.leader == NO_BROKER:
                assert not any(copy.is_active(broker) for broker in (state.isr or state.elr))


TestStorm = Storm.TestCase
TestStorm.settings = settings(max_examples=100, stateful_step_count=35, deadline=None, derandomize=True)

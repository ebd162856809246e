"""Everything brought to where it should be, after brokers came or went.

The controller runs this when it is elected and after each change, and it may stop anywhere: what it does depends on
the image alone, and what is done already is not done again. For each partition it answers:

- who of the ISR is still there; who stopped uncleanly leaves the ISR and the ELR;
- whether a reassignment is at its end;
- who leads, if the leader is gone, came back unclean, wants to stop, or if there is none.

Only when every partition has been seen to are the brokers admitted that had arrived, because from then on they lead
what the image says they lead. Last, topics go that were left half made or half removed.

The admission of a broker that came back unclean is revoked before anything else. A leader that lets a broker into its
ISR does so on the condition that this broker's admission is still the one that it knows. So whoever lets it in
for what it had before its crash has done so before the partitions are looked at, or fails.
"""

from collections.abc import Iterable, Iterator

from runnel.base.limits import RECORDS_PER_COMMIT_MAX
from runnel.machines.controller.election import Election, Rule, RuleOf
from runnel.machines.controller.image import ClusterImage, Topic
from runnel.machines.controller.partition_change import Partition, change_partition, partition_of, topic_record
from runnel.machines.controller.reassignment import Placement
from runnel.machines.controller.record import REVOKED, BrokerAdmitted, Record, TopicRecord
from runnel.machines.controller.topic_step import remove_hidden


def settle(image: ClusterImage, rule_of: RuleOf, names: Iterable[str] | None = None) -> Iterator[list[Record]]:
    """Groups of records, each to be committed and replayed before the next one is taken.

    `names` limits the work to some topics, where no broker came or went. When brokers come or go in the middle, the
    rest is not done: begin again.
    """
    brokers = dict(image.brokers)
    arrived = [broker for broker in brokers.values() if not image.is_live(broker.broker_id)]
    unclean = {broker.broker_id for broker in arrived if not broker.is_clean}
    revoked = [broker_id for broker_id in unclean if image.admitted.get(broker_id, REVOKED) >= 0]
    if revoked:
        yield [BrokerAdmitted(broker_id, REVOKED) for broker_id in sorted(revoked)]
        if image.brokers != brokers:
            return
    group: list[Record] = []
    for topic, indexes in _spans(image, list(image.topics) if names is None or arrived else list(names)):
        group += _settle_span(image, topic, indexes, rule_of(topic.name), unclean)
        if sum(map(_weight, group)) >= RECORDS_PER_COMMIT_MAX:
            yield group
            if image.brokers != brokers:
                return
            group = []
    if group:
        yield group
    if arrived and image.brokers == brokers:
        yield [BrokerAdmitted(broker.broker_id, broker.epoch, broker.incarnation) for broker in arrived]
    yield from remove_hidden(image)


def _spans(image: ClusterImage, names: list[str]) -> Iterator[tuple[Topic, range]]:
    """Topics in parts that one group can hold; each is looked up when its turn comes, for it may be gone by then."""
    for name in names:
        start = 0
        while (topic := image.topics.get(name)) is not None and start < topic.partition_count:
            yield topic, range(start, min(start + RECORDS_PER_COMMIT_MAX, topic.partition_count))
            start += RECORDS_PER_COMMIT_MAX


def _weight(record: Record) -> int:
    """How much of a commit a record takes; a topic's names all replicas of the topic."""
    return 1 + len(record.assignment) // 8 if isinstance(record, TopicRecord) else 1


def _settle_span(image: ClusterImage, topic: Topic, indexes: range, rule: Rule, unclean: set[int]) -> list[Record]:
    records: list[Record] = []
    placements: dict[int, Placement] = {}
    for index in indexes:
        if (now := partition_of(topic, index)) is None or _is_settled(image, now, unclean):
            continue
        changed = settle_partition(image, now, rule, unclean)
        if changed.placement != now.placement:
            placements[index] = changed.placement
        if changed.state != now.state:
            records.append(changed.state)
    return [topic_record(topic, placements), *records] if placements else records


def _is_settled(image: ClusterImage, now: Partition, unclean: set[int]) -> bool:
    """Whether a partition needs no second look, as nearly all of them do not."""
    state = now.state
    if now.placement.is_moving or state.leader not in state.isr or not unclean.isdisjoint(state.elr):
        return False
    return all(
        broker in image.brokers and not image.brokers[broker].is_stopping and broker not in unclean
        for broker in state.isr
    )


def settle_partition(image: ClusterImage, now: Partition, rule: Rule, unclean: set[int]) -> Partition:
    """What becomes of one partition."""
    there = [broker for broker in now.state.isr if broker in image.brokers and broker not in unclean]
    going = {broker for broker in there if image.brokers[broker].is_stopping}
    # Who is alone in the ISR has nobody to hand it to.
    isr = [broker for broker in there if broker not in going] or there

    def is_active(broker: int) -> bool:
        if broker not in image.brokers:
            return False
        return not image.brokers[broker].is_stopping or (broker == now.state.leader and broker in isr)

    election = Election.UNCLEAN if rule.is_unclean_allowed else Election.ONLINE
    return change_partition(now, rule, is_active, isr=isr, unclean=unclean, election=election)

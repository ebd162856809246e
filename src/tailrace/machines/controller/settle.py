"""The controller's work after brokers came or went: new leaders, ISRs, reassignments and admissions.

The controller runs this when it is elected and after each change, and may fail anywhere: the work depends on the image
alone, and work that is done is not repeated. For each partition it decides:

- which replicas of the ISR are still alive; replicas that stopped uncleanly leave the ISR and the ELR;
- whether a reassignment is complete;
- which replica leads, if the leader is gone, came back unclean, wants to stop, or if there is none.

New brokers are admitted only after every partition has been decided, because from then on they lead what the image
says they lead. At the end, topics that were left half created or half deleted are removed.

The admission of a broker that came back unclean is revoked before everything else. A leader adds a broker to its ISR on
the condition that the broker's admission is still the one that the leader knows. So a leader that adds it because of
its log before the crash either does so before the partitions are decided, or fails.
"""

from collections.abc import Iterable, Iterator

from tailrace.base.limits import RECORDS_PER_COMMIT_MAX
from tailrace.machines.controller.election import Election, Rule, RuleOf
from tailrace.machines.controller.image import ClusterImage, Topic
from tailrace.machines.controller.partition_change import Partition, change_partition, partition_of, topic_record
from tailrace.machines.controller.reassignment import Placement
from tailrace.machines.controller.record import REVOKED, BrokerAdmitted, Record, TopicRecord
from tailrace.machines.controller.topic_step import remove_hidden


def settle(image: ClusterImage, rule_of: RuleOf, names: Iterable[str] | None = None) -> Iterator[list[Record]]:
    """Yield groups of records, each to be committed and replayed before the next one is requested.

    `names` limits the work to some topics, if no broker came or went. If brokers come or go during the work, it ends
    early: start again.
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
    """Yield topics in parts that fit into one group; each is looked up late, because it may be deleted by then."""
    for name in names:
        start = 0
        while (topic := image.topics.get(name)) is not None and start < topic.partition_count:
            yield topic, range(start, min(start + RECORDS_PER_COMMIT_MAX, topic.partition_count))
            start += RECORDS_PER_COMMIT_MAX


def _weight(record: Record) -> int:
    """Return how much of a commit a record takes; the record of a topic names all of its replicas."""
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
    """Whether there is nothing to decide for a partition, as for nearly all of them."""
    state = now.state
    if now.placement.is_moving or state.leader not in state.isr or not unclean.isdisjoint(state.elr):
        return False
    return all(
        broker in image.brokers and not image.brokers[broker].is_stopping and broker not in unclean
        for broker in state.isr
    )


def settle_partition(image: ClusterImage, now: Partition, rule: Rule, unclean: set[int]) -> Partition:
    """Decide the ISR, the placement and the leader of one partition."""
    there = [broker for broker in now.state.isr if broker in image.brokers and broker not in unclean]
    going = {broker for broker in there if image.brokers[broker].is_stopping}
    # A replica that is alone in the ISR stays in it, even if it is about to stop.
    isr = [broker for broker in there if broker not in going] or there

    def is_active(broker: int) -> bool:
        if broker not in image.brokers:
            return False
        return not image.brokers[broker].is_stopping or (broker == now.state.leader and broker in isr)

    election = Election.UNCLEAN if rule.is_unclean_allowed else Election.ONLINE
    return change_partition(now, rule, is_active, isr=isr, unclean=unclean, election=election)

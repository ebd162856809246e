"""Elections that clients request, and those that bring leaders back to their preferred brokers."""

from collections import Counter
from collections.abc import Callable

from tailrace.base.sentinel import NO_BROKER
from tailrace.machines.controller.election import Election, Rule
from tailrace.machines.controller.image import ClusterImage
from tailrace.machines.controller.partition_change import Partition, change_partition, partition_of
from tailrace.machines.controller.record import Record
from tailrace.protocol.errors import ApiError, ErrorCode


def decide_elect(image: ClusterImage, name: str, index: int, election: Election, rule: Rule) -> list[Record]:
    """Decide an election that a client requested."""
    topic = image.topics.get(name)
    if topic is None or (now := partition_of(topic, index)) is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Partition {name}-{index} does not exist.")
    if election is Election.PREFERRED:
        return _elect_preferred(image, now, rule)
    if now.state.leader != NO_BROKER:
        raise ApiError(ErrorCode.ELECTION_NOT_NEEDED, f"Broker {now.state.leader} leads the partition.")
    elected = change_partition(now, rule, image.is_active, election=election)
    if elected.state.leader == NO_BROKER:
        raise ApiError(
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, f"None of the replicas {list(now.placement.replicas)} is alive."
        )
    return [elected.state]


def _elect_preferred(image: ClusterImage, now: Partition, rule: Rule) -> list[Record]:
    preferred = now.placement.replicas[0]
    if now.state.leader == preferred:
        raise ApiError(ErrorCode.ELECTION_NOT_NEEDED, f"Broker {preferred} leads the partition.")
    elected = change_partition(now, rule, image.is_active, election=Election.PREFERRED)
    if elected.state.leader != preferred:
        raise ApiError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, f"Broker {preferred} is not alive or not in sync with the leader."
        )
    return [elected.state]


def decide_balance(
    image: ClusterImage, rule_of: Callable[[str], Rule], imbalance_percent_max: int, count_max: int
) -> list[Record]:
    """Decide preferred elections for brokers that lead too few of the partitions they are preferred for."""
    wanted: Counter[int] = Counter()
    drifted: Counter[int] = Counter()
    candidates: list[tuple[str, Partition]] = []
    for topic in image.topics.values():
        for index in range(topic.partition_count):
            if (now := partition_of(topic, index)) is None or now.placement.is_moving:
                continue
            preferred = now.placement.replicas[0]
            wanted[preferred] += 1
            if now.state.leader not in (preferred, NO_BROKER):
                drifted[preferred] += 1
                candidates.append((topic.name, now))
    records: list[Record] = []
    for name, now in candidates:
        preferred = now.placement.replicas[0]
        if drifted[preferred] * 100 <= imbalance_percent_max * wanted[preferred] or len(records) >= count_max:
            continue
        elected = change_partition(now, rule_of(name), image.is_active, election=Election.PREFERRED).state
        if elected.leader == preferred:
            records.append(elected)
    return records


def has_leaders_to_hand_over(image: ClusterImage, broker_id: int) -> bool:
    """Whether a broker leads a partition that another broker could lead."""
    return any(
        state.leader == broker_id and any(image.is_active(other) for other in state.isr if other != broker_id)
        for topic in image.topics.values()
        for state in topic.leadership.values()
    )

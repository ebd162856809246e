"""Leaders that somebody asked for, or that have drifted from the brokers that should have them."""

from collections import Counter
from collections.abc import Callable

from runnel.machines.controller.election import Election, Rule
from runnel.machines.controller.image import ClusterImage
from runnel.machines.controller.partition_change import Partition, change_partition, partition_of
from runnel.machines.controller.record import NO_BROKER, Record
from runnel.protocol.errors import ApiError, ErrorCode


def decide_elect(image: ClusterImage, name: str, index: int, election: Election, rule: Rule) -> list[Record]:
    """The record of the election that a client asked for."""
    topic = image.topics.get(name)
    if topic is None or (now := partition_of(topic, index)) is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {name}-{index}.")
    if election is Election.PREFERRED:
        return _elect_preferred(image, now, rule)
    if now.state.leader != NO_BROKER:
        raise ApiError(ErrorCode.ELECTION_NOT_NEEDED, f"Broker {now.state.leader} leads the partition.")
    elected = change_partition(now, rule, image.is_active, election=election)
    if elected.state.leader == NO_BROKER:
        raise ApiError(
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, f"None of the brokers {list(now.placement.replicas)} is there."
        )
    return [elected.state]


def _elect_preferred(image: ClusterImage, now: Partition, rule: Rule) -> list[Record]:
    preferred = now.placement.replicas[0]
    if now.state.leader == preferred:
        raise ApiError(ErrorCode.ELECTION_NOT_NEEDED, f"Broker {preferred} leads the partition.")
    elected = change_partition(now, rule, image.is_active, election=Election.PREFERRED)
    if elected.state.leader != preferred:
        raise ApiError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, f"Broker {preferred} is not there or not in sync with the leader."
        )
    return [elected.state]


def decide_balance(
    image: ClusterImage, rule_of: Callable[[str], Rule], imbalance_percent_max: int, count_max: int
) -> list[Record]:
    """Preferred elections for brokers that lead too few of the partitions that they should lead."""
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
    """Whether a broker leads something that another broker could lead as well."""
    return any(
        state.leader == broker_id and any(image.is_active(other) for other in state.isr if other != broker_id)
        for topic in image.topics.values()
        for state in topic.leadership.values()
    )

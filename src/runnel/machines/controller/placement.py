"""Which brokers hold which partition.

Brokers stand in a circle in which racks alternate. A partition's leader is one broker further than that of the
partition before, and its followers come behind the leader, one rack after the other until every rack has a replica.
With each round the followers come from one step further, so that the leaders of a broker that dies are taken over by
all of the others and not by its neighbour alone. This is what Kafka's brokers did with ZooKeeper (KIP-36).
"""

from collections.abc import Callable, Mapping, Sequence

from runnel.protocol.errors import ApiError, ErrorCode


def place_replicas(
    racks: Mapping[int, str | None], partition_count: int, replication_factor: int, start_index: int
) -> tuple[tuple[int, ...], ...]:
    """Spread replicas over brokers, given by their racks; brokers without one share one."""
    if replication_factor > len(racks):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): "
            f"only {len(racks)} broker(s) are registered",
        )
    circle = _alternate(racks)
    return tuple(
        _replicas(circle, racks, replication_factor, start_index + partition) for partition in range(partition_count)
    )


def _alternate(racks: Mapping[int, str | None]) -> list[int]:
    """The brokers in an order in which neighbours are in different racks while there are any."""
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker] or "", []).append(broker)
    members = [by_rack[rack] for rack in sorted(by_rack)]
    return [rack[place] for place in range(len(racks)) for rack in members if place < len(rack)]


def _replicas(circle: Sequence[int], racks: Mapping[int, str | None], count: int, turn: int) -> tuple[int, ...]:
    leader, round_number = turn % len(circle), turn // len(circle)
    replicas, used = [circle[leader]], {racks[circle[leader]]}
    others = len(circle) - 1
    # Behind the leader, from a place that moves on with each round and never meets the leader itself.
    followers = [circle[(leader + 1 + (round_number + step) % others) % len(circle)] for step in range(others)]
    while len(replicas) < count:
        for broker in followers:
            if broker not in replicas and racks[broker] not in used and len(replicas) < count:
                replicas.append(broker)
                used.add(racks[broker])
        # Every rack has one replica more than before; the next ones go round again.
        used = set()
    return tuple(replicas)


def check_assignment(
    assignment: Sequence[Sequence[int]], is_known: Callable[[int], bool], replica_count: int | None = None
) -> tuple[tuple[int, ...], ...]:
    """Accept a caller's own placement when every partition names distinct, known brokers, all equally many."""
    for partition, replicas in enumerate(assignment):
        check_replicas(replicas, is_known, f"partition {partition}")
        if len(replicas) != (replica_count or len(assignment[0])):
            raise _invalid("all partitions must have the same number of replicas")
    return tuple(tuple(replicas) for replicas in assignment)


def check_replicas(replicas: Sequence[int], is_known: Callable[[int], bool], name: str) -> None:
    """Raise unless the replicas of one partition are distinct brokers of the cluster."""
    if not replicas:
        raise _invalid(f"{name} has no replicas")
    if len(set(replicas)) != len(replicas):
        raise _invalid(f"{name} names a broker twice: {list(replicas)}")
    if unknown := sorted(broker for broker in replicas if not is_known(broker)):
        raise _invalid(f"{name} names unknown broker(s) {unknown}")


def _invalid(reason: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Invalid replica assignment: {reason}")

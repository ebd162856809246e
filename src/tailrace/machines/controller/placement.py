"""The placement of replicas on brokers.

Brokers are arranged in a circle in which racks alternate. Each partition's leader is one broker after the leader of the
previous partition, and its followers come after the leader, one rack after the other until every rack has a replica.
With each round the followers are taken from one step further on, so that all other brokers share the partitions of a
leader that fails, not only its neighbour. Kafka's brokers did the same with ZooKeeper (KIP-36).
"""

from collections.abc import Callable, Mapping, Sequence

from tailrace.protocol.errors import ApiError, ErrorCode


def place_replicas(
    racks: Mapping[int, str | None], partition_count: int, replication_factor: int, start_index: int
) -> tuple[tuple[int, ...], ...]:
    """Spread replicas over brokers, given with their racks; brokers without a rack count as one rack."""
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
    """Return the brokers in an order in which neighbours are in different racks as far as possible."""
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker] or "", []).append(broker)
    members = [by_rack[rack] for rack in sorted(by_rack)]
    return [rack[place] for place in range(len(racks)) for rack in members if place < len(rack)]


def _replicas(circle: Sequence[int], racks: Mapping[int, str | None], count: int, turn: int) -> tuple[int, ...]:
    leader, round_number = turn % len(circle), turn // len(circle)
    replicas, used = [circle[leader]], {racks[circle[leader]]}
    others = len(circle) - 1
    # After the leader, from a place that moves on with each round and is never the leader itself.
    followers = [circle[(leader + 1 + (round_number + step) % others) % len(circle)] for step in range(others)]
    while len(replicas) < count:
        for broker in followers:
            if broker not in replicas and racks[broker] not in used and len(replicas) < count:
                replicas.append(broker)
                used.add(racks[broker])
        # Every rack has one more replica; start another round.
        used = set()
    return tuple(replicas)


def check_assignment(
    assignment: Sequence[Sequence[int]], is_known: Callable[[int], bool], replica_count: int | None = None
) -> tuple[tuple[int, ...], ...]:
    """Return a manual assignment if each partition has the same number of distinct, known brokers; else raise."""
    for partition, replicas in enumerate(assignment):
        check_replicas(replicas, is_known, f"partition {partition}")
        if len(replicas) != (replica_count or len(assignment[0])):
            raise _invalid("all partitions must have the same number of replicas")
    return tuple(tuple(replicas) for replicas in assignment)


def check_replicas(replicas: Sequence[int], is_known: Callable[[int], bool], name: str) -> None:
    """Raise unless the replicas of a partition are distinct brokers of the cluster."""
    if not replicas:
        raise _invalid(f"{name} has no replicas")
    if len(set(replicas)) != len(replicas):
        raise _invalid(f"{name} names a broker twice: {list(replicas)}")
    if unknown := sorted(broker for broker in replicas if not is_known(broker)):
        raise _invalid(f"{name} names unknown broker(s) {unknown}")


def _invalid(reason: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Invalid replica assignment: {reason}")

"""Which brokers hold which partition."""

from collections.abc import Sequence

from runnel.protocol.errors import ApiError, ErrorCode


def place_replicas(
    broker_ids: Sequence[int], partition_count: int, replication_factor: int, start_index: int
) -> tuple[tuple[int, ...], ...]:
    """Spread replicas round robin from `start_index`, each partition's leader one broker further."""
    if replication_factor > len(broker_ids):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): "
            f"only {len(broker_ids)} broker(s) are registered",
        )
    brokers = sorted(broker_ids)
    return tuple(
        tuple(brokers[(start_index + partition + replica) % len(brokers)] for replica in range(replication_factor))
        for partition in range(partition_count)
    )


def check_assignment(assignment: Sequence[Sequence[int]], broker_ids: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Accept a caller's own placement when every partition names distinct, known brokers, all equally many."""
    known = set(broker_ids)
    for partition, replicas in enumerate(assignment):
        if not replicas:
            raise _invalid(f"partition {partition} has no replicas")
        if len(set(replicas)) != len(replicas):
            raise _invalid(f"partition {partition} names a broker twice: {list(replicas)}")
        if unknown := set(replicas) - known:
            raise _invalid(f"partition {partition} names unknown broker(s) {sorted(unknown)}")
        if len(replicas) != len(assignment[0]):
            raise _invalid("all partitions must have the same number of replicas")
    return tuple(tuple(replicas) for replicas in assignment)


def _invalid(reason: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Invalid replica assignment: {reason}")

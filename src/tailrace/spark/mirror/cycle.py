"""The recognition of topics that are copies themselves, so that no record comes back to where it was written. Pure.

A mirror notes with the progress of each partition through which clusters its records have come, as the ids of these
clusters in order. The mirror that copies the topic further reads the note where the topic is, adds its own source, and
does not copy a topic to a cluster that its records have already been in. Records are copied unchanged: no header is
added.
"""

from collections.abc import Iterable, Mapping

from tailrace.client.topic_partition import TopicPartition

_SEPARATOR = ","


def read_route(metadata: str) -> tuple[str, ...]:
    """Return the ids of the clusters through which the records of a partition came."""
    return tuple(part for part in metadata.split(_SEPARATOR) if part)


def write_route(route: Iterable[str]) -> str:
    """Return the text of a route."""
    return _SEPARATOR.join(route)


def routes_of(progress: Iterable[Mapping[TopicPartition, str]]) -> dict[str, tuple[str, ...]]:
    """Return the clusters that each copied topic of a cluster came through, from the progress of all mirrors there."""
    found: dict[str, tuple[str, ...]] = {}
    for one in progress:
        for (topic, _), metadata in one.items():
            route = read_route(metadata)
            found[topic] = found.get(topic, ()) + tuple(part for part in route if part not in found.get(topic, ()))
    return found


def cycle_problem(topic: str, copy: str, route: tuple[str, ...], target_id: str) -> str | None:
    """Return why a topic must not be copied to a cluster, or None if it may."""
    if target_id not in route:
        return None
    return (
        f"topic {topic} is itself a copy of a topic in the target: copying it to {copy} there would form a cycle. "
        "Leave it out of --topics, or use --rename {source}.{topic} in both directions"
    )

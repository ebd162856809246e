"""A topic, or a part of it, as one Arrow table."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tailrace.client.error import RequestTimeout
from tailrace.client.fetch.consumer import Consumer
from tailrace.client.fetch.core import ConsumerCore, check_columns
from tailrace.client.offset import EARLIEST, LATEST, find_offsets
from tailrace.client.place import Place, PlaceName, read_place
from tailrace.client.produce.core import check_partition
from tailrace.client.setting import SettingValue
from tailrace.config.error import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa


def read_table(
    bootstrap_servers: str | Sequence[str],
    topic: str,
    *,
    start: PlaceName = "earliest",
    end: PlaceName = "latest",
    partitions: Sequence[int] | None = None,
    columns: Sequence[str] | None = None,
    config: Mapping[str, SettingValue] | None = None,
    **settings: SettingValue,
) -> "pa.Table":
    """Read the records of a topic between two places into a `pyarrow.Table`.

        table = tailrace.read_table("localhost:9092", "page_views", start="-1h", columns=["key", "value"])

    A place is "earliest", "latest", an offset, a datetime, a time as text, or a time ago such as "-1h".
    It ends where the log ended when it was called. Rows are in the order of partitions and offsets.
    Settings are those of `tailrace.Consumer`.
    """
    wanted = check_columns(columns)
    places = read_place(start), read_place(end)
    if settings.get("group_id") is not None or (config or {}).get("group.id") is not None:
        raise ConfigError("group.id", "read_table reads the given range and has no group; leave group.id out")
    consumer = Consumer(bootstrap_servers, config=config, **settings)
    with consumer:
        bounds = consumer._thread.call(_find_bounds(consumer._core, topic, partitions, *places))
        return _read(consumer, topic, bounds, wanted)


async def _find_bounds(
    core: ConsumerCore, topic: str, partitions: Sequence[int] | None, start: Place, end: Place
) -> dict[int, tuple[int, int]]:
    """Return the first offset and the end of each partition to read, without empty ones."""
    await core.start()
    found = await core.cluster.topic(topic)
    wanted = list(range(len(found.partitions))) if partitions is None else list(partitions)
    for partition in wanted:
        check_partition(found, partition)
    logs = [await _find_place(core, topic, wanted, Place(None, moment)) for moment in (EARLIEST, LATEST)]
    starts = await _find_place(core, topic, wanted, start)
    ends = await _find_place(core, topic, wanted, end)
    bounds = {
        partition: (max(starts[partition], logs[0][partition]), min(ends[partition], logs[1][partition]))
        for partition in wanted
    }
    return {partition: (first, last) for partition, (first, last) in bounds.items() if first < last}


async def _find_place(core: ConsumerCore, topic: str, partitions: Sequence[int], place: Place) -> dict[int, int]:
    if place.offset is not None:
        return dict.fromkeys(partitions, place.offset)
    return await find_offsets(core.cluster, topic, dict.fromkeys(partitions, place.timestamp_ms), core.isolation)


def _read(consumer: Consumer, topic: str, bounds: dict[int, tuple[int, int]], columns: tuple[str, ...]) -> "pa.Table":
    import pyarrow as pa

    from tailrace.records.arrow.schema import schema_of

    core = consumer._core
    timeout_s = core.settings.default_api_timeout_ms / 1000
    consumer.assign([(topic, partition, first) for partition, (first, _) in bounds.items()])
    found: dict[int, list[pa.RecordBatch]] = {partition: [] for partition in sorted(bounds)}
    left = set(bounds)
    while left:
        chunk = core.fetcher.wait(timeout_s)
        if chunk is None:
            raise RequestTimeout(f"no records of {topic} arrived within default_api_timeout_ms ({timeout_s * 1000:g})")
        partition = chunk.state.target.partition
        if partition not in left:
            continue
        end = bounds[partition][1]
        found[partition] += core.columns(chunk, columns, end)
        if chunk.state.position >= end:
            left.discard(partition)
            core.fetcher.pause([chunk.state.target], is_paused=True)
    return pa.Table.from_batches([batch for batches in found.values() for batch in batches], schema_of(columns))

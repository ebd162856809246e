"""Appends to copies that keep the offsets of the source: its batches as they are, with markers and aborted records.

A copy needs no progress of its own: the mirror goes on at the end of the copy, and a batch that is sent again is passed
over by the leader (docs/decisions/0017-a-copy-keeps-its-offsets.md).
"""

from collections.abc import Iterable, Mapping

from tailrace.client.admin.core import Admin
from tailrace.client.cluster import Cluster
from tailrace.client.fetch.request import Fetched
from tailrace.client.offset import LATEST, list_offsets
from tailrace.client.produce.mirror_writer import MirrorWriter
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.records.batch import read_header
from tailrace.records.gap import build_gap
from tailrace.spark.mirror.error import MirrorReplaced
from tailrace.spark.mirror.job import PartitionJob
from tailrace.spark.mirror.translation import Span


class KeepAppender:
    """Appends what a task has fetched. `claims` has the claim of each copy."""

    def __init__(self, target: Cluster, claims: Mapping[str, str]) -> None:
        self._target = target
        self._writers = {copy: MirrorWriter(target, claim, lane=self) for copy, claim in claims.items()}
        self._ends: dict[TopicPartition, int] = {}

    async def find_positions(self, partitions: Iterable[PartitionJob]) -> dict[TopicPartition, int]:
        """Return the offsets of the source at which to go on, which are the ends of the copies."""
        found: dict[TopicPartition, int] = {}
        for one in partitions:
            ends = await list_offsets(self._target, one.copy, {one.partition: LATEST})
            found[one.source] = self._ends[one.target] = ends[one.partition].offset
        return found

    async def append(self, one: PartitionJob, fetched: Fetched) -> Span:
        """Append the batches of one fetch, and return what is known to be the same in both logs.

        Raises `MirrorReplaced` if a later run has claimed the copy, and `ApiError` if the target refuses the batches.
        """
        end = self._ends[one.target]
        # The first batch may begin before the first offset: the source has deleted only some of its records.
        gap = b"".join(build_gap(end, read_header(fetched.data).base_offset)) if fetched.offset > end else b""
        data = gap + fetched.data if gap else fetched.data
        try:
            await self._writers[one.copy].append(one.target, end, data)
        except ApiError as error:
            if error.code is ErrorCode.PRODUCER_FENCED:
                raise MirrorReplaced(f"another run of the mirror has claimed topic {one.copy}") from None
            raise
        self._ends[one.target] = fetched.next_offset
        if fetched.offset > end:
            await self._delete_before(one.target, fetched.offset)
        return Span(fetched.offset, fetched.offset, fetched.next_offset - fetched.offset)

    async def _delete_before(self, target: TopicPartition, offset: int) -> None:
        """Let the copy begin where the source begins, which has deleted everything below."""
        outcome = (await Admin(self._target).delete_records({target: offset}))[target]
        if isinstance(outcome, ApiError):
            raise outcome

    async def close(self) -> None:
        """Close the connections."""
        await self._target.close_lane(self)

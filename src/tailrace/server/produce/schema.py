"""The check of schema ids, for topics that ask for it: a batch with an id that is not of its subject is refused.

`records.schema_id` has found the ids of the records. Usually the broker knows all of them, and nothing waits. A batch
that cannot be judged because the schema registry is down is refused with the code that Confluent Server uses, which
every producer retries: NOT_LEADER_OR_FOLLOWER.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from tailrace.base.limits import (
    RECORD_ERRORS_PER_BATCH_MAX,
    SCHEMA_IDS_PER_BATCH_MAX,
    SCHEMA_LOOKUPS_TOGETHER_MAX,
    SCHEMA_PRODUCE_WAIT_S,
)
from tailrace.base.record_part import RecordPart
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.records.schema_id import TOO_SHORT, WRONG_MAGIC
from tailrace.records.validation import InvalidRecordsError, RecordFault, find_schema_ids
from tailrace.runtime.schema.registry import RegistryError
from tailrace.runtime.schema.validation import SchemaValidation
from tailrace.server.context import RequestContext
from tailrace.server.produce.batch import ValidatedBatch, refuse, reject


async def check_schemas(ctx: RequestContext, batches: Sequence[ValidatedBatch]) -> list[ValidatedBatch]:
    """Refuse batches with schema ids that are not valid for their topics; return the others, in the same order."""
    validation = ctx.broker.schema_validation
    wait_until = asyncio.get_running_loop().time() + SCHEMA_PRODUCE_WAIT_S
    passed = []
    for batch in batches:
        partition = batch.partition
        try:
            if not _is_known(validation, batch):
                await _check(ctx, batch, wait_until)
        except ApiError as error:
            validation.refused_records.add(batch.valid.header.record_count, (partition.topic,))
            reject(ctx, batch.reply, partition, error)
        except RegistryError as error:
            message = f"{partition.name}: the schema ids of the batch cannot be looked up: {error}"
            refuse(batch.reply, ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, message))
        else:
            passed.append(batch)
    return passed


def _is_known(validation: SchemaValidation, batch: ValidatedBatch) -> bool:
    """Return whether the broker knows that all ids of the batch are right, as is usual."""
    topic, config = batch.partition.topic, batch.partition.config
    for part, found in batch.valid.schema_ids:
        if len(found) >= SCHEMA_IDS_PER_BATCH_MAX:
            return False
        subject = config.schema_subject(topic, part)
        for schema_id in found:
            if not validation.known(schema_id, subject):
                return False
    return True


class _Use(NamedTuple):
    """A schema id in the keys or the values of a batch."""

    part: RecordPart
    subject: str | None  # None if any will do
    schema_id: int

    def faults(self, record_indexes: Iterable[int]) -> Iterator[RecordFault]:
        place = "any subject" if self.subject is None else f"the subject {self.subject}"
        if self.schema_id == TOO_SHORT:
            text = f"the {self.part} is too short for a schema id, which must be registered under {place}"
        elif self.schema_id == WRONG_MAGIC:
            text = f"the {self.part} does not begin with byte 0 and a schema id, which must be registered under {place}"
        else:
            text = f"the schema id {self.schema_id} of the {self.part} is not registered under {place}"
        return (RecordFault(index, text) for index in record_indexes)


async def _check(ctx: RequestContext, batch: ValidatedBatch, wait_until: float) -> None:
    """Raise `ApiError` if an id of the batch is wrong, and `RegistryError` if that cannot be found out in time."""
    validation = ctx.broker.schema_validation
    uses = _uses(batch)
    verdicts = [validation.known(use.schema_id, use.subject) for use in uses]
    await _refuse_all(ctx, batch, [use for use, verdict in zip(uses, verdicts, strict=True) if verdict is False])
    unknown = [use for use, verdict in zip(uses, verdicts, strict=True) if verdict is None]
    for start in range(0, len(unknown), SCHEMA_LOOKUPS_TOGETHER_MAX):
        asked = unknown[start : start + SCHEMA_LOOKUPS_TOGETHER_MAX]
        try:
            async with asyncio.timeout_at(wait_until):
                found = await asyncio.gather(*(validation.find(use.schema_id, use.subject) for use in asked))
        except TimeoutError:
            raise RegistryError(f"the schema registry did not answer within {SCHEMA_PRODUCE_WAIT_S:g} s") from None
        await _refuse_all(ctx, batch, [use for use, is_found in zip(asked, found, strict=True) if not is_found])


def _uses(batch: ValidatedBatch) -> list[_Use]:
    topic, config = batch.partition.topic, batch.partition.config
    uses: list[_Use] = []
    for part, found in batch.valid.schema_ids:
        if len(found) >= SCHEMA_IDS_PER_BATCH_MAX:
            message = f"the {part}s of the batch have more than {SCHEMA_IDS_PER_BATCH_MAX - 1} different schema ids"
            raise ApiError(ErrorCode.INVALID_RECORD, message)
        subject = config.schema_subject(topic, part)
        uses += [_Use(part, subject, schema_id) for schema_id in found]
    return uses


async def _refuse_all(ctx: RequestContext, batch: ValidatedBatch, wrong: Sequence[_Use]) -> None:
    """Raise `InvalidRecordsError` with the records that have a wrong id, if there is one."""
    if not wrong:
        return
    find = partial(
        find_schema_ids,
        *(batch.buffer, batch.valid.header, [part for part, _ in batch.valid.schema_ids]),
        decompressed_bytes_max=ctx.broker.config.tailrace_decompressed_max_bytes,
    )
    found = await asyncio.get_running_loop().run_in_executor(ctx.broker.worker, find)
    faults = sorted(fault for use in wrong for fault in use.faults(found[use.part][use.schema_id]))
    raise InvalidRecordsError(ErrorCode.INVALID_RECORD, tuple(faults[:RECORD_ERRORS_PER_BATCH_MAX]))

"""A copier through aiokafka, which has no KIP-447 and reads partitions of its own; `copier.md` says what it does."""

from __future__ import annotations

import asyncio
import itertools
import sys
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError
from tests.clients.copier_line import ABORT_EVERY, BATCH_MAX, GIVE_UP, TRANSACTION_TIMEOUT_MS, Task, say, say_offsets


class Copier:
    """One producer and one consumer."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._producer = AIOKafkaProducer(
            bootstrap_servers=task.bootstrap,
            transactional_id=task.transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        )
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=task.bootstrap,
            group_id=task.group,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=100,
        )

    async def run(self) -> None:
        say("init")
        await self._producer.start()
        say("ready")
        # Only now: what the copier before it left open is aborted, and what is committed stays as it is.
        self._consumer.assign([TopicPartition(self._task.source, each) for each in self._task.partition_numbers])
        await self._consumer.start()
        numbers = itertools.count(1)
        while True:
            taken = await self._consumer.getmany(timeout_ms=200, max_records=BATCH_MAX)
            if taken:
                await self._copy(taken, next(numbers))

    async def _copy(self, taken: dict[Any, list[Any]], number: int) -> None:
        say("begin", number)
        await self._producer.begin_transaction()
        await self._send(taken, number)
        if number % ABORT_EVERY == 0:
            say("abort", number)
            await self._producer.abort_transaction()
            say("aborted", number)
            await self._rewind()
            return
        say("commit", number)
        await self._producer.commit_transaction()
        say("committed", number)

    async def _send(self, taken: dict[Any, list[Any]], number: int) -> None:
        sent = []
        for place, records in taken.items():
            for record in records:
                value = self._task.value(record.value, record.partition, record.offset, number)
                sent.append(await self._producer.send(self._task.target, value, record.key, place.partition))
        await asyncio.gather(*sent)
        offsets = {place: records[-1].offset + 1 for place, records in taken.items()}
        say_offsets(number, {place.partition: offset for place, offset in offsets.items()})
        await self._producer.send_offsets_to_transaction(offsets, self._task.group)

    async def _rewind(self) -> None:
        """Read again what was not committed."""
        for place in self._consumer.assignment():
            offset = await self._consumer.committed(place)
            if offset is None:
                await self._consumer.seek_to_beginning(place)
            else:
                self._consumer.seek(place, offset)


async def run(arguments: list[str]) -> None:
    await Copier(Task(*arguments)).run()


def main(arguments: list[str]) -> None:
    try:
        asyncio.run(run(arguments))
    except KafkaError as error:
        print(repr(error), file=sys.stderr, flush=True)
        sys.exit(GIVE_UP)


if __name__ == "__main__":
    main(sys.argv[1:])

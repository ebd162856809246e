"""The lookup of a query's partitions and offsets in the driver."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from tailrace.client.offset import EARLIEST, LATEST
from tailrace.client.topic_partition import TopicPartition
from tailrace.spark.bound import Bound, Resolved, resolve
from tailrace.spark.client_setting import BOOTSTRAP_SERVERS
from tailrace.spark.data_loss import Loss
from tailrace.spark.error import BrokerError, OptionError
from tailrace.spark.option import SourceOptions
from tailrace.spark.plan import check_given
from tailrace.spark.position import Offsets
from tailrace.spark.topic_io import TopicIO

T = TypeVar("T")
log = logging.getLogger(__name__)


class Discovery:
    """Looks up partitions and offsets for one query."""

    def __init__(self, options: SourceOptions, io: TopicIO) -> None:
        self._options = options
        self._io = io
        self._loss = Loss(options.fail_on_data_loss)
        self._known: set[TopicPartition] = set()
        self._known_until_s = float("-inf")

    def partitions(self, *, may_be_gone: bool = False) -> set[TopicPartition]:
        """Return the existing partitions; a missing one is an error, unless the query tolerates data loss."""
        if time.monotonic() < self._known_until_s:
            return self._known
        found = self._retry(lambda: self._look(may_be_gone))
        self._known = found
        self._known_until_s = time.monotonic() + self._options.metadata_ttl_ms / 1000
        return found

    def _look(self, may_be_gone: bool) -> set[TopicPartition]:
        subscription = self._options.subscription
        counts = self._io.partition_counts(subscription.topics)
        if (missing := subscription.missing(counts)) and not may_be_gone:
            servers = self._options.client.bootstrap_servers
            raise OptionError(
                subscription.option,
                f"{missing} at {BOOTSTRAP_SERVERS} ({servers}). Create it first, or change the option",
            )
        return subscription.partitions(counts)

    def resolve(self, bound: Bound, option: str, *, is_start: bool) -> Resolved:
        """Return the offsets at which the query starts or ends, all within the log."""
        partitions = self.partitions()
        resolved = self._retry(
            lambda: resolve(
                bound,
                partitions,
                self._io.offsets,
                option=option,
                is_start=is_start,
                no_match=self._options.no_match,
            )
        )
        if resolved.given:
            given = sorted(resolved.given)
            first, last = self._retry(lambda: self._io.edges(given))
            resolved.offsets = check_given(resolved.offsets, given, first, last, option, self._loss)
        return resolved

    def latest(self, known: Offsets) -> Offsets:
        """Return the end offset of every partition, including new ones; repeats the lookup if one went back."""
        partitions = self.partitions(may_be_gone=not self._options.fail_on_data_loss)
        found: Offsets = {}
        for attempt in range(self._options.retry.attempt_count):
            if attempt:
                time.sleep(self._options.retry.interval_ms / 1000)
            found = self._offsets(dict.fromkeys(partitions, LATEST))
            if all(found[partition] >= offset for partition, offset in known.items() if partition in found):
                break
        return found

    def earliest(self, partitions: set[TopicPartition]) -> Offsets:
        """Return the first offsets of partitions, without deleted ones."""
        there = partitions & self.partitions(may_be_gone=True)
        return self._offsets(dict.fromkeys(there, EARLIEST))

    def times(self, partitions: set[TopicPartition], time_ms: int) -> Mapping[TopicPartition, int | None]:
        """Return the first offset at or after a time in each partition, or None."""
        return self._retry(lambda: self._io.offsets(dict.fromkeys(partitions, time_ms)))

    def _offsets(self, asked: Mapping[TopicPartition, int]) -> Offsets:
        return {partition: offset or 0 for partition, offset in self._retry(lambda: self._io.offsets(asked)).items()}

    def _retry(self, action: Callable[[], T]) -> T:
        """Repeat a lookup as fetchOffset.numRetries and fetchOffset.retryIntervalMs allow."""
        retry = self._options.retry
        for attempt in range(1, retry.attempt_count):
            try:
                return action()
            except (BrokerError, OptionError) as error:
                log.debug("attempt %d of %d to look up offsets failed: %s", attempt, retry.attempt_count, error)
                time.sleep(retry.interval_ms / 1000)
        return action()

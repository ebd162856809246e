"""The transactions of this broker: a shard for each partition of `__transaction_state` that it leads."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from functools import partial

from tailrace.base.clock import Clock
from tailrace.base.limits import MARKER_RETRY_MS, TRANSACTION_COMMIT_MS
from tailrace.base.metric import Registry
from tailrace.config.broker import BrokerConfig
from tailrace.machines.controller.image import ClusterImage
from tailrace.machines.controller.topic import NewTopic
from tailrace.machines.decision import Decision, Timer, Token
from tailrace.machines.transaction.coordinator import TransactionCoordinator
from tailrace.machines.transaction.decision import EndMarkers, TransactionDecision, TransactionEvent
from tailrace.machines.transaction.record import TRANSACTION_RECORDS, TransactionRecord
from tailrace.machines.transaction.setting import TransactionSetting
from tailrace.machines.transaction.transaction import TopicPartition
from tailrace.protocol.errors import ErrorCode
from tailrace.records.compression import Compression
from tailrace.runtime.acknowledgement import when_acknowledged
from tailrace.runtime.coordinator.log import CoordinatorLog
from tailrace.runtime.coordinator.shard import CoordinatorShard
from tailrace.runtime.coordinator.shards import CoordinatorShards
from tailrace.runtime.coordinator.topic import TRANSACTION_TOPIC, transaction_topic
from tailrace.runtime.partition import Partition
from tailrace.runtime.replication.replicas import Replicas
from tailrace.runtime.transaction.marker import MarkerSender, MarkerTask
from tailrace.runtime.transaction.metric import TransactionCounters, TransactionGauges

Decide = Callable[[TransactionCoordinator, int, Token], TransactionDecision]


class TransactionShard(CoordinatorShard[TransactionCoordinator, TransactionRecord]):
    """The transactional ids of one partition, and the ends of their transactions."""

    def __init__(
        self,
        machine: TransactionCoordinator,
        coordinator_log: CoordinatorLog[TransactionRecord],
        clock: Clock,
        set_timer: Callable[[CoordinatorShard[TransactionCoordinator, TransactionRecord], Timer], None],
        counters: TransactionCounters,
        acknowledgement_timeout_ms: int,
        sender: MarkerSender,
    ) -> None:
        super().__init__(machine, coordinator_log, clock, set_timer, counters, acknowledgement_timeout_ms)
        self._sender = sender
        self._events = counters

    def carried_out(self, decision: Decision[TransactionRecord]) -> None:
        """Count what was decided, and send its markers once the decision may be acknowledged."""
        if not isinstance(decision, TransactionDecision):
            return
        if decision.event is not None:
            self._events.happened(decision.event)
        if decision.ending:
            markers = [self.machine.end_markers(transactional_id) for transactional_id in decision.ending]
            self._send_when_acknowledged(self._log.partition.log.log_end_offset, markers)

    def _send_when_acknowledged(self, end_offset: int, markers: list[EndMarkers]) -> None:
        if self._is_coordinating():
            tell = partial(self._send, end_offset, markers)
            when_acknowledged(self._log.partition, end_offset, self._acknowledgement_timeout_ms, tell)

    def _send(self, end_offset: int, markers: list[EndMarkers], code: ErrorCode) -> None:
        if code is not ErrorCode.NONE:
            # As long as this broker coordinates no other will send them, so it looks again.
            again = self._send_when_acknowledged
            asyncio.get_running_loop().call_later(MARKER_RETRY_MS / 1000, again, end_offset, markers)
            return
        for each in markers:
            self._sender.send(MarkerTask(each, self._is_coordinating, partial(self._written, each)))

    def _written(self, markers: EndMarkers, partitions: Sequence[TopicPartition]) -> None:
        self.run(lambda: self.machine.on_markers_written(self._clock.now_ms(), markers, partitions))

    def _is_coordinating(self) -> bool:
        return self.is_loaded and not self.is_gone


class TransactionCoordinators(CoordinatorShards[TransactionCoordinator, TransactionRecord]):
    """Finds the shard of a transactional id."""

    def __init__(
        self,
        config: Callable[[], BrokerConfig],
        clock: Clock,
        image: ClusterImage,
        replicas: Replicas,
        worker: Executor,
        create_topic: Callable[[NewTopic], Awaitable[object]],
        take_producer_id: Callable[[], int],
        sender: MarkerSender,
        metrics: Registry,
    ) -> None:
        super().__init__(TRANSACTION_TOPIC, clock, image, replicas, create_topic)
        self._config = config
        self._worker = worker
        self._take_producer_id = take_producer_id
        self._sender = sender
        self._counters = TransactionCounters(metrics)
        TransactionGauges(metrics, self.loaded_machines, clock, sender.unled_count)

    async def stop(self) -> None:
        """Stop the timers and the sending of markers, and refuse the requests that wait."""
        await self._sender.stop()
        await super().stop()

    async def verify(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Whether each partition is in the transaction; ApiError if another broker knows, or none yet."""
        shard = self.shard(transactional_id)
        shard.check_loaded()
        codes = shard.machine.verify(transactional_id, producer_id, producer_epoch, partitions)
        if ErrorCode.PRODUCER_FENCED in codes.values():
            self._counters.happened(TransactionEvent.FENCED)
        await shard.acknowledged()
        return codes

    def _new_topic(self, broker_count: int) -> NewTopic:
        return transaction_topic(self._config(), broker_count)

    def _new_shard(self, partition: Partition) -> TransactionShard:
        config = self._config()
        buffer_bytes = config.transaction_state_log_load_buffer_size
        return TransactionShard(
            TransactionCoordinator(_setting(config), partition.leader_epoch, self._take_producer_id),
            CoordinatorLog(partition, TRANSACTION_RECORDS, Compression.NONE, buffer_bytes, self._worker),
            self._clock,
            self._timers.set,
            self._counters,
            TRANSACTION_COMMIT_MS,
            self._sender,
        )


def _setting(config: BrokerConfig) -> TransactionSetting:
    return TransactionSetting(
        timeout_ms_max=config.transaction_max_timeout_ms,
        expiration_ms=config.transactional_id_expiration_ms,
        timeout_interval_ms=config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
        expiry_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
        is_two_phase_enabled=config.transaction_two_phase_commit_enable,
    )

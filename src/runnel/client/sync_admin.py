"""Administration for ordinary code."""

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

from runnel.client import aio_admin
from runnel.client.admin import Config, CreatedTopic, NewTopic, ResourceType
from runnel.client.admin_group import GroupDescription, ListedGroup, PartitionLag, Target
from runnel.client.admin_reassignment import Reassignment
from runnel.client.admin_transaction import (
    HangingTransaction,
    ListedTransaction,
    ProducerState,
    TransactionDescription,
)
from runnel.client.group_offset import OffsetAndMetadata
from runnel.client.isolation import Isolation
from runnel.client.loop_thread import LoopThread
from runnel.client.metadata import ClusterView, Topic
from runnel.client.offset import OffsetAt
from runnel.client.sequence import Identity
from runnel.client.setting import SettingValue
from runnel.client.topic_partition import TopicPartition
from runnel.client.transaction_state import PreparedTransaction
from runnel.protocol.errors import ApiError


class Admin:
    """Topics, settings, groups and transactions of a cluster.

        with runnel.Admin("localhost:9092") as admin:
            admin.create_topics([runnel.NewTopic("page_views", 3)])

    Where a call names several things, each has its own outcome: a value, or the `ApiError` that the
    broker answered for it.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        *,
        config: Mapping[str, SettingValue] | None = None,
        **settings: SettingValue,
    ) -> None:
        self._admin = aio_admin.Admin(bootstrap_servers, config=config, **settings)
        self._thread = LoopThread("runnel-admin")
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def list_topics(self, *, include_internal: bool = False) -> list[Topic]:
        """Every topic, by name."""
        return self._thread.call(self._admin.list_topics(include_internal=include_internal))

    def describe_topics(self, names: Iterable[str]) -> dict[str, Topic | ApiError]:
        """Topics with their partitions."""
        return self._thread.call(self._admin.describe_topics(names))

    def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic | ApiError]:
        """Create topics, or only check whether that would work."""
        return self._thread.call(self._admin.create_topics(topics, validate_only=validate_only))

    def delete_topics(self, names: Sequence[str]) -> dict[str, ApiError | None]:
        """Delete topics and all their records."""
        return self._thread.call(self._admin.delete_topics(names))

    def create_partitions(self, counts: Mapping[str, int]) -> dict[str, ApiError | None]:
        """Give topics more partitions; the counts are of all partitions, not of the new ones."""
        return self._thread.call(self._admin.create_partitions(counts))

    def describe_configs(self, resource_type: ResourceType, name: str) -> list[Config]:
        """The settings of a topic or a broker; raises `ApiError`."""
        return self._thread.call(self._admin.describe_configs(resource_type, name))

    def alter_configs(self, resource_type: ResourceType, name: str, changes: Mapping[str, str | None]) -> None:
        """Set single settings; None takes one back to what it is by default. Raises `ApiError`."""
        return self._thread.call(self._admin.alter_configs(resource_type, name, changes))

    def describe_cluster(self) -> ClusterView:
        """The brokers, the controller and the cluster's id."""
        return self._thread.call(self._admin.describe_cluster())

    def list_offsets(
        self, topic: str, timestamps: Mapping[int, int], isolation: Isolation = Isolation.READ_UNCOMMITTED
    ) -> dict[int, OffsetAt]:
        """The first offset at or after a time in each partition; EARLIEST, LATEST and MAX_TIMESTAMP stand for times."""
        return self._thread.call(self._admin.list_offsets(topic, timestamps, isolation))

    # --- groups

    def list_groups(self, *, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[ListedGroup]:
        """The groups of all brokers by name, or those in some states ("Stable") and of some types ("consumer")."""
        return self._thread.call(self._admin.list_groups(states=states, types=types))

    def describe_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription | ApiError]:
        """Groups of both protocols with their members."""
        return self._thread.call(self._admin.describe_groups(group_ids))

    def delete_groups(self, group_ids: Iterable[str]) -> dict[str, ApiError | None]:
        """Delete groups that have no members, and what they have committed."""
        return self._thread.call(self._admin.delete_groups(group_ids))

    def list_group_offsets(
        self, group_id: str, partitions: Iterable[tuple[str, int]] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What a group has committed, for these partitions or for all; those without a commit are left out."""
        return self._thread.call(self._admin.list_group_offsets(group_id, partitions))

    def alter_group_offsets(
        self, group_id: str, offsets: Mapping[Target, int | OffsetAndMetadata]
    ) -> dict[TopicPartition, ApiError | None]:
        """Set what a group without members has committed."""
        return self._thread.call(self._admin.alter_group_offsets(group_id, offsets))

    def delete_group_offsets(
        self, group_id: str, partitions: Iterable[tuple[str, int]]
    ) -> dict[TopicPartition, ApiError | None]:
        """Forget what a group has committed for partitions of topics that none of its members reads."""
        return self._thread.call(self._admin.delete_group_offsets(group_id, partitions))

    def group_lag(
        self, group_id: str, partitions: Iterable[tuple[str, int]] = ()
    ) -> dict[TopicPartition, PartitionLag]:
        """How far a group is behind, in what it has committed and in the partitions that are named besides."""
        return self._thread.call(self._admin.group_lag(group_id, partitions))

    # --- transactions

    def complete_transaction(self, prepared: PreparedTransaction, *, commit: bool = True) -> None:
        """End a transaction that some producer has prepared; saying the same again changes nothing.

        Raises `ProducerFenced` when the transactional id was taken by another producer since, and `ApiError`
        INVALID_TXN_STATE when the transaction has ended the other way.
        """
        self._thread.call(self._admin.complete_transaction(prepared, commit=commit))

    def fence_producers(self, transactional_ids: Iterable[str]) -> dict[str, Identity | ApiError]:
        """End the producers of transactional ids, and abort what they have open or prepared.

        The outcome is the producer id and the epoch that nobody has now.
        """
        return self._thread.call(self._admin.fence_producers(transactional_ids))

    def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        running_ms: int | None = None,
        pattern: str | None = None,
    ) -> list[ListedTransaction]:
        """The transactional ids of all brokers by name.

        Or those in some states ("Ongoing"), of some producer ids, whose transaction has been running for longer
        than a time, or whose whole name matches a regular expression, which the broker reads.
        """
        return self._thread.call(
            self._admin.list_transactions(
                states=states, producer_ids=producer_ids, running_ms=running_ms, pattern=pattern
            )
        )

    def describe_transactions(self, transactional_ids: Iterable[str]) -> dict[str, TransactionDescription | ApiError]:
        """Transactional ids with their transactions."""
        return self._thread.call(self._admin.describe_transactions(transactional_ids))

    def describe_producers(
        self, partitions: Iterable[tuple[str, int]]
    ) -> dict[TopicPartition, list[ProducerState] | ApiError]:
        """Who has written to partitions lately, and is in a transaction there, as the leaders know it."""
        return self._thread.call(self._admin.describe_producers(partitions))

    def find_hanging_transactions(
        self, partitions: Iterable[tuple[str, int]], *, open_ms: int = 15 * 60_000
    ) -> list[HangingTransaction]:
        """Transactions in these partitions, open for longer than any may be, that no coordinator knows of."""
        return self._thread.call(self._admin.find_hanging_transactions(partitions, open_ms=open_ms))

    def abort_transaction(self, partition: tuple[str, int], producer: ProducerState) -> None:
        """Have the end of a transaction written into one partition past its coordinator, as an abort.

        It is for transactions that hang: what their coordinator still knows of is ended by `fence_producers`.
        """
        self._thread.call(self._admin.abort_transaction(partition, producer))

    # --- partitions

    def alter_partition_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int] | None], *, keep_replication_factor: bool = False
    ) -> dict[TopicPartition, ApiError | None]:
        """Send partitions to other brokers; None calls one back."""
        return self._thread.call(
            self._admin.alter_partition_reassignments(targets, keep_replication_factor=keep_replication_factor)
        )

    def list_partition_reassignments(self) -> dict[TopicPartition, Reassignment]:
        """All partitions that are on their way."""
        return self._thread.call(self._admin.list_partition_reassignments())

    def elect_leaders(
        self, partitions: Iterable[TopicPartition] | None = None, *, unclean: bool = False
    ) -> dict[TopicPartition, ApiError | None]:
        """Have partitions led by the first of their replicas, or, unclean, by any where nobody is left."""
        return self._thread.call(self._admin.elect_leaders(partitions, unclean=unclean))

    def unregister_broker(self, broker_id: int) -> None:
        """Have the cluster forget a broker that was stopped for good; raises `ApiError`."""
        self._thread.call(self._admin.unregister_broker(broker_id))

    def close(self) -> None:
        """Close every connection. Closing twice does nothing."""
        if not self._is_closed:
            self._is_closed = True
            self._thread.call(self._admin.close())
            self._thread.close()

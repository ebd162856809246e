"""The admin client for ordinary code: the asyncio one on a thread of its own."""

from collections.abc import Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from tailrace.client.admin import aio
from tailrace.client.blocking import blocking
from tailrace.client.loop_thread import LoopThread
from tailrace.client.setting import SettingValue

T = TypeVar("T")


class Admin:
    """Topics, configs, groups, transactions, users, tokens, ACLs and quotas of a cluster.

        with tailrace.Admin("localhost:9092") as admin:
            admin.create_topics([tailrace.NewTopic("page_views", 3)])

    If a call names several things, each has its own outcome: a value, or the `ApiError` of the broker's answer.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        *,
        config: Mapping[str, SettingValue] | None = None,
        **settings: SettingValue,
    ) -> None:
        self._aio = aio.Admin(bootstrap_servers, config=config, **settings)
        self._thread = LoopThread("tailrace-admin")
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection. Closing twice does nothing."""
        if not self._is_closed:
            self._is_closed = True
            self._run(self._aio.close())
            self._thread.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._thread.call(work)

    # --- topics and configs

    list_topics = blocking(aio.Admin.list_topics)
    describe_topics = blocking(aio.Admin.describe_topics)
    create_topics = blocking(aio.Admin.create_topics)
    delete_topics = blocking(aio.Admin.delete_topics)
    create_partitions = blocking(aio.Admin.create_partitions)
    describe_configs = blocking(aio.Admin.describe_configs)
    alter_configs = blocking(aio.Admin.alter_configs)
    list_config_resources = blocking(aio.Admin.list_config_resources)
    describe_cluster = blocking(aio.Admin.describe_cluster)
    list_offsets = blocking(aio.Admin.list_offsets)
    delete_records = blocking(aio.Admin.delete_records)

    # --- groups

    list_groups = blocking(aio.Admin.list_groups)
    describe_groups = blocking(aio.Admin.describe_groups)
    delete_groups = blocking(aio.Admin.delete_groups)
    list_group_offsets = blocking(aio.Admin.list_group_offsets)
    alter_group_offsets = blocking(aio.Admin.alter_group_offsets)
    delete_group_offsets = blocking(aio.Admin.delete_group_offsets)
    group_lag = blocking(aio.Admin.group_lag)

    # --- transactions

    complete_transaction = blocking(aio.Admin.complete_transaction)
    fence_producers = blocking(aio.Admin.fence_producers)
    list_transactions = blocking(aio.Admin.list_transactions)
    describe_transactions = blocking(aio.Admin.describe_transactions)
    describe_producers = blocking(aio.Admin.describe_producers)
    find_hanging_transactions = blocking(aio.Admin.find_hanging_transactions)
    abort_transaction = blocking(aio.Admin.abort_transaction)

    # --- partitions

    alter_partition_reassignments = blocking(aio.Admin.alter_partition_reassignments)
    list_partition_reassignments = blocking(aio.Admin.list_partition_reassignments)
    elect_leaders = blocking(aio.Admin.elect_leaders)
    unregister_broker = blocking(aio.Admin.unregister_broker)

    # --- users and access control

    describe_user_scram_credentials = blocking(aio.Admin.describe_user_scram_credentials)
    alter_user_scram_credentials = blocking(aio.Admin.alter_user_scram_credentials)
    create_delegation_token = blocking(aio.Admin.create_delegation_token)
    renew_delegation_token = blocking(aio.Admin.renew_delegation_token)
    expire_delegation_token = blocking(aio.Admin.expire_delegation_token)
    describe_delegation_tokens = blocking(aio.Admin.describe_delegation_tokens)
    create_acls = blocking(aio.Admin.create_acls)
    describe_acls = blocking(aio.Admin.describe_acls)
    delete_acls = blocking(aio.Admin.delete_acls)
    describe_client_quotas = blocking(aio.Admin.describe_client_quotas)
    alter_client_quotas = blocking(aio.Admin.alter_client_quotas)

"""The admin client for asyncio."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from tailrace.client.admin import core as admin
from tailrace.client.produce.core import open_cluster
from tailrace.client.setting import AdminSettings, SettingValue


class Admin(admin.Admin):
    """Topics, configs, groups, transactions, users, tokens, ACLs and quotas of a cluster.

    async with tailrace.aio.Admin("localhost:9092") as admin:
        await admin.create_topics([tailrace.NewTopic("page_views", 3)])
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        *,
        config: Mapping[str, SettingValue] | None = None,
        **settings: SettingValue,
    ) -> None:
        values = AdminSettings(bootstrap_servers, config, settings)
        super().__init__(open_cluster(values), timeout_ms=values.default_api_timeout_ms)

    async def __aenter__(self) -> Self:
        await self._cluster.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        await self._cluster.close()

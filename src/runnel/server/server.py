"""A broker behind its listeners: what `runnel start` runs and what tests embed."""

import asyncio
import logging

from runnel.base.clock import Clock
from runnel.base.undo import undone_by
from runnel.config.broker import BrokerConfig
from runnel.config.listener import Endpoint
from runnel.coordination.store import MetadataStore
from runnel.machines.controller import record
from runnel.runtime.broker import Broker
from runnel.server import handlers  # noqa: F401 - fills the registry of APIs
from runnel.server.dispatch import Dispatcher, Intercept
from runnel.server.listener import Listeners
from runnel.server.metric_listener import MetricListener
from runnel.storage.fs import FileSystem

log = logging.getLogger("runnel.server")


class Server:
    """A broker that clients can reach."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        intercept: Intercept | None = None,
        fs: FileSystem | None = None,
        clock: Clock | None = None,
        store: MetadataStore | None = None,
    ) -> None:
        self.broker = Broker(config, fs=fs, clock=clock, store=store)
        self.endpoints: tuple[Endpoint, ...] = ()
        self._config = config
        self.listeners = Listeners(self.broker, Dispatcher(self.broker, intercept).serve)
        self._metrics = MetricListener(self.broker.metrics)
        self.metrics_port: int | None = None
        self._sweeper: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Recover the logs, then listen; clients may connect when this returns."""
        await self.broker.open()
        async with undone_by(self.stop):
            self.endpoints = tuple([await self._open(endpoint) for endpoint in self._config.broker_listeners])
            await self._open_metrics()
            await self.broker.join()
        self._sweeper = asyncio.get_running_loop().create_task(self.listeners.sweep_forever())

    async def stop(self) -> None:
        """Have other brokers lead, let clients go, then close the logs cleanly."""
        await self.broker.leave()
        if self._sweeper is not None:
            self._sweeper.cancel()
        await self._metrics.close()
        await self.listeners.close()
        await self.broker.stop()

    async def _open_metrics(self) -> None:
        address = self._config.runnel_metrics_listener
        if address is not None:
            self.metrics_port = await self._metrics.open(address)
            log.info("serving metrics on %s:%d", address.rpartition(":")[0] or "*", self.metrics_port)

    async def _open(self, endpoint: Endpoint) -> Endpoint:
        port = await self.listeners.open(endpoint)
        advertised = self._config.advertised_listener(endpoint.name, port, default_host="")
        told = record.Endpoint(endpoint.name, advertised.host, advertised.port, endpoint.security_protocol)
        self.broker.endpoints += (told,)
        log.info("listening for %s on %s:%d", endpoint.name, endpoint.host or "*", port)
        return Endpoint(endpoint.name, advertised.host or "localhost", advertised.port, endpoint.security_protocol)

"""A broker behind its listeners: what `tailrace start` runs, and what tests and the simulator embed."""

import logging
from contextlib import AsyncExitStack
from dataclasses import dataclass

from tailrace.base.clock import Clock
from tailrace.base.undo import undone_on_failure
from tailrace.config.broker import BrokerConfig
from tailrace.config.listener import Endpoint
from tailrace.coordination.store import MetadataStore
from tailrace.machines.controller import record
from tailrace.runtime.background import BackgroundTasks
from tailrace.runtime.broker import Broker
from tailrace.runtime.opener import open_broker
from tailrace.server.dispatch import Dispatcher, Intercept
from tailrace.server.listener import Listeners
from tailrace.server.metric_listener import MetricListener
from tailrace.server.security.authorization import make_authorization
from tailrace.storage.fs import FileSystem

log = logging.getLogger("tailrace.server")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Server:
    """A broker that clients can reach."""

    broker: Broker
    listeners: Listeners
    endpoints: tuple[Endpoint, ...]  # what clients connect to, with the ports that the listeners got
    metrics_port: int | None  # None without `tailrace.metrics.listener`
    undo: AsyncExitStack

    async def stop(self) -> None:
        """Hand leadership over to other brokers, close the connections of clients, then close the logs cleanly."""
        await self.undo.aclose()


async def start_server(
    config: BrokerConfig,
    *,
    intercept: Intercept | None = None,
    fs: FileSystem | None = None,
    clock: Clock | None = None,
    store: MetadataStore | None = None,
) -> Server:
    """Open a broker and its listeners; clients may connect when this returns."""
    return await serve_broker(await open_broker(config, fs=fs, clock=clock, store=store), intercept=intercept)


async def serve_broker(broker: Broker, *, intercept: Intercept | None = None) -> Server:
    """Open the listeners of an open broker and have it join its cluster; stop the broker if that fails."""
    async with undone_on_failure() as undo:
        undo.push_async_callback(broker.stop)
        dispatcher = Dispatcher(broker, intercept, make_authorization(broker))
        undo.callback(dispatcher.audit.close)
        dispatcher.quotas.register(broker.metrics)
        listeners = Listeners(broker, dispatcher.serve)
        listeners.waiting.rates.register(broker.metrics)
        undo.push_async_callback(listeners.close)
        endpoints = await _open_listeners(broker, listeners)
        metrics_port = await _open_metrics(broker, undo)
        tasks = BackgroundTasks()
        undo.push_async_callback(tasks.stop)
        tasks.start(listeners.sweep_forever)
        tasks.start(listeners.guards.watch)
        # While other brokers take over, clients are still served.
        undo.push_async_callback(broker.leave)
        await broker.join()
        return Server(broker=broker, listeners=listeners, endpoints=endpoints, metrics_port=metrics_port, undo=undo)


async def _open_listeners(broker: Broker, listeners: Listeners) -> tuple[Endpoint, ...]:
    """Open all listeners and advertise each as soon as clients can connect to it."""
    endpoints: list[Endpoint] = []
    advertised: list[record.Endpoint] = []
    for listener in broker.config.broker_listeners:
        port = await listeners.open(listener)
        told = broker.config.advertised_listener(listener.name, port, default_host="")
        advertised.append(record.Endpoint(listener.name, told.host, told.port, listener.security_protocol))
        broker.advertise(advertised)
        log.info("listening for %s on %s:%d", listener.name, listener.host or "*", port)
        endpoints.append(Endpoint(listener.name, told.host or "localhost", told.port, listener.security_protocol))
    return tuple(endpoints)


async def _open_metrics(broker: Broker, undo: AsyncExitStack) -> int | None:
    address = broker.config.tailrace_metrics_listener
    if address is None:
        return None
    metrics = MetricListener(broker.metrics)
    undo.push_async_callback(metrics.close)
    port = await metrics.open(address)
    log.info("serving metrics on %s:%d", address.rpartition(":")[0] or "*", port)
    return port

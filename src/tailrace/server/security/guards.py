"""The guards of all listeners of a broker, made anew when their options or files change."""

import asyncio
import logging
from collections.abc import Callable

from tailrace.base.security_limits import SECURITY_FILE_CHECK_INTERVAL_S
from tailrace.config.error import ConfigError
from tailrace.config.listener import Endpoint
from tailrace.runtime.background import BackgroundTasks
from tailrace.runtime.broker import Broker
from tailrace.runtime.security_option import Origin
from tailrace.security.exchange import Identity
from tailrace.server.security.guard import ListenerGuard
from tailrace.server.security.session import SaslSession

log = logging.getLogger("tailrace.server")


class Guards:
    """The present guard of each listener. New connections and new logins get it; open connections keep their TLS."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._posts: dict[str, _Post] = {}

    def open(self, endpoint: Endpoint) -> None:
        """Guard a listener from now on, or raise `ConfigError`."""
        self._posts[endpoint.name] = _Post(ListenerGuard(endpoint, self._broker))
        guard = self[endpoint.name]
        if endpoint.is_loopback:
            return
        if not guard.is_authenticating:
            log.warning("listener %s accepts clients without authentication, and other machines can reach it", endpoint)
        elif guard.has_bare_passwords:
            log.warning("listener %s takes passwords by PLAIN without TLS, and other machines can reach it", endpoint)

    def __getitem__(self, listener_name: str) -> ListenerGuard:
        return self._posts[listener_name].guard

    def session(
        self, listener_name: str, logged_in: Callable[[Identity], None], refused: Callable[[str, str], None]
    ) -> SaslSession | None:
        """Return the login of a new connection; None if its listener has none."""
        guard = self[listener_name]
        if not guard.has_login:
            return None
        return SaslSession(
            lambda: self[listener_name].mechanisms,
            self._broker.clock,
            logged_in,
            refused,
            guard.limits.failure_delay_s,
        )

    async def watch(self) -> None:
        """Look for changed options and files at regular intervals."""
        while True:
            await asyncio.sleep(SECURITY_FILE_CHECK_INTERVAL_S)
            await self.refresh()

    async def refresh(self) -> None:
        """Make guards anew whose options or files have changed."""
        for name, post in self._posts.items():
            endpoint = post.guard.endpoint
            origin = Origin.of(self._broker.config.listener_security(endpoint))
            if origin == post.origin:
                continue
            post.origin = origin
            try:
                guard = ListenerGuard(endpoint, self._broker, post.guard)
            except ConfigError as error:
                log.error("listener %s goes on as before: %s", name, error)
                continue
            await post.replace(guard)
            log.info("listener %s has taken over its changed keys, certificates, users and options", name)

    async def close(self) -> None:
        """Stop what runs for the guards."""
        for post in self._posts.values():
            await post.upkeep.stop()


class _Post:
    """The guard of a listener, and what it was made from."""

    def __init__(self, guard: ListenerGuard) -> None:
        self.guard = guard
        self.origin = guard.origin
        self.upkeep = BackgroundTasks()
        self._start()

    async def replace(self, guard: ListenerGuard) -> None:
        await self.upkeep.stop()
        self.guard, self.origin = guard, guard.origin
        self._start()

    def _start(self) -> None:
        for run in self.guard.upkeep:
            self.upkeep.start(run)

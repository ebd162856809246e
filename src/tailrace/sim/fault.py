"""The faults of a simulation, chosen by the seed, and their repair."""

import asyncio
from collections.abc import Callable

from tailrace.sim.broker import SimBroker
from tailrace.sim.process import Life
from tailrace.sim.world import Client, World

Fault = Callable[[], None]
_QUIET_S = 0.3  # time for the first records to get through
_LOSS_SHARES = (0.05, 0.2, 0.5)


class Faults:
    """Injects a fault every few seconds."""

    lengths_s: tuple[float, ...] = (0.1, 2.0, 8.0, 20.0)
    down_s_max = 10.0

    def __init__(self, world: World, *, loses_power: bool, every_s: float) -> None:
        self._world = world
        self._loses_power = loses_power
        self._every_s = every_s
        self._is_over = False

    async def run(self, for_s: float) -> None:
        """Inject faults for `for_s` seconds, then heal everything."""
        loop, random = self._world.loop, self._world.random
        ends_s = loop.time() + for_s
        menu = self.menu()
        await asyncio.sleep(min(_QUIET_S, for_s))
        while (wait_s := random.expovariate(1 / self._every_s)) < ends_s - loop.time():
            await asyncio.sleep(wait_s)
            fault = random.choice(menu)
            self._world.count(fault.__name__.replace("_", " "))
            fault()
        await asyncio.sleep(max(0.0, ends_s - loop.time()))
        self.heal()

    def menu(self) -> list[Fault]:
        """Return the possible faults. A fault listed several times is more likely."""
        return [
            self.kill_broker,
            self.kill_broker,
            self.stop_broker,
            self.pause_broker,
            self.cut_client,
            self.cut_client,
            self.reset_connection,
            self.swallow_connection,
            self.lose_replies,
            self.lose_replies,
            self.hold_requests,
            self.hold_requests,
            self.hold_client,
            self.hold_client,
            self.kill_client,
            self.pause_client,
            self.shift_clock,
        ]

    def heal(self) -> None:
        """Mend every link, and resume every program."""
        self._is_over = self._world.is_healed = True
        self._world.note("heal")
        self._world.loop.network.mend_all()
        for broker in self._world.brokers:
            broker.heal_calls()
            broker.resume()
        self._keep_up()
        for client in self._world.clients:
            self._resume(client)

    def _keep_up(self) -> None:
        """Start brokers that are down, including those that were still stopping, or gave up."""
        for broker in self._world.brokers:
            self._start(broker)
        self._later(1.0, self._keep_up)

    # --- brokers

    def kill_broker(self) -> None:
        """Kill a broker between two steps or during a file system call, and start it again later."""
        broker, random = self._broker(), self._world.random
        wants_power_loss = random.random() < 0.5
        if random.random() < 0.5:
            is_power_loss = self.loses_power(broker, wants_power_loss)
            if is_power_loss is None:
                return
            self._world.note(f"{broker.host} {'loses power' if is_power_loss else 'is killed'}")
            broker.kill(is_power_loss=is_power_loss)
        else:
            call_count = random.choice([1, 3, 10, 30, 100])
            self._world.note(f"{broker.host} is to die in {call_count} calls")
            broker.kill_in_call(call_count, lambda: self.loses_power(broker, wants_power_loss))
        self._later(random.uniform(0.1, self.down_s_max), lambda: self._start(broker))

    def loses_power(self, broker: SimBroker, wants_power_loss: bool) -> bool | None:
        """Return whether a killed broker loses unsynced data; None if it must not die now."""
        return self._loses_power and wants_power_loss

    def stop_broker(self) -> None:
        """Stop a broker cleanly, and start it again."""
        broker = self._broker()
        self._world.note(f"{broker.host} is stopped")
        broker.stop()
        self._later(self._world.random.uniform(0.1, self.down_s_max), lambda: self._start(broker))

    def pause_broker(self) -> None:
        self._pause(self._broker())

    def _pause(self, broker: SimBroker, seconds: float | None = None) -> None:
        seconds = self._length_s() if seconds is None else seconds
        self._world.note(f"{broker.host} is paused for {seconds:g} s")
        broker.pause()
        self._later(seconds, broker.resume)

    def shift_clock(self) -> None:
        broker = self._broker()
        broker.clock.skew_ms += self._world.random.choice([-3_600_000, -5_000, 5_000, 3_600_000])
        self._world.note(f"the clock of {broker.host} is now {broker.clock.skew_ms} ms off")

    def _broker(self) -> SimBroker:
        return self._world.random.choice(self._world.brokers)

    def _start(self, broker: SimBroker) -> None:
        if not broker.is_up:
            self._world.note(f"{broker.host} starts")
            broker.start()
        elif self._is_over:
            return
        else:
            # It is still stopping, or the call in which it dies has not come yet; check again later.
            self._later(1.0, lambda: self._start(broker))

    # --- links and connections

    def cut_client(self) -> None:
        """Cut the link between a client and a broker, in one direction or both."""
        self._cut(self._world.random.choice(self._world.clients).host, self._broker().host)

    def _cut(self, one: str, other: str) -> None:
        random, network = self._world.random, self._world.loop.network
        directions = random.choice([[(one, other)], [(other, one)], [(one, other), (other, one)]])
        seconds = self._length_s()
        for source, target in directions:
            self._world.note(f"nothing gets from {source} to {target} for {seconds:g} s")
            network.cut(source, target)
            self._later(seconds, lambda source=source, target=target: network.mend(source, target))  # type: ignore[misc]

    def reset_connection(self) -> None:
        if transports := list(self._world.loop.network.transports):
            transport = self._world.random.choice(transports)
            self._world.note(f"the connection of {transport.local[0]} and {transport.remote[0]} is reset")
            transport.break_off()

    def swallow_connection(self) -> None:
        if transports := list(self._world.loop.network.transports):
            transport = self._world.random.choice(transports)
            self._world.note(f"the connection of {transport.local[0]} and {transport.remote[0]} goes silent")
            transport.swallow()

    def lose_replies(self) -> None:
        """Break the connections of a client in place of replies, again and again."""
        random, network = self._world.random, self._world.loop.network
        client, share, seconds = random.choice(self._world.clients).host, random.choice(_LOSS_SHARES), self._length_s()
        self._world.note(f"{client} loses {share:.0%} of all replies for {seconds:g} s")
        for broker in self._world.brokers:
            network.lose(broker.host, client, share)
            self._later(seconds, lambda source=broker.host: network.lose(source, client, 0.0))  # type: ignore[misc]

    def hold_requests(self) -> None:
        """Hold what a client sends on one connection, and deliver it late, perhaps after the client gave it up."""
        clients = {client.host for client in self._world.clients}
        found = [each for each in self._world.loop.network.transports if each.local[0] in clients]
        if found:
            transport, seconds = self._world.random.choice(found), self._length_s()
            self._world.note(f"what {transport.local} sends to {transport.remote[0]} is held for {seconds:g} s")
            transport.hold(seconds)

    def hold_client(self) -> None:
        """Hold all that a client sends on its connections, while connections that it opens meanwhile are quick."""
        client, seconds = self._client(), self._length_s()
        if client is not None:
            self._world.note(f"all that {client.host} has under way is held for {seconds:g} s")
            for transport in list(self._world.loop.network.transports):
                if transport.local[0] == client.host:
                    transport.hold(seconds)

    def _length_s(self) -> float:
        return self._world.random.choice(self.lengths_s)

    # --- clients

    def kill_client(self) -> None:
        if (client := self._client()) is not None:
            self._restart_client(client)

    def _restart_client(self, client: Client) -> None:
        self._world.note(f"{client.process.name} is killed and starts again")
        client.kill()
        client.start()

    def pause_client(self) -> None:
        if (client := self._client()) is not None:
            self._pause_client(client)

    def _pause_client(self, client: Client) -> None:
        process, seconds = client.process, self._length_s()
        self._world.note(f"{process.name} is paused for {seconds:g} s")
        process.life = Life.PAUSED
        self._later(seconds, lambda: self._resume(client))

    def _client(self) -> Client | None:
        """Return a running client."""
        running = [client for client in self._world.clients if client.process.life is Life.RUNNING]
        return self._world.random.choice(running) if running else None

    def _resume(self, client: Client) -> None:
        if client.process.life is Life.PAUSED:
            self._world.loop.resume(client.process)

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        self._world.loop.call_later(seconds, action)

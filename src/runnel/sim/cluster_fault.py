"""What goes wrong in a cluster: brokers among each other, and between them and the servers that keep the metadata."""

from collections.abc import Callable

from runnel.sim.fault import Fault, Faults
from runnel.sim.world import World
from runnel.sim.zookeeper import HOST, SimZookeeper


class ClusterFaults(Faults):
    """The faults of one broker, and those of several."""

    def __init__(
        self,
        world: World,
        zookeeper: SimZookeeper,
        *,
        may_lose_power: Callable[[int], bool],
        every_s: float,
    ) -> None:
        """`may_lose_power` says of a broker whether what it has not synced is safe on others."""
        super().__init__(world, loses_power=True, every_s=every_s)
        self._zookeeper = zookeeper
        self._may_lose_power = may_lose_power

    def menu(self) -> list[Fault]:
        return [
            *super().menu(),
            self.kill_broker,
            self.cut_brokers,
            self.cut_brokers,
            self.isolate_broker,
            self.cut_zookeeper,
            self.cut_zookeeper,
            self.stall_zookeeper,
            self.expire_session,
            self.break_session,
            self.break_after_commit,
        ]

    def heal(self) -> None:
        self._zookeeper.resume()
        super().heal()

    def loses_power(self, broker_id: int) -> bool:
        return self._may_lose_power(broker_id) and self._world.random.random() < 0.5

    def cut_brokers(self) -> None:
        """Cut two brokers off from each other, in one direction or both."""
        one, other = self._world.random.sample(self._world.brokers, 2)
        self._cut(one.host, other.host)

    def isolate_broker(self) -> None:
        """Cut a broker off from all others, but neither from clients nor from the metadata."""
        alone = self._broker()
        for other in self._world.brokers:
            if other is not alone:
                self._cut(alone.host, other.host)

    def cut_zookeeper(self) -> None:
        self._cut(self._broker().host, HOST)

    def stall_zookeeper(self) -> None:
        seconds = self._world.random.choice([1.0, 5.0, 15.0])
        self._world.note(f"the metadata servers stall for {seconds:g} s")
        self._zookeeper.stall()
        self._later(seconds, self._zookeeper.resume)

    def expire_session(self) -> None:
        if session_ids := self._zookeeper.session_ids:
            session_id = self._world.random.choice(session_ids)
            self._world.note(f"session {session_id} expires")
            self._zookeeper.expire(session_id)

    def break_session(self) -> None:
        if session_ids := self._zookeeper.session_ids:
            session_id = self._world.random.choice(session_ids)
            self._world.note(f"the connection of session {session_id} breaks")
            self._zookeeper.break_connection(session_id)

    def break_after_commit(self) -> None:
        self._world.note("the next commit is done and its answer lost")
        self._zookeeper.breaks_after_commit = True

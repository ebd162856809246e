"""A connection to another broker of the cluster."""

from runnel.base.limits import PEER_CONNECT_MS
from runnel.client.address import Address
from runnel.client.connection import Connection
from runnel.client.error import BrokerUnavailable
from runnel.machines.controller.image import ClusterImage


class Peer:
    """Another broker, found by its id in the image and connected to when it is needed."""

    def __init__(self, image: ClusterImage, broker_id: int, listener_name: str, client_id: str) -> None:
        """`listener_name` is the listener by which brokers talk to each other."""
        self.broker_id = broker_id
        self._image = image
        self._listener_name = listener_name
        self._client_id = client_id
        self._connection: Connection | None = None

    @property
    def address(self) -> Address | None:
        """Where the broker is; None if it is not there or has no listener for other brokers."""
        broker = self._image.brokers.get(self.broker_id)
        for endpoint in () if broker is None else broker.endpoints:
            if endpoint.listener == self._listener_name:
                return Address(endpoint.host or "localhost", endpoint.port)
        return None

    async def connect(self) -> Connection:
        """The connection, a new one where there is none; raises `BrokerUnavailable` among others."""
        address = self.address
        if address is None:
            is_there = self.broker_id in self._image.brokers
            reason = (
                f"has no listener {self._listener_name}, as this broker has for others" if is_there else "is not there"
            )
            raise BrokerUnavailable(f"broker {self.broker_id} {reason}")
        connection = self._connection
        if connection is not None and connection.is_open and connection.address == address:
            return connection
        await self.close()
        self._connection = await Connection.open(address, client_id=self._client_id, request_timeout_ms=PEER_CONNECT_MS)
        return self._connection

    async def close(self) -> None:
        """Let go of the connection; whoever waits for an answer on it hears of that."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

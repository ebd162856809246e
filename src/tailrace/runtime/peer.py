"""A connection to another broker of the cluster."""

from tailrace.base.limits import PEER_CONNECT_MS
from tailrace.client.address import Address
from tailrace.client.connection import Connection
from tailrace.client.error import AuthenticationError, BrokerUnavailable
from tailrace.machines.controller.image import ClusterImage
from tailrace.runtime.peer_route import PeerRoute


class Peer:
    """Another broker, found in the image by its id; the connection is opened on first use."""

    def __init__(self, image: ClusterImage, broker_id: int, route: PeerRoute, client_id: str) -> None:
        self.broker_id = broker_id
        self._image = image
        self._route = route
        self._client_id = client_id
        self._connection: Connection | None = None

    @property
    def address(self) -> Address | None:
        """The address of the broker; None if it is not registered or has no such listener."""
        broker = self._image.brokers.get(self.broker_id)
        for endpoint in () if broker is None else broker.endpoints:
            if endpoint.listener == self._route.listener_name:
                return Address(endpoint.host or "localhost", endpoint.port)
        return None

    async def connect(self) -> Connection:
        """Return the connection, opened if necessary; raise `BrokerUnavailable` among others."""
        address = self.address
        if address is None:
            is_there = self.broker_id in self._image.brokers
            reason = (
                f"has no listener {self._route.listener_name}, which inter.broker.listener.name of this broker names"
                if is_there
                else "is not registered"
            )
            raise BrokerUnavailable(f"broker {self.broker_id} {reason}")
        connection = self._connection
        if connection is not None and connection.is_open and connection.address == address:
            return connection
        await self.close()
        try:
            self._connection = await Connection.open(
                address,
                client_id=self._client_id,
                request_timeout_ms=PEER_CONNECT_MS,
                security=self._route.security(),
            )
        except AuthenticationError as error:
            # A user may be added, or a certificate be renewed, while brokers go on trying.
            raise BrokerUnavailable(f"cannot log in to broker {self.broker_id}: {error}") from None
        return self._connection

    async def close(self) -> None:
        """Close the connection; requests that wait for an answer fail."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

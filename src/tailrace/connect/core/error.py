"""The error that a request is answered with."""

from collections.abc import Mapping


class ConnectError(Exception):
    """A request that cannot be served, with its HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def no_connector_type(config: Mapping[str, str]) -> ConnectError:
    """Return the error for a config without a plugin, which Kafka Connect shows as Java shows a map."""
    shown = ", ".join(f"{name}={value}" for name, value in config.items())
    return ConnectError(400, f"Connector config {{{shown}}} contains no connector type")

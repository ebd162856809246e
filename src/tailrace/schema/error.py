"""Errors of the registry's client and of the codecs."""

from tailrace.client.error import ClientError


class RegistryError(ClientError):
    """The registry refused a request. `status` is HTTP's, `code` is the registry's own."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(f"{message} (registry error {code})")
        self.status = status
        self.code = code
        self.message = message


class RegistryUnavailable(ClientError):
    """No registry gave a usable answer. A retry may succeed."""


class CodecError(ClientError):
    """A key or value that cannot be encoded or decoded. The message says why."""

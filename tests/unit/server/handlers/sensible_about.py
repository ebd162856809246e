"""What a sensible request is about, and the table of those who build one."""

from collections.abc import Callable
from typing import NamedTuple
from uuid import UUID

from tailrace.protocol.api_key import ApiKey
from tailrace.protocol.message import Message


class About(NamedTuple):
    """The version, and the topic that a request is about."""

    version: int
    topic_id: UUID
    name: str

    def apart(self, prefix: str) -> str:
        """A topic for this version alone, because the request changes it; a topic that is not there stays itself."""
        return f"{prefix}-{self.version}" if self.name == "t" else self.name


Build = Callable[[About], Message]
BUILDERS: dict[int, Build] = {}


def builds(key: ApiKey) -> Callable[[Build], Build]:
    """Have a function build the requests of an API."""

    def enter(build: Build) -> Build:
        BUILDERS[key] = build
        return build

    return enter

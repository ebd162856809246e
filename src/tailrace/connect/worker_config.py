"""The properties file of a Kafka Connect worker, as far as it concerns this service."""

from dataclasses import dataclass, field
from pathlib import Path

from tailrace.client.security.setting import IGNORED, SecuritySettings
from tailrace.config.properties import read_properties

_CONVERTERS = ("key.converter", "value.converter", "header.converter")
_PLACES = {
    "bootstrap.servers": "bootstrap_servers",
    "group.id": "group_id",
    "config.storage.topic": "config_topic",
    "status.storage.topic": "status_topic",
    "offset.storage.topic": "offset_topic",
    "listeners": "listeners",
}
_WITHOUT_EFFECT = frozenset(
    {
        "config.storage.replication.factor",
        "offset.flush.interval.ms",
        "offset.storage.partitions",
        "offset.storage.replication.factor",
        "plugin.path",
        "status.storage.partitions",
        "status.storage.replication.factor",
    }
)
"""Settings of Kafka's own example file that ask for nothing that this service does otherwise."""


class WorkerConfigError(Exception):
    """A properties file that cannot be used. The message says which line, and why."""


@dataclass(slots=True)
class WorkerConfig:
    """What a properties file sets; an empty text is not set."""

    bootstrap_servers: str = ""
    group_id: str = ""
    config_topic: str = ""
    status_topic: str = ""
    offset_topic: str = ""
    listeners: str = ""
    converters: dict[str, str] = field(default_factory=dict)
    client: dict[str, str] = field(default_factory=dict, repr=False)
    """Configs of TLS and SASL, for all clients of the service."""

    @property
    def listen(self) -> str:
        """The address of the listener; raises `WorkerConfigError` if it is not a plain one."""
        scheme, _, address = self.listeners.rpartition("://")
        if scheme.lower() not in ("", "http") or "," in address:
            raise WorkerConfigError(f"listeners is one address such as http://127.0.0.1:8083, not {self.listeners}")
        return f"127.0.0.1{address}" if address.startswith(":") else address


def _security_name(name: str) -> str | None:
    """Return the client's config of TLS or SASL that a name sets, for the worker or its clients; None for others."""
    for prefix in ("", "producer.", "consumer.", "admin."):
        given = name.removeprefix(prefix)
        if name.startswith(prefix) and (given in SecuritySettings.options or given in IGNORED):
            return given
    return None


def read_worker_config(path: Path) -> WorkerConfig:
    """Read a file; raises `WorkerConfigError` that names what cannot be honoured."""
    found = WorkerConfig()
    for each in read_properties(path):
        if each.name in _PLACES:
            setattr(found, _PLACES[each.name], each.value)
        elif each.name in _CONVERTERS or each.name.startswith(tuple(f"{name}." for name in _CONVERTERS)):
            found.converters[each.name] = each.value
        elif (name := _security_name(each.name)) is not None:
            if found.client.setdefault(name, each.value) != each.value:
                problem = f"{name} has two values; the service and its connectors log in with one"
                raise WorkerConfigError(f"{path.name}, line {each.line}: {problem}")
        elif each.name not in _WITHOUT_EFFECT:
            raise WorkerConfigError(
                f"{path.name}, line {each.line}: {each.name} is not supported by this service; remove it"
            )
    return found

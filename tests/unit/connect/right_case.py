"""One request for each route of the Connect service, and the right that it needs."""

from typing import Any, NamedTuple

LOGIN = "login"
"""Every user may send the request."""
NAME = "pay"
SECRET = "password-of-the-database"  # noqa: S105 - it exists in a test only
SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"


def config(topic: str, name: str = NAME) -> dict[str, str]:
    return {"name": name, "connector.class": SOURCE, "file": f"/data/{SECRET}", "topic": topic}


def sink(topics: str) -> dict[str, str]:
    return {"name": NAME, "connector.class": SINK, "file": f"/data/{SECRET}", "topics": topics}


class Case(NamedTuple):
    """A request, and the right that it needs: an operation on the group `connect-pay`, or on the cluster."""

    method: str
    route: str
    path: str
    needs: str
    body: Any = None


_C = "/connectors/{connector}"
_P = f"/connectors/{NAME}"
_OFFSETS = {"offsets": [{"partition": {"filename": "x"}, "offset": {"position": 1}}]}
_DEAD_LETTERS = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "foreign"}
_LOGGER = "/admin/loggers/tailrace.connect"

CASES = [
    Case("GET", "/", "/", LOGIN),
    Case("GET", "/health", "/health", LOGIN),
    Case("GET", "/metrics", "/metrics", "cluster describe"),
    Case("GET", "/admin/loggers", "/admin/loggers", "cluster describe_configs"),
    Case("GET", "/admin/loggers/{logger}", _LOGGER, "cluster describe_configs"),
    Case("PUT", "/admin/loggers/{logger}", _LOGGER, "cluster alter_configs", {"level": "INFO"}),
    Case("GET", "/connector-plugins", "/connector-plugins", LOGIN),
    Case("GET", "/connector-plugins/{plugin}/config", "/connector-plugins/FileStreamSource/config", LOGIN),
    Case(
        "PUT",
        "/connector-plugins/{plugin}/config/validate",
        "/connector-plugins/FileStreamSource/config/validate",
        "alter_configs",
        config("free"),
    ),
    Case(
        "PUT",
        "/connector-plugins/{plugin}/config/validate",
        "/connector-plugins/FileStreamSource/config/validate",
        "none",
        {"connector.class": SOURCE},
    ),
    Case("GET", "/connectors", "/connectors", LOGIN),
    Case("GET", "/connectors", "/connectors?expand=info&expand=status", LOGIN),
    Case("POST", "/connectors", "/connectors", "alter_configs", {"name": NAME, "config": config("free")}),
    Case("POST", "/connectors", "/connectors", "none", {"name": NAME, "config": config("foreign")}),
    Case("GET", _C, _P, "describe_configs"),
    Case("GET", f"{_C}/config", f"{_P}/config", "describe_configs"),
    Case("PUT", f"{_C}/config", f"{_P}/config", "alter_configs", config("free")),
    Case("PUT", f"{_C}/config", f"{_P}/config", "none", config("foreign")),
    Case("PUT", f"{_C}/config", f"{_P}/config", "none", sink("free,foreign")),
    Case("PUT", f"{_C}/config", f"{_P}/config", "none", sink("free") | _DEAD_LETTERS),
    Case("PATCH", f"{_C}/config", f"{_P}/config", "alter_configs", {"tasks.max": "1"}),
    Case("PATCH", f"{_C}/config", f"{_P}/config", "none", {"topic": "foreign"}),
    Case("GET", f"{_C}/status", f"{_P}/status", "describe"),
    Case("GET", f"{_C}/tasks", f"{_P}/tasks", "describe_configs"),
    Case("GET", f"{_C}/tasks/{{task}}/status", f"{_P}/tasks/0/status", "describe"),
    Case("GET", f"{_C}/topics", f"{_P}/topics", "describe"),
    Case("PUT", f"{_C}/topics/reset", f"{_P}/topics/reset", "alter_configs"),
    Case("GET", f"{_C}/offsets", f"{_P}/offsets", "describe"),
    Case("PATCH", f"{_C}/offsets", f"{_P}/offsets", "alter_configs", _OFFSETS),
    Case("DELETE", f"{_C}/offsets", f"{_P}/offsets", "alter_configs"),
    Case("PUT", f"{_C}/stop", f"{_P}/stop", "alter_configs"),
    Case("PUT", f"{_C}/resume", f"{_P}/resume", "alter_configs"),
    Case("POST", f"{_C}/restart", f"{_P}/restart", "alter_configs"),
    Case("POST", f"{_C}/tasks/{{task}}/restart", f"{_P}/tasks/0/restart", "alter_configs"),
    Case("PUT", f"{_C}/pause", f"{_P}/pause", "alter_configs"),
    Case("DELETE", _C, f"{_P}?last", "delete"),
]
"""The last case removes the connector."""

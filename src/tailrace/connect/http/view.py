"""Connectors as the REST API shows them."""

from typing import Any

from tailrace.connect.core.error import ConnectError
from tailrace.connect.core.record import Status
from tailrace.connect.core.state import Connector
from tailrace.connect.service import ConnectService


def show_info(service: ConnectService, connector: Connector) -> dict[str, Any]:
    """Return the config of a connector and its tasks."""
    return {
        "name": connector.name,
        "config": connector.config,
        "tasks": [{"connector": connector.name, "task": index} for index in range(len(connector.tasks))],
        "type": show_type(service, connector),
    }


def show_type(service: ConnectService, connector: Connector) -> str:
    """Return whether a connector is a source or a sink."""
    plugin = service.plugin_of(connector)
    return "unknown" if plugin is None else str(plugin.kind)


def show_status(service: ConnectService, connector: Connector) -> dict[str, Any]:
    """Return the states of a connector and its tasks; raises `ConnectError` if there are none yet."""
    status = service.board.connector(connector.name)
    if status is None:
        raise ConnectError(404, f"No status found for connector {connector.name}")
    tasks = service.board.tasks(connector.name)
    return {
        "name": connector.name,
        "connector": _show(service, connector, status),
        "tasks": [show_task(service, connector, index, task) for index, task in sorted(tasks.items())],
        "type": show_type(service, connector),
    }


def show_task(service: ConnectService, connector: Connector, index: int, status: Status) -> dict[str, Any]:
    """Return the state of a task."""
    return {"id": index, **_show(service, connector, status)}


def _show(service: ConnectService, connector: Connector, status: Status) -> dict[str, Any]:
    plugin = service.plugin_of(connector)
    shown: dict[str, Any] = {"state": str(status.phase), "worker_id": status.worker_id}
    if status.trace is not None:
        shown["trace"] = status.trace
    if plugin is not None:
        shown["version"] = plugin.version
    return shown

"""What the service tells of itself: its version, its health, its metrics and the levels of its loggers."""

import logging
import time
from importlib.metadata import version as package_version
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from pydantic import BaseModel

from tailrace.connect.core.error import ConnectError
from tailrace.connect.core.record import logger_row
from tailrace.connect.http.call import Scalar, read_name, service_of
from tailrace.connect.http.metric import render
from tailrace.web.body import BoundedRoute

router = APIRouter(tags=["Service"], route_class=BoundedRoute)

_ROOT = "root"
_LEVELS = {
    "OFF": logging.CRITICAL + 10,
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": logging.DEBUG - 5,
}


class NewLevel(BaseModel):
    """The level to set."""

    level: Scalar = None


@router.get("/")
async def root(request: Request) -> Any:
    """Return the version of the service and the id of the cluster that it works for."""
    version = package_version("tailrace")
    return {"version": version, "commit": "", "kafka_cluster_id": service_of(request).store.cluster_id}


@router.get("/health")
async def health(request: Request) -> Any:
    """Return whether the brokers answer. The service answers requests only after it has read its topics."""
    if await service_of(request).health.is_healthy():
        return {"status": "healthy", "message": "Worker has completed startup and is ready to handle requests."}
    message = "Worker was unable to handle this request and may be unable to handle other requests."
    return JSONResponse({"status": "unhealthy", "message": f"{message} The brokers do not answer."}, 500)


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(request: Request) -> Response:
    """Return the metrics of the service in the text format of Prometheus."""
    return Response(render(service_of(request), request.app.state.counters), media_type="text/plain; version=0.0.4")


@router.get("/admin/loggers")
async def list_loggers(request: Request) -> Any:
    """Return the levels of all loggers that have one."""
    changed: dict[str, int] = request.app.state.changed_levels
    names = [_ROOT, *sorted(logging.root.manager.loggerDict)]
    levels = {name: logging.getLogger(None if name == _ROOT else name).level for name in names}
    return {name: _show(level, changed.get(name)) for name, level in levels.items() if level != logging.NOTSET}


@router.get("/admin/loggers/{logger}")
async def get_logger(request: Request, logger: str) -> Any:
    """Return the level of a logger, or the one that it inherits."""
    name = read_name(logger)
    if name != _ROOT and name not in logging.root.manager.loggerDict:
        raise ConnectError(404, f"Logger {name} not found.")
    level = logging.getLogger(None if name == _ROOT else name).getEffectiveLevel()
    return _show(level, request.app.state.changed_levels.get(name))


@router.put("/admin/loggers/{logger}")
async def set_logger(request: Request, logger: str, new: NewLevel, scope: Annotated[str, Query()] = "worker") -> Any:
    """Set the level of a logger and of those below it; scope=cluster notes it for later services."""
    name = read_name(logger)
    if new.level is None:
        raise ConnectError(400, "Desired 'level' parameter was not specified in request.")
    level = str(new.level).upper()
    if level not in _LEVELS:
        raise ConnectError(404, f"invalid log level '{new.level}'.")
    changed: dict[str, int] = request.app.state.changed_levels
    names = set_level(name, level, changed)
    if scope == "cluster":
        await service_of(request).store.append([logger_row(name, level)])
        return Response(status_code=204)
    return JSONResponse(names)


def set_level(name: str, level: str, changed: dict[str, int]) -> list[str]:
    """Set the level of a logger and of those below it; returns their names."""
    number = _LEVELS.get(level, logging.INFO)
    below = [each for each in logging.root.manager.loggerDict if name == _ROOT or each.startswith(f"{name}.")]
    names = sorted({name, *below})
    for each in names:
        logging.getLogger(None if each == _ROOT else each).setLevel(number)
        changed[each] = int(time.time() * 1000)
    return names


def _show(level: int, changed_at_ms: int | None) -> dict[str, Any]:
    names = {number: name for name, number in _LEVELS.items()}
    return {"level": names.get(level, logging.getLevelName(level)), "last_modified": changed_at_ms}

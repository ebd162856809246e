"""Connectors: their configs, states, tasks and topics."""

import contextlib
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, model_validator

from tailrace.connect.core.error import ConnectError
from tailrace.connect.core.record import Target
from tailrace.connect.http.call import Scalar, clean_name, is_true, read_config, read_name, service_of
from tailrace.connect.http.right import require, require_topics, visible
from tailrace.connect.http.view import show_info, show_status, show_task
from tailrace.connect.plugin.connector_setting import NAME
from tailrace.protocol.acl_code import Operation
from tailrace.web.body import BoundedRoute
from tailrace.web.edge import CHANGE
from tailrace.web.member import Members

router = APIRouter(prefix="/connectors", tags=["Connectors"], route_class=BoundedRoute)

Task = Annotated[int, Path(ge=-(2**31), lt=2**31)]

_VIEWS = {"info": (show_info, Operation.DESCRIBE_CONFIGS), "status": (show_status, Operation.DESCRIBE)}
"""What a list can show of each connector, and the right that it takes."""
_INITIAL_STATES = {"RUNNING": Target.STARTED, "PAUSED": Target.PAUSED, "STOPPED": Target.STOPPED}


class NewConnector(BaseModel):
    """A connector to create."""

    model_config = ConfigDict(extra="forbid")

    name: Scalar = None
    config: Members[Scalar]
    initial_state: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _keep_one_unknown(cls, given: Any) -> Any:
        """Leave out all unknown members but the first, because each makes an error."""
        if not isinstance(given, dict):
            return given
        unknown = [name for name in given if name not in cls.model_fields]
        return {name: given[name] for name in given if name in cls.model_fields or name in unknown[:1]}


@router.get("")
async def list_connectors(request: Request, expand: Annotated[list[str] | None, Query()] = None) -> Any:
    """Return the names of all connectors, or with expand=info or expand=status more about each."""
    service = service_of(request)
    names = await visible(request, service.state.names, Operation.DESCRIBE)
    if not expand:
        return names
    found: dict[str, dict[str, Any]] = {name: {} for name in names}
    for kind, (view, operation) in _VIEWS.items():
        for name in await visible(request, names, operation) if kind in expand else ():
            with contextlib.suppress(ConnectError):  # it is gone, or has no status yet
                found[name][kind] = view(service, service.find(name))
    return found


@router.post("", status_code=201)
async def create(request: Request, new: NewConnector) -> Any:
    """Create a connector."""
    config = read_config(new.config)
    name = clean_name(new.name)
    request.scope[CHANGE] = f"/connectors/{quote(name)}"
    await require(request, Operation.ALTER_CONFIGS, name)
    _check_same(config, name)
    await require_topics(request, name, config)
    target = Target.STARTED if new.initial_state is None else _INITIAL_STATES.get(new.initial_state.upper())
    if target is None:
        raise ConnectError(400, f"initial_state is {', '.join(_INITIAL_STATES)}, not {new.initial_state}")
    service = service_of(request)
    connector = await service.create(name, config, target)
    return JSONResponse(show_info(service, connector), 201, headers={"location": f"/connectors/{quote(name)}"})


@router.get("/{connector}")
async def get_connector(request: Request, connector: str) -> Any:
    """Return the config and the tasks of a connector."""
    service = service_of(request)
    return show_info(service, service.find(read_name(connector)))


@router.delete("/{connector}", status_code=204, response_class=Response)
async def delete(request: Request, connector: str) -> None:
    """Stop and remove a connector."""
    await service_of(request).delete(read_name(connector))


@router.get("/{connector}/config")
async def get_config(request: Request, connector: str) -> Any:
    """Return the config of a connector."""
    return service_of(request).find(read_name(connector)).config


@router.put("/{connector}/config")
async def put_config(request: Request, connector: str, config: Members[Scalar]) -> Any:
    """Set the config of a connector, which is created if there is none of that name."""
    name = clean_name(read_name(connector))
    return await _set_config(request, name, read_config(config))


@router.patch("/{connector}/config")
async def patch_config(request: Request, connector: str, changes: Members[Scalar]) -> Any:
    """Change some settings of a connector; null removes one."""
    name = read_name(connector)
    config = dict(service_of(request).find(name).config)
    for setting, value in changes.items():
        if value is None:
            config.pop(setting, None)
    return await _set_config(request, name, {**config, **read_config(changes)})


async def _set_config(request: Request, name: str, config: dict[str, str]) -> Any:
    _check_same(config, name)
    await require_topics(request, name, config)
    service = service_of(request)
    connector, is_new = await service.put_config(name, config)
    return JSONResponse(show_info(service, connector), 201 if is_new else 200)


def _check_same(config: dict[str, str], name: str) -> None:
    given = config.get(NAME, name)
    if given != name:
        raise ConnectError(
            400, f"Connector name configuration ({given}) doesn't match connector name in the URL ({name})"
        )


# --- states


@router.get("/{connector}/status")
async def status(request: Request, connector: str) -> Any:
    """Return the states of a connector and its tasks."""
    service = service_of(request)
    return show_status(service, service.find(read_name(connector), "No status found for connector {}"))


@router.put("/{connector}/pause", status_code=202, response_class=Response)
async def pause(request: Request, connector: str) -> None:
    """Stop the application of a connector, and keep its tasks."""
    await service_of(request).set_target(read_name(connector), Target.PAUSED)


@router.put("/{connector}/resume", status_code=202, response_class=Response)
async def resume(request: Request, connector: str) -> None:
    """Run a connector that was paused or stopped."""
    await service_of(request).set_target(read_name(connector), Target.STARTED)


@router.put("/{connector}/stop", status_code=204, response_class=Response)
async def stop(request: Request, connector: str) -> None:
    """Stop a connector and remove its tasks, so that its offsets can be altered."""
    await service_of(request).set_target(read_name(connector), Target.STOPPED)


@router.post("/{connector}/restart", status_code=202)
async def restart(
    request: Request,
    connector: str,
    include_tasks: Annotated[str, Query(alias="includeTasks")] = "false",
    only_failed: Annotated[str, Query(alias="onlyFailed")] = "false",
) -> Any:
    """Start a connector anew. Connector and task are one application here, so both are restarted."""
    service, name = service_of(request), read_name(connector)
    await service.restart(name, only_failed=is_true(only_failed))
    if not is_true(include_tasks) and not is_true(only_failed):
        return Response(status_code=204)
    return JSONResponse(show_status(service, service.find(name)), 202)


# --- tasks


@router.get("/{connector}/tasks")
async def list_tasks(request: Request, connector: str) -> Any:
    """Return the configs of a connector's tasks."""
    found = service_of(request).find(read_name(connector))
    return [{"id": {"connector": found.name, "task": index}, "config": task} for index, task in enumerate(found.tasks)]


@router.get("/{connector}/tasks/{task}/status")
async def task_status(request: Request, connector: str, task: Task) -> Any:
    """Return the state of a task."""
    service, name = service_of(request), read_name(connector)
    state = service.board.tasks(name).get(task)
    if state is None:
        raise ConnectError(404, f"No status found for task {name}-{task}")
    return show_task(service, service.find(name), task, state)


@router.post("/{connector}/tasks/{task}/restart", status_code=204, response_class=Response)
async def restart_task(request: Request, connector: str, task: Task) -> None:
    """Start a task anew."""
    service, name = service_of(request), read_name(connector)
    if task not in range(len(service.find(name, "Unknown connector: {}").tasks)):
        raise ConnectError(404, f"Unknown task: {name}-{task}")
    await service.restart(name, only_failed=False)


# --- topics


@router.get("/{connector}/topics")
async def topics(request: Request, connector: str) -> Any:
    """Return the topics that a connector has used since it was created, or since they were reset."""
    service, name = service_of(request), read_name(connector)
    return {name: {"topics": sorted(service.state.topics.get(name, {}))}}


@router.put("/{connector}/topics/reset", status_code=202, response_class=Response)
async def reset_topics(request: Request, connector: str) -> None:
    """Forget which topics a connector has used."""
    await service_of(request).forget_topics(read_name(connector))

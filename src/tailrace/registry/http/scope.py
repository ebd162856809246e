"""Configs and modes, of a subject, of a context, or of everything; and the contexts themselves."""

from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from tailrace.registry.core import removal, scope
from tailrace.registry.core.entity import Config, Int32, Level, Mode
from tailrace.registry.core.error import Code, RegistryError, subject_not_found
from tailrace.registry.core.parser import SchemaParser
from tailrace.registry.core.record import Change
from tailrace.registry.core.state import DEFAULT_CONFIG, State, with_level
from tailrace.registry.core.subject import GLOBAL_CONTEXT, context_of
from tailrace.registry.http.call import answer, check_subject, page, read_config_scope, registry_of, write
from tailrace.registry.http.model import ConfigAnswer, ConfigRequest, Flag, ModeAnswer, ModeRequest
from tailrace.registry.http.right import readable_contexts
from tailrace.registry.http.subject import check_rules
from tailrace.schema.language import CompatibilityPolicy
from tailrace.web.body import BoundedRoute

router = APIRouter(tags=["Configs and modes"], route_class=BoundedRoute)

_LEVELS = "NONE, BACKWARD, FORWARD, FULL, BACKWARD_TRANSITIVE, FORWARD_TRANSITIVE, and FULL_TRANSITIVE"


def _is_top(name: str | None) -> bool:
    return name is None or context_of(name) == GLOBAL_CONTEXT


# --- configs


@router.get("/config", response_model=ConfigAnswer)
async def find_config(
    request: Request, default_to_global: Annotated[Flag, Query(alias="defaultToGlobal")] = False
) -> Response:
    """Return the config that holds everywhere."""
    return _config(request, None, default_to_global=default_to_global)


@router.get("/config/{subject}", response_model=ConfigAnswer)
async def find_subject_config(
    request: Request, subject: str, default_to_global: Annotated[Flag, Query(alias="defaultToGlobal")] = False
) -> Response:
    """Return the config of a subject or a context."""
    return _config(request, read_config_scope(subject), default_to_global=default_to_global)


def _config(request: Request, name: str | None, *, default_to_global: bool) -> Response:
    state = registry_of(request).state
    if default_to_global:
        return answer(state.config(name).to_json())
    own = state.configs.get(name, DEFAULT_CONFIG if _is_top(name) else None)
    if own is None:
        raise RegistryError(
            Code.SUBJECT_CONFIG_NOT_SET, f"Subject '{name}' does not have subject-level compatibility configured"
        )
    return answer(with_level(own).to_json())


@router.put("/config", response_model=ConfigRequest)
async def change_config(request: Request, body: ConfigRequest) -> Response:
    """Change the config that holds everywhere."""
    return await _change_config(request, None, body)


@router.put("/config/{subject}", response_model=ConfigRequest)
async def change_subject_config(request: Request, subject: str, body: ConfigRequest) -> Response:
    """Change the config of a subject or a context."""
    return await _change_config(request, read_config_scope(subject), body)


async def _change_config(request: Request, name: str | None, body: ConfigRequest) -> Response:
    changed = _read_config(body)
    for rules in (body.default_rule_set, body.override_rule_set):
        check_rules(rules)
    if name is not None:
        check_subject(name, is_scope=True)

    def decide(state: State, _parser: SchemaParser) -> tuple[tuple[Change, ...], Config]:
        return scope.update_config(state, name, changed)

    written = await write(request, decide)
    if isinstance(written, Response):
        return written
    members = written.to_json()
    level = members.pop("compatibilityLevel", None)
    return answer(members if level is None else {**members, "compatibility": level})


def _read_config(body: ConfigRequest) -> dict[str, Any]:
    changed = {name: getattr(body, name) for name in body.model_fields_set if name != "compatibility"}
    if "compatibility" in body.model_fields_set:
        changed["compatibility_level"] = _read_level(body.compatibility)
    if changed.get("compatibility_policy") is not None:
        try:
            changed["compatibility_policy"] = CompatibilityPolicy(changed["compatibility_policy"].upper())
        except ValueError:
            raise RegistryError(
                Code.INVALID_COMPATIBILITY, "Invalid compatibility policy. Valid values are STRICT and LENIENT"
            ) from None
    return changed


def _read_level(name: str | None) -> Level | None:
    try:
        return None if name is None else Level(name.upper())
    except ValueError:
        raise RegistryError(
            Code.INVALID_COMPATIBILITY, f"Invalid compatibility level. Valid values are {_LEVELS}"
        ) from None


@router.delete("/config", response_model=ConfigAnswer)
async def delete_config(request: Request) -> Response:
    """Remove the config that holds everywhere, so that the defaults hold again."""
    return await _delete_config(request, None)


@router.delete("/config/{subject}", response_model=ConfigAnswer)
async def delete_subject_config(request: Request, subject: str) -> Response:
    """Remove the config of a subject or a context."""
    return await _delete_config(request, read_config_scope(subject))


async def _delete_config(request: Request, name: str | None) -> Response:
    def decide(state: State, _parser: SchemaParser) -> tuple[tuple[Change, ...], dict[str, Any]]:
        own = state.configs.get(name, DEFAULT_CONFIG if _is_top(name) else None)
        if own is None:
            raise subject_not_found(name or "")
        return scope.delete_config(state, name), with_level(own).to_json()

    return answer(await write(request, decide))


# --- modes


@router.get("/mode", response_model=ModeAnswer)
async def find_mode(
    request: Request, default_to_global: Annotated[Flag, Query(alias="defaultToGlobal")] = False
) -> Response:
    """Return the mode that holds everywhere."""
    return _mode(request, None, default_to_global=default_to_global)


@router.get("/mode/{subject}", response_model=ModeAnswer)
async def find_subject_mode(
    request: Request, subject: str, default_to_global: Annotated[Flag, Query(alias="defaultToGlobal")] = False
) -> Response:
    """Return the mode of a subject or a context."""
    return _mode(request, read_config_scope(subject), default_to_global=default_to_global)


def _mode(request: Request, name: str | None, *, default_to_global: bool) -> Response:
    state = registry_of(request).state
    own = state.mode(name) if default_to_global else _own_mode(state, name)
    if own is None:
        raise RegistryError(Code.SUBJECT_MODE_NOT_SET, f"Subject '{name}' does not have subject-level mode configured")
    return answer({"mode": own})


def _own_mode(state: State, name: str | None) -> Mode | None:
    return state.modes.get(name, Mode.READWRITE if _is_top(name) else None)


@router.put("/mode", response_model=ModeAnswer)
async def change_mode(request: Request, body: ModeRequest, force: Flag = False) -> Response:
    """Change the mode that holds everywhere."""
    return await _change_mode(request, None, body, force=force)


@router.put("/mode/{subject}", response_model=ModeAnswer)
async def change_subject_mode(request: Request, subject: str, body: ModeRequest, force: Flag = False) -> Response:
    """Change the mode of a subject or a context."""
    return await _change_mode(request, read_config_scope(subject), body, force=force)


async def _change_mode(request: Request, name: str | None, body: ModeRequest, *, force: bool) -> Response:
    if name is not None:
        check_subject(name, is_scope=True)
    if "mode" not in body.model_fields_set:
        raise RegistryError(Code.INVALID_MODE, "The request names no mode")
    mode = _read_mode(body.mode)
    if mode is Mode.FORWARD and (name is None or context_of(name) != GLOBAL_CONTEXT):
        raise RegistryError(Code.INVALID_MODE, "Forward mode only supported on global level")

    def decide(state: State, _parser: SchemaParser) -> tuple[tuple[Change, ...], dict[str, Any]]:
        return scope.set_mode(state, name, mode, force=force), {"mode": body.mode}

    return answer(await write(request, decide))


def _read_mode(name: str | None) -> Mode | None:
    try:
        return None if name is None else Mode(name.upper())
    except ValueError:
        raise RegistryError(
            Code.INVALID_MODE,
            "Invalid mode. Valid values are READWRITE, READONLY, READONLY_OVERRIDE, IMPORT and FORWARD",
        ) from None


@router.delete("/mode", response_model=ModeAnswer)
async def delete_mode(request: Request, recursive: Flag = False) -> Response:
    """Remove the mode that holds everywhere."""
    return await _delete_mode(request, None, recursive=recursive)


@router.delete("/mode/{subject}", response_model=ModeAnswer)
async def delete_subject_mode(request: Request, subject: str, recursive: Flag = False) -> Response:
    """Remove the mode of a subject or a context."""
    return await _delete_mode(request, read_config_scope(subject), recursive=recursive)


async def _delete_mode(request: Request, name: str | None, *, recursive: bool) -> Response:
    def decide(state: State, _parser: SchemaParser) -> tuple[tuple[Change, ...], dict[str, Any]]:
        own = _own_mode(state, name)
        if own is None and not recursive:
            raise subject_not_found(name or "")
        return scope.delete_mode(state, name, is_recursive=recursive), {} if own is None else {"mode": own}

    return answer(await write(request, decide))


# --- contexts


@router.get("/contexts", response_model=list[str], tags=["Contexts"])
async def list_contexts(
    request: Request,
    context_prefix: Annotated[str, Query(alias="contextPrefix")] = "",
    offset: Int32 = 0,
    limit: Int32 = -1,
) -> Response:
    """List the contexts."""
    state = registry_of(request).state
    seen = await readable_contexts(request, state.contexts, state.subjects(":*:", with_deleted=True))
    return answer(page([context for context in seen if context.startswith(context_prefix)], offset, limit))


@router.delete("/contexts/{context}", status_code=204, tags=["Contexts"])
async def delete_context(request: Request, context: str) -> Response:
    """Delete a context that holds no subjects."""
    name = context_of(unquote(context))

    def decide(state: State, _parser: SchemaParser) -> tuple[tuple[Change, ...], None]:
        return removal.delete_context(state, name), None

    written = await write(request, decide)
    return written if isinstance(written, Response) else Response(status_code=204)

"""Whether a schema would be compatible, without registering it."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from tailrace.registry.core import compatibility
from tailrace.registry.core.error import Code, RegistryError, version_not_found
from tailrace.registry.core.parser import SchemaParser
from tailrace.registry.core.record import Entry
from tailrace.registry.core.register import canonicalize
from tailrace.registry.core.removal import LATEST
from tailrace.registry.core.state import State
from tailrace.registry.http.call import answer, read_subject, read_type, read_version, registry_of
from tailrace.registry.http.model import CompatibilityAnswer, Flag, SchemaRequest
from tailrace.registry.http.right import require_references
from tailrace.registry.service import Registry
from tailrace.web.body import BoundedRoute

router = APIRouter(tags=["Compatibility"], route_class=BoundedRoute)


@router.post("/compatibility/subjects/{subject}/versions", response_model=CompatibilityAnswer)
async def check_subject(
    request: Request, subject: str, body: SchemaRequest, normalize: Flag = False, verbose: Flag = False
) -> Response:
    """Check a schema against the versions that its subject's compatibility level names."""
    registry, name = registry_of(request), read_subject(request, subject)
    await require_references(request, name, body.references)
    return answer(
        await _check(registry, name, body, registry.state.versions(name), normalize=normalize, verbose=verbose)
    )


@router.post("/compatibility/subjects/{subject}/versions/{version}", response_model=CompatibilityAnswer)
async def check_version(
    request: Request, subject: str, version: str, body: SchemaRequest, normalize: Flag = False, verbose: Flag = False
) -> Response:
    """Check a schema against one version."""
    registry, name, number = registry_of(request), read_subject(request, subject), read_version(version)
    await require_references(request, name, body.references)
    entry = registry.state.latest(name) if number == LATEST else registry.state.find(name, number)
    if entry is None and number != LATEST:
        raise version_not_found(number)
    earlier = [] if entry is None else [entry]
    return answer(await _check(registry, name, body, earlier, normalize=normalize, verbose=verbose))


async def _check(
    registry: Registry, subject: str, body: SchemaRequest, earlier: Sequence[Entry], *, normalize: bool, verbose: bool
) -> dict[str, Any]:
    try:
        found = await registry.examine(partial(_problems, subject, body, earlier, normalize=normalize))
    except RegistryError as error:
        if not verbose or error.code is not Code.INVALID_SCHEMA:
            raise
        found = [error.message]
    result: dict[str, Any] = {"is_compatible": not found}
    return {**result, "messages": found} if verbose else result


def _problems(
    subject: str, body: SchemaRequest, earlier: Sequence[Entry], state: State, parser: SchemaParser, *, normalize: bool
) -> list[str]:
    if not (body.schema_ or "").strip():
        raise RegistryError(Code.INVALID_SCHEMA, "Empty schema")
    config = state.config(subject)
    draft = body.to_draft(subject, read_type(body.schema_type))
    schema, _ = canonicalize(parser, draft, normalize=normalize or bool(config.normalize))
    return compatibility.problems(schema, body.metadata, earlier, config, parser)

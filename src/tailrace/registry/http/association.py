"""Associations of topics with the subjects of their keys and values."""

import json
from collections.abc import Callable, Container, Sequence
from functools import partial
from typing import Annotated, Any, TypeVar
from urllib.parse import unquote

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from tailrace.base.schema_limits import REGISTRY_BATCH_BYTES_MAX, REGISTRY_BATCH_COUNT_MAX
from tailrace.protocol.acl_code import Operation as Right
from tailrace.registry.core import associate
from tailrace.registry.core.associate import Resource, Step, Wanted, invalid
from tailrace.registry.core.association import ANY_RESOURCE, TOPIC, Association, Lifecycle, Search
from tailrace.registry.core.entity import Int32
from tailrace.registry.core.error import Code, RegistryError
from tailrace.registry.core.parser import SchemaParser
from tailrace.registry.core.record import Change, Entry
from tailrace.registry.core.state import State
from tailrace.registry.core.subject import qualify
from tailrace.registry.http.association_model import (
    AssociationsAnswer,
    AssociationsRequest,
    BatchAnswer,
    BatchRequest,
    BatchSearchRequest,
    Operation,
    OperationsRequest,
    OperationType,
    SearchRequest,
)
from tailrace.registry.http.call import answer, forwarded, page, read_subject, registry_of, write
from tailrace.registry.http.model import Flag, describe
from tailrace.registry.http.right import check_still_allowed, readable, require_subjects
from tailrace.web.body import BoundedRoute

T = TypeVar("T")

router = APIRouter(tags=["Associations"], route_class=BoundedRoute)

Types = Annotated[list[str], Query(alias="associationType")]
ResourceType = Annotated[str, Query(alias="resourceType")]


# --- searching


@router.get("/associations/subjects/{subject}", response_model=list[Association])
async def find_by_subject(
    request: Request,
    subject: str,
    resource_type: ResourceType = TOPIC,
    association_type: Types = [],  # noqa: B006 - FastAPI copies it
    lifecycle: Lifecycle | None = None,
    offset: Int32 = 0,
    limit: Int32 = -1,
) -> Response:
    """List the associations of a subject."""
    name = read_subject(request, subject)
    search = Search(subject=name, resource_type=resource_type, association_types=association_type, lifecycle=lifecycle)
    return await _found(request, search, offset, limit)


@router.get("/associations/resources/{resource_id}", response_model=list[Association])
async def find_by_id(
    request: Request,
    resource_id: str,
    resource_type: ResourceType = TOPIC,
    association_type: Types = [],  # noqa: B006
    lifecycle: Lifecycle | None = None,
    offset: Int32 = 0,
    limit: Int32 = -1,
) -> Response:
    """List the associations of the resource with an id."""
    search = Search(
        unquote(resource_id), resource_type=resource_type, association_types=association_type, lifecycle=lifecycle
    )
    return await _found(request, search, offset, limit)


@router.get("/associations/resources/{namespace}/{name}", response_model=list[Association])
async def find_by_name(
    request: Request,
    namespace: str,
    name: str,
    resource_type: ResourceType = TOPIC,
    association_type: Types = [],  # noqa: B006
    lifecycle: Lifecycle | None = None,
    offset: Int32 = 0,
    limit: Int32 = -1,
) -> Response:
    """List the associations of a resource by its name; `-` stands for any name or namespace."""
    search = Search(
        resource_name=_wanted_part(name),
        resource_namespace=_wanted_part(namespace),
        resource_type=resource_type,
        association_types=association_type,
        lifecycle=lifecycle,
    )
    return await _found(request, search, offset, limit)


def _wanted_part(raw: str) -> str:
    text = unquote(raw)
    return "" if text == ANY_RESOURCE else text


async def _found(request: Request, search: Search, offset: int, limit: int) -> Response:
    found = await _readable(request, search)
    return answer([each.to_json() for each in page(found, offset, limit)])


async def _readable(request: Request, search: Search) -> list[Association]:
    """Return the associations that a search finds, with subjects that the caller may read."""
    found = registry_of(request).state.associations(search)
    return await readable(request, found, lambda each: each.subject)


@router.post("/associations:batchGet", response_model=BatchAnswer)
async def find_batch(
    request: Request, body: BatchSearchRequest, include_schemas: Annotated[Flag, Query(alias="includeSchemas")] = False
) -> Response:
    """List the associations of several resources."""
    results: list[dict[str, Any]] = []
    size_bytes = 0
    for each in _required(body.requests):
        results.append(await _searched(request, each, include_schemas))
        size_bytes += _schemas_size_bytes(results[-1])
        if size_bytes > REGISTRY_BATCH_BYTES_MAX:
            raise invalid(
                "requests",
                f"the schemas that the first {len(results)} find have more than {REGISTRY_BATCH_BYTES_MAX} bytes; "
                "send fewer in one batch",
            )
    return answer({"results": results})


def _schemas_size_bytes(result: dict[str, Any]) -> int:
    associations = result.get("result", {}).get("associations", ())
    return sum(len(json.dumps(each["schema"])) for each in associations if "schema" in each)


async def _searched(request: Request, each: SearchRequest, include_schemas: bool) -> dict[str, Any]:
    if not each.resource_id and not (each.resource_name and each.resource_namespace):
        return _failure(invalid("resourceId", "neither it nor resourceName with resourceNamespace is given"))
    search = Search(
        each.resource_id or "",
        "" if each.resource_id else each.resource_name or "",
        "" if each.resource_id else each.resource_namespace or "",
        each.resource_type or TOPIC,
        association_types=each.association_types or (),
        lifecycle=each.lifecycle,
    )
    state, found = registry_of(request).state, await _readable(request, search)
    latest = {one.association_type: state.latest(one.subject) for one in found} if include_schemas else {}
    first = found[0] if found else None
    resource = Resource(
        each.resource_name or (first.resource_name if first else ""),
        each.resource_namespace or (first.resource_namespace if first else ""),
        each.resource_id or (first.resource_id if first else ""),
        each.resource_type or TOPIC,
    )
    return {"result": _describe(resource, found, {name: entry for name, entry in latest.items() if entry})}


# --- changing


@router.post("/associations", response_model=AssociationsAnswer)
async def create(
    request: Request, body: AssociationsRequest, dry_run: Annotated[Flag, Query(alias="dryRun")] = False
) -> Response:
    """Create associations of a resource, and register the schemas that they bring."""
    return await _change(request, body, is_create=True, is_trial=dry_run)


@router.put("/associations/resources/{resource_id}", response_model=AssociationsAnswer)
async def put(
    request: Request,
    resource_id: str,
    body: AssociationsRequest,
    dry_run: Annotated[Flag, Query(alias="dryRun")] = False,
) -> Response:
    """Create or change associations of a resource, and register the schemas that they bring."""
    named = unquote(resource_id)
    if body.resource_id not in (None, "", named):
        raise invalid("resourceId", f"the path has {named!r} and the request {body.resource_id!r}")
    return await _change(request, body.model_copy(update={"resource_id": named}), is_create=False, is_trial=dry_run)


async def _change(request: Request, body: AssociationsRequest, *, is_create: bool, is_trial: bool) -> Response:
    resource = body.to_resource(is_trial=is_trial)
    wanted = [each.to_wanted() for each in body.associations or ()]
    answered = await forwarded(request)
    if answered is not None:
        return answered
    return answer(await _carry_out(request, resource, wanted, is_create=is_create, is_trial=is_trial))


async def _carry_out(
    request: Request, resource: Resource, wanted: Sequence[Wanted], *, is_create: bool, is_trial: bool
) -> dict[str, Any]:
    """Register the schemas of associations, and then write the associations, as the leader."""
    registry = registry_of(request)
    check = partial(associate.check, resource=resource, wanted=wanted, is_create=is_create)
    writable = await _require_writable(request, resource, wanted)
    if is_trial:
        await registry.examine(check)
        return _describe(resource, [], {})

    def check_again(state: State, parser: SchemaParser) -> list[Step]:
        steps = check(state, parser)
        check_still_allowed(Right.WRITE, [subject for step in steps for subject in step.subjects], writable)
        return steps

    def registering(index: int) -> Callable[[State, SchemaParser], tuple[tuple[Change, ...], None]]:
        def decide(state: State, parser: SchemaParser) -> tuple[tuple[Change, ...], None]:
            return associate.register_schema(state, parser, check_again(state, parser)[index]), None

        return decide

    def decide(state: State, parser: SchemaParser) -> tuple[tuple[Change, ...], dict[str, Any]]:
        steps = check_again(state, parser)
        changed = [step.new for step in steps if step.is_change]
        return associate.put(steps), _describe(resource, changed, associate.registered(state, parser, steps))

    for index, each in enumerate(wanted):
        if each.draft is not None:
            await registry.change(registering(index))
    return await registry.change(decide)


async def _require_writable(request: Request, resource: Resource, wanted: Sequence[Wanted]) -> Container[str]:
    """Return the subjects of associations; raises `RegistryError` unless the caller may write them all."""
    state = registry_of(request).state
    written: list[str] = []
    for each in wanted:
        subjects = associate.subjects_of(state, resource, each)
        references = () if each.draft is None else each.draft.references
        read = [qualify(one.subject, subject) for one in references for subject in subjects]
        await require_subjects(request, Right.DESCRIBE, read)
        written += subjects
    return await require_subjects(request, Right.WRITE, written)


@router.delete("/associations/resources/{resource_id}", status_code=204)
async def delete(
    request: Request,
    resource_id: str,
    resource_type: ResourceType = TOPIC,
    association_type: Types = [],  # noqa: B006
    cascade_lifecycle: Annotated[Flag, Query(alias="cascadeLifecycle")] = False,
    dry_run: Annotated[Flag, Query(alias="dryRun")] = False,
) -> Response:
    """Delete associations of a resource, and with `cascadeLifecycle` the subjects that they own."""
    search = Search(unquote(resource_id), resource_type=resource_type, association_types=association_type)
    check = await _deletion_check(request, search)

    def decide(state: State, _parser: SchemaParser) -> tuple[tuple[Change, ...], None]:
        if not state.associations(search):
            raise RegistryError(Code.ASSOCIATION_NOT_FOUND, f"Association for '{search.resource_id}' not found.")
        check(state)
        changes = associate.delete(state, search, is_cascade=cascade_lifecycle)
        return () if dry_run else changes, None

    written = await write(request, decide)
    return written if isinstance(written, Response) else Response(status_code=204)


async def _deletion_check(request: Request, search: Search) -> Callable[[State], None]:
    """Return a check that the caller may delete what a search finds then; raises `RegistryError` if it may not now."""
    found = [each.subject for each in registry_of(request).state.associations(search)]
    deletable = await require_subjects(request, Right.DELETE, found)

    def check(state: State) -> None:
        subjects = [each.subject for each in state.associations(search)]
        check_still_allowed(Right.DELETE, subjects, deletable)

    return check


@router.post("/associations:batchMutate", response_model=BatchAnswer)
async def change_batch(
    request: Request, body: BatchRequest, dry_run: Annotated[Flag, Query(alias="dryRun")] = False
) -> Response:
    """Change associations of several resources; each resource succeeds or fails on its own."""
    requests = _required(body.requests)
    answered = await forwarded(request)
    if answered is not None:
        return answered
    return answer({"results": [await _operated(request, each, is_trial=dry_run) for each in requests]})


async def _operated(request: Request, each: OperationsRequest, *, is_trial: bool) -> dict[str, Any]:
    schemas: dict[str, dict[str, Any]] = {}
    try:
        resource = each.to_resource(is_trial=is_trial)
        if not each.associations:
            raise invalid("associations", "there are none")
        for operation in each.associations:
            done = await _operate(request, resource, operation, is_trial=is_trial)
            schemas |= {one["associationType"]: one["schema"] for one in done if "schema" in one}
    except RegistryError as error:
        return _failure(error)
    search = Search(resource.id, resource_type=resource.type)
    found = [] if is_trial else await _readable(request, search)
    described = _describe(resource, found, {})
    for one in described.get("associations", ()):
        if one["associationType"] in schemas:
            one["schema"] = schemas[one["associationType"]]
    return {"result": described}


async def _operate(
    request: Request, resource: Resource, operation: Operation, *, is_trial: bool
) -> list[dict[str, Any]]:
    wanted = operation.to_wanted()
    if operation.op_type is not OperationType.DELETE:
        is_create = operation.op_type is OperationType.CREATE
        done = await _carry_out(request, resource, [wanted], is_create=is_create, is_trial=is_trial)
        return list(done.get("associations", ()))
    search = Search(resource.id, resource_type=resource.type, association_types=[wanted.type])
    check = await _deletion_check(request, search)

    def decide(state: State, _parser: SchemaParser) -> tuple[tuple[Change, ...], None]:
        check(state)
        changes = associate.delete(state, search, is_cascade=bool(operation.cascade_lifecycle))
        return () if is_trial else changes, None

    await registry_of(request).change(decide)
    return []


# --- parts


def _required(requests: list[T] | None) -> list[T]:
    if not requests:
        raise invalid("requests", "there are none")
    if len(requests) > REGISTRY_BATCH_COUNT_MAX:
        raise invalid(
            "requests", f"there are {len(requests)} of at most {REGISTRY_BATCH_COUNT_MAX}; send fewer in one batch"
        )
    return requests


def _failure(error: RegistryError) -> dict[str, Any]:
    return {"error": {"error_code": error.code, "message": error.message}}


def _describe(resource: Resource, found: Sequence[Association], schemas: dict[str, Entry]) -> dict[str, Any]:
    """Return the associations of a resource for an answer, without members that are empty."""
    members = {
        "resourceName": resource.name,
        "resourceNamespace": resource.namespace,
        "resourceId": resource.id,
        "resourceType": resource.type,
        "associations": [_describe_one(each, schemas.get(each.association_type)) for each in found],
    }
    return {name: member for name, member in members.items() if member}


def _describe_one(each: Association, entry: Entry | None) -> dict[str, Any]:
    members = {
        "subject": each.subject,
        "associationType": each.association_type,
        "lifecycle": each.lifecycle,
        "frozen": each.frozen,
    }
    return members if entry is None else {**members, "schema": describe(entry)}

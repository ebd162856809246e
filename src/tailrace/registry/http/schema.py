"""Schemas by id and by GUID."""

from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from tailrace.registry.core.entity import Int32
from tailrace.registry.core.error import schema_not_found
from tailrace.registry.core.record import Entry
from tailrace.registry.core.state import State
from tailrace.registry.core.subject import DEFAULT_CONTEXT, Subject, context_of
from tailrace.registry.http.call import answer, formatted, page, registry_of
from tailrace.registry.http.model import (
    ContextId,
    Flag,
    SchemaAnswer,
    SubjectVersion,
    describe_stored,
    with_tags,
    without,
)
from tailrace.registry.http.right import denied_schema, readable, subjects_allowed
from tailrace.registry.http.subject import in_contexts, qualify_references, raw_text
from tailrace.schema.language import SchemaType
from tailrace.web.body import BoundedRoute

router = APIRouter(tags=["Schemas"], route_class=BoundedRoute)


@router.get("/schemas/types", response_model=list[str])
async def list_types() -> Response:
    """List the types of schemas that the registry takes."""
    return answer([SchemaType.JSON, SchemaType.PROTOBUF, SchemaType.AVRO])


@router.get("/schemas", response_model=list[SchemaAnswer])
async def list_schemas(
    request: Request,
    subject_prefix: Annotated[str, Query(alias="subjectPrefix")] = "",
    deleted: Flag = False,
    latest_only: Annotated[Flag, Query(alias="latestOnly")] = False,
    rule_type: Annotated[str, Query(alias="ruleType")] = "",
    aliases: Flag = False,
    offset: Int32 = 0,
    limit: Int32 = -1,
) -> Response:
    """List versions with their schemas."""
    state = registry_of(request).state
    found: list[Entry] = []
    for subject in state.subjects(subject_prefix, with_deleted=True):
        entries = state.versions(subject, with_deleted=deleted)
        found += entries[-1:] if latest_only else entries
    if rule_type:
        found = [
            entry for entry in found if entry.rule_set and rule_type in {rule.type for rule in entry.rule_set.rules}
        ]
    seen = page(await readable(request, found, lambda entry: entry.subject), offset, limit)
    names = {entry.subject: state.aliases_of(entry.subject) if aliases else [] for entry in seen}
    known = await subjects_allowed(request, (alias for some in names.values() for alias in some))
    shown = {subject: [alias for alias in some if alias in known] for subject, some in names.items()}
    return answer([_listed(entry, shown[entry.subject]) for entry in seen])


def _listed(entry: Entry, aliases: list[str]) -> dict[str, Any]:
    return {**describe_stored(entry), "aliases": aliases} if aliases else describe_stored(entry)


@router.get("/schemas/ids/{schema_id}", response_model=SchemaAnswer)
async def find_by_id(
    request: Request,
    schema_id: Int32,
    subject: str = "",
    format_: Annotated[str, Query(alias="format")] = "",
    reference_format: Annotated[str, Query(alias="referenceFormat")] = "",
    fetch_max_id: Annotated[Flag, Query(alias="fetchMaxId")] = False,
    find_tags: Annotated[list[str], Query(alias="findTags")] = [],  # noqa: B006 - FastAPI copies it
) -> Response:
    """Return the schema that has an id."""
    registry = registry_of(request)
    entry = await require_id(request, schema_id, subject)
    members = without(describe_stored(entry, await formatted(registry, entry, format_)), "id")
    members = with_tags(members, entry, find_tags)
    if fetch_max_id:
        members["maxId"] = registry.state.max_id(context_of(entry.subject))
    return answer(qualify_references(members, entry, reference_format))


@router.get("/schemas/ids/{schema_id}/schema")
async def find_text_by_id(
    request: Request, schema_id: Int32, subject: str = "", format_: Annotated[str, Query(alias="format")] = ""
) -> Response:
    """Return the schema that has an id alone."""
    registry = registry_of(request)
    entry = await require_id(request, schema_id, subject)
    return raw_text(await formatted(registry, entry, format_) or entry.text)


@router.get("/schemas/ids/{schema_id}/subjects", response_model=list[str])
async def subjects_of_id(
    request: Request, schema_id: Int32, subject: str = "", deleted: Flag = False, offset: Int32 = 0, limit: Int32 = -1
) -> Response:
    """List the subjects that have a schema with an id."""
    places = await _places(request, schema_id, subject, with_deleted=deleted)
    return answer(page(list(dict.fromkeys(each.subject for each in places)), offset, limit))


@router.get("/schemas/ids/{schema_id}/versions", response_model=list[SubjectVersion])
async def versions_of_id(
    request: Request, schema_id: Int32, subject: str = "", deleted: Flag = False, offset: Int32 = 0, limit: Int32 = -1
) -> Response:
    """List the versions of subjects that have an id."""
    places = await _places(request, schema_id, subject, with_deleted=deleted)
    return answer(page([{"subject": each.subject, "version": each.version} for each in places], offset, limit))


async def _places(request: Request, schema_id: int, subject: str, *, with_deleted: bool) -> list[Entry]:
    context = context_of((await require_id(request, schema_id, subject, is_named=False)).subject)
    places = registry_of(request).state.places_of_id(schema_id, context)
    live = [each for each in places if with_deleted or not each.is_deleted]
    return await readable(request, live, lambda each: each.subject)


async def require_id(request: Request, schema_id: int, subject: str, *, is_named: bool = True) -> Entry:
    """Return an entry with an id that the caller may read: of a subject if one is named, or of any."""
    found = list(_entries_of_id(registry_of(request).state, schema_id, subject))
    if not found:
        raise schema_not_found(schema_id if is_named else None)
    return await _first_readable(request, found, schema_id)


async def _first_readable(request: Request, found: list[Entry], schema: object) -> Entry:
    seen = await readable(request, found, lambda each: each.subject)
    if not seen:
        raise denied_schema(request, schema)
    return seen[0]


def _entries_of_id(state: State, schema_id: int, subject: str) -> Iterator[Entry]:
    """Iterate over the entries with an id, those of the subject first, in whatever context it is."""
    subject = state.target_of(subject)
    wanted = Subject.parse(subject)
    for name in in_contexts(state, subject) if wanted.name else ():
        if (found := state.entry_of_id(schema_id, context_of(name), name)) is not None:
            yield found
    if not (wanted.name and wanted.is_qualified):
        yield from _entries_in_context(state, schema_id, wanted.context)


def _entries_in_context(state: State, schema_id: int, context: str) -> Iterator[Entry]:
    first = state.entry_of_id(schema_id, context)
    if first is not None:
        yield first
        yield from state.places_of_id(schema_id, context)


@router.get("/schemas/guids/{guid}", response_model=SchemaAnswer)
async def find_by_guid(request: Request, guid: str, format_: Annotated[str, Query(alias="format")] = "") -> Response:
    """Return the schema that has a GUID."""
    registry = registry_of(request)
    ids = _ids_of_guid(registry.state, guid)
    found = [each for context, schema_id in ids for each in _entries_in_context(registry.state, schema_id, context)]
    if not found:
        raise schema_not_found(guid)
    entry = await _first_readable(request, found, guid)
    members = describe_stored(entry, await formatted(registry, entry, format_))
    return answer(without(members, "id", "subject", "version"))


@router.get("/schemas/guids/{guid}/ids", response_model=list[ContextId])
async def ids_of_guid(request: Request, guid: str) -> Response:
    """List the ids that a GUID has in the contexts."""
    state = registry_of(request).state
    places = [(each, list(_entries_in_context(state, each[1], each[0]))) for each in _ids_of_guid(state, guid)]
    may_read = await subjects_allowed(request, (entry.subject for _, entries in places for entry in entries))
    found: list[dict[str, Any]] = [
        {"context": context, "id": schema_id}
        for (context, schema_id), entries in places
        if any(entry.subject in may_read for entry in entries)
    ]
    return answer(found)


def _ids_of_guid(state: State, guid: str) -> list[tuple[str, int]]:
    ids = ((context, state.id_of_guid(guid.lower(), context)) for context in [DEFAULT_CONTEXT, *state.contexts[1:]])
    return [(context, schema_id) for context, schema_id in ids if schema_id is not None]

"""Subjects and their versions: registering, finding, listing and deleting."""

from collections.abc import Container, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from tailrace.protocol.acl_code import Operation
from tailrace.registry.core import register as registering
from tailrace.registry.core import removal
from tailrace.registry.core.entity import Int32, RuleSet
from tailrace.registry.core.error import Code, RegistryError, schema_not_found, subject_not_found, version_not_found
from tailrace.registry.core.parser import SchemaParser
from tailrace.registry.core.record import Change, Entry
from tailrace.registry.core.state import State
from tailrace.registry.core.subject import DEFAULT_CONTEXT, EVERY_CONTEXT, Subject, context_of, qualify
from tailrace.registry.http.call import (
    answer,
    check_subject,
    formatted,
    page,
    read_subject,
    read_type,
    read_version,
    registry_of,
    write,
)
from tailrace.registry.http.model import (
    Flag,
    SchemaAnswer,
    SchemaRequest,
    TagRequest,
    describe,
    describe_stored,
    with_tags,
    without,
)
from tailrace.registry.http.right import readable, readable_subjects, require_references, subjects_allowed
from tailrace.registry.service import Registry
from tailrace.web.body import BoundedRoute

router = APIRouter(tags=["Subjects"], route_class=BoundedRoute)


@router.get("/subjects", response_model=list[str])
async def list_subjects(
    request: Request,
    subject_prefix: Annotated[str, Query(alias="subjectPrefix")] = ":*:",
    deleted: Flag = False,
    deleted_only: Annotated[Flag, Query(alias="deletedOnly")] = False,
    offset: Int32 = 0,
    limit: Int32 = -1,
) -> Response:
    """List the subjects."""
    state = registry_of(request).state
    live = state.subjects(subject_prefix)
    subjects = state.subjects(subject_prefix, with_deleted=True) if deleted or deleted_only else live
    if deleted_only:
        subjects = sorted(set(subjects) - set(live))
    return answer(page(await readable_subjects(request, subjects), offset, limit))


@router.post("/subjects/{subject}", response_model=SchemaAnswer)
async def look_up(
    request: Request,
    subject: str,
    body: SchemaRequest,
    normalize: Flag = False,
    deleted: Flag = False,
    format_: Annotated[str, Query(alias="format")] = "",
) -> Response:
    """Find the version of a subject that has a schema."""
    registry, name = registry_of(request), read_subject(request, subject)
    draft = body.to_draft(name, read_type(body.schema_type))
    await require_references(request, name, body.references)
    normalize = normalize or bool(registry.state.config(name).normalize)
    found = None if normalize else registering.find_parsed(registry.state, registry.parser, draft)
    if found is None:
        names = await readable_subjects(request, in_contexts(registry.state, name))
        found = await registry.examine(
            partial(_look_up, names=names, draft=draft, normalize=normalize, with_deleted=deleted)
        )
    if found is not None:
        return answer(await _describe_found(registry, found, format_))
    raise schema_not_found() if registry.state.has_subject(name, with_deleted=deleted) else subject_not_found(name)


def _look_up(
    state: State,
    parser: SchemaParser,
    *,
    names: Sequence[str],
    draft: registering.Draft,
    normalize: bool,
    with_deleted: bool,
) -> registering.Found | None:
    for name in names:
        moved = replace(draft, subject=name)
        found = registering.look_up(state, parser, moved, normalize=normalize, with_deleted=with_deleted)
        if found is not None:
            return found
    return None


async def _describe_found(registry: Registry, found: registering.Found, form: str) -> dict[str, Any]:
    """Return a version that was found; Confluent's registry tells more of one that differs in notation."""
    text = await formatted(registry, found.entry, form)
    return describe(found.entry, text) if found.is_exact else describe_stored(found.entry, text)


@router.delete("/subjects/{subject}", response_model=list[int])
async def delete_subject(request: Request, subject: str, permanent: Flag = False) -> Response:
    """Delete all versions of a subject, softly at first and for good with `permanent`."""
    name = read_subject(request, subject)

    def decide(state: State, _parser: SchemaParser) -> tuple[tuple[Change, ...], list[int]]:
        removed = removal.delete_subject(state, name, is_permanent=permanent)
        return removed.changes, list(removed.versions)

    return answer(await write(request, decide))


@router.get("/subjects/{subject}/metadata", response_model=SchemaAnswer)
async def latest_with_metadata(
    request: Request,
    subject: str,
    key: Annotated[list[str], Query()] = [],  # noqa: B006 - FastAPI copies it
    value: Annotated[list[str], Query()] = [],  # noqa: B006
    deleted: Flag = False,
    format_: Annotated[str, Query(alias="format")] = "",
) -> Response:
    """Find the newest version whose metadata has some properties."""
    registry, name = registry_of(request), read_subject(request, subject)
    wanted = dict(zip(key, value, strict=False)).items()
    for entry in reversed(registry.state.versions(name, with_deleted=deleted)):
        if entry.metadata is not None and wanted <= (entry.metadata.properties or {}).items():
            return answer(describe_stored(entry, await formatted(registry, entry, format_)))
    raise schema_not_found() if registry.state.has_subject(name, with_deleted=deleted) else subject_not_found(name)


# --- versions


@router.get("/subjects/{subject}/versions", response_model=list[int])
async def list_versions(
    request: Request,
    subject: str,
    deleted: Flag = False,
    deleted_only: Annotated[Flag, Query(alias="deletedOnly")] = False,
    deleted_as_negative: Annotated[Flag, Query(alias="deletedAsNegative")] = False,
    offset: Int32 = 0,
    limit: Int32 = -1,
) -> Response:
    """List the versions of a subject."""
    state, name = registry_of(request).state, read_subject(request, subject)
    if not state.has_subject(name, with_deleted=deleted or deleted_only):
        raise subject_not_found(name)
    entries = state.versions(name, with_deleted=deleted or deleted_only or deleted_as_negative)
    if deleted_as_negative:
        return answer(page([-each.version if each.is_deleted else each.version for each in entries], offset, limit))
    return answer(page([each.version for each in entries if each.is_deleted or not deleted_only], offset, limit))


@router.post("/subjects/{subject}/versions", response_model=SchemaAnswer)
async def register(
    request: Request,
    subject: str,
    body: SchemaRequest,
    normalize: Flag = False,
    force: Flag = False,
    format_: Annotated[str, Query(alias="format")] = "",
) -> Response:
    """Register a schema as the next version of a subject, unless the subject has it already."""
    registry, name = registry_of(request), read_subject(request, subject)
    check_rules(body.rule_set)
    normalize = normalize or bool(registry.state.config(name).normalize)
    draft = body.to_draft(name, read_type(body.schema_type))
    await require_references(request, name, body.references)
    names = await readable_subjects(request, in_every_context(registry.state, name))
    found = await _known(registry, draft, names, normalize=normalize)
    if found is not None:
        return answer(without(await _describe_found(registry, found, format_), "subject"))
    check_subject(name)

    def decide(state: State, parser: SchemaParser) -> tuple[tuple[Change, ...], Entry]:
        decision = registering.register(state, parser, draft, normalize=normalize, force=force)
        return decision.changes, decision.entry

    written = await write(request, decide)
    if isinstance(written, Response):
        return written
    return answer(without(describe(written, await formatted(registry, written, format_)), "subject"))


async def _known(
    registry: Registry, draft: registering.Draft, names: Sequence[str], *, normalize: bool
) -> registering.Found | None:
    """Return the version that a registration would find, so that a client that starts need not reach the leader."""
    config = registry.state.config(draft.subject)
    adds = (config.default_metadata, config.override_metadata, config.default_rule_set, config.override_rule_set)
    is_numbered = draft.version not in (registering.NEXT_VERSION, removal.LATEST)
    if any(part is not None for part in adds) or is_numbered or draft.keeps_tags:
        return None
    found = None if normalize else registering.find_parsed(registry.state, registry.parser, draft)
    if found is not None and draft.id in (registering.NEW_ID, found.entry.id):
        return found
    return await registry.examine(partial(_find_known, names=names, draft=draft, normalize=normalize))


def _find_known(
    state: State, parser: SchemaParser, *, names: Sequence[str], draft: registering.Draft, normalize: bool
) -> registering.Found | None:
    for name in names:
        moved = replace(draft, subject=name)
        found = registering.find_same(state, parser, moved, normalize=normalize, with_deleted=False)
        if found is not None and draft.id in (registering.NEW_ID, found.entry.id):
            return replace(found, is_exact=found.is_exact and name == draft.subject)
    return None


@router.get("/subjects/{subject}/versions/{version}", response_model=SchemaAnswer)
async def find_version(
    request: Request,
    subject: str,
    version: str,
    deleted: Flag = False,
    format_: Annotated[str, Query(alias="format")] = "",
    reference_format: Annotated[str, Query(alias="referenceFormat")] = "",
    find_tags: Annotated[list[str], Query(alias="findTags")] = [],  # noqa: B006
) -> Response:
    """Return a version of a subject."""
    registry = registry_of(request)
    entry = await _require_readable(request, subject, version, with_deleted=deleted)
    members = with_tags(describe_stored(entry, await formatted(registry, entry, format_)), entry, find_tags)
    return answer(qualify_references(members, entry, reference_format))


@router.get("/subjects/{subject}/versions/{version}/schema")
async def find_text(
    request: Request,
    subject: str,
    version: str,
    deleted: Flag = False,
    format_: Annotated[str, Query(alias="format")] = "",
) -> Response:
    """Return the schema of a version alone."""
    registry = registry_of(request)
    entry = await _require_readable(request, subject, version, with_deleted=deleted)
    return raw_text(await formatted(registry, entry, format_) or entry.text)


@router.get("/subjects/{subject}/versions/{version}/referencedby", response_model=list[int])
async def referenced_by(
    request: Request, subject: str, version: str, deleted: Flag = False, offset: Int32 = 0, limit: Int32 = -1
) -> Response:
    """List the ids of the schemas that refer to a version."""
    state = registry_of(request).state
    entry = await _require_readable(request, subject, version, with_deleted=True)
    referrers = state.referrers((entry.subject, entry.version), with_deleted=deleted)
    seen = await readable(request, referrers, lambda each: each.subject)
    ids = dict.fromkeys((context_of(each.subject), each.id) for each in seen)
    return answer(page([each for _, each in ids], offset, limit))


@router.post("/subjects/{subject}/versions/{version}/tags", response_model=SchemaAnswer)
async def change_tags(request: Request, subject: str, version: str, body: TagRequest) -> Response:
    """Register a version of a subject again with other tags, metadata or rules."""
    name, number = read_subject(request, subject), read_version(version)
    for rules in (body.rule_set, body.rules_to_merge):
        check_rules(rules)
    names = in_contexts(registry_of(request).state, name)
    writable = await subjects_allowed(request, names, Operation.WRITE)

    def decide(state: State, parser: SchemaParser) -> tuple[tuple[Change, ...], Entry]:
        entry = require_version(state, name, number, with_deleted=False, allowed=writable)
        draft = body.to_draft(entry, state.latest(entry.subject))
        decision = registering.register(state, parser, draft)
        return decision.changes, decision.entry

    written = await write(request, decide)
    return written if isinstance(written, Response) else answer(without(describe(written), "subject"))


@router.delete("/subjects/{subject}/versions/{version}", response_model=int)
async def delete_version(request: Request, subject: str, version: str, permanent: Flag = False) -> Response:
    """Delete a version, softly at first and for good with `permanent`."""
    name, number = read_subject(request, subject), read_version(version)

    def decide(state: State, _parser: SchemaParser) -> tuple[tuple[Change, ...], int]:
        removed = removal.delete_version(state, name, number, is_permanent=permanent)
        return removed.changes, removed.versions[0]

    return answer(await write(request, decide))


# --- parts


def check_rules(rules: RuleSet | None) -> None:
    """Raise `RegistryError` if rules are invalid."""
    if rules is not None and (problem := rules.problem()) is not None:
        raise RegistryError(Code.INVALID_RULE_SET, f"Invalid rule set: {problem}")


async def _require_readable(request: Request, subject: str, version: str, *, with_deleted: bool) -> Entry:
    """Return the version in a path; one without a context is found in any context that the caller may read it in."""
    state, name = registry_of(request).state, read_subject(request, subject)
    allowed = await subjects_allowed(request, in_contexts(state, name))
    return require_version(state, name, read_version(version), with_deleted=with_deleted, allowed=allowed)


def require_version(state: State, subject: str, version: int, *, with_deleted: bool, allowed: Container[str]) -> Entry:
    """Return a version of a subject; one without a context is found in any context, among those that are allowed."""
    for name in in_contexts(state, subject):
        if name not in allowed:
            continue
        found = (
            state.latest(name) if version == removal.LATEST else state.find(name, version, with_deleted=with_deleted)
        )
        if found is not None:
            return found
    raise (
        version_not_found(version)
        if state.has_subject(subject, with_deleted=with_deleted)
        else subject_not_found(subject)
    )


def in_contexts(state: State, subject: str) -> list[str]:
    """Return where a subject can be: in its context, or, if it names none, in all of them, the default one first."""
    if Subject.parse(subject).is_qualified:
        return [subject]
    return [subject, *(str(Subject(context, subject)) for context in state.contexts if context != DEFAULT_CONTEXT)]


def in_every_context(state: State, subject: str) -> list[str]:
    """Return where a subject that names every context (`:*:name`) can be; any other subject is in its own context."""
    parsed = Subject.parse(subject)
    if parsed.context != EVERY_CONTEXT:
        return [subject]
    return [str(Subject(context, parsed.name)) for context in state.contexts]


def qualify_references(members: dict[str, Any], entry: Entry, form: str) -> dict[str, Any]:
    """Return an answer whose references name their contexts, if the client asks for that."""
    if form != "qualified" or not Subject.parse(entry.subject).is_qualified or not entry.references:
        return members
    named = [
        {"name": each.name, "subject": qualify(each.subject, entry.subject), "version": each.version}
        for each in entry.references
    ]
    return {**members, "references": named}


def raw_text(text: str) -> Response:
    """Return a schema as it is: Confluent's registry does not put it into a JSON string."""
    return Response(text, media_type="application/vnd.schemaregistry.v1+json")

"""Which rights the requests of the registry need, if its callers are users of the cluster.

Kafka's ACLs know no subjects, so a subject has the rights of a topic: `orders-key` and `orders-value` those of the
topic `orders`, and any other subject those of a topic with the name of the subject, whether there is one or not. A
subject in a context keeps its context: `:.staging:orders-value` has the rights of `:.staging:orders`, which no topic is
called, so rights in a context have to be granted for it. The context itself has those of `:.staging:`, and an ACL for
that prefix grants them together with all its subjects.

`RULES` has each route. A route without a rule is closed.
"""

from collections.abc import Callable, Collection, Container, Iterable, Sequence
from enum import Enum, auto
from typing import NamedTuple, TypeVar
from urllib.parse import unquote

from fastapi import Request

from tailrace.protocol.acl_code import Operation, Resource
from tailrace.registry.core.entity import SchemaReference
from tailrace.registry.core.error import Code, RegistryError
from tailrace.registry.core.subject import (
    DEFAULT_CONTEXT,
    GLOBAL_CONTEXT,
    Subject,
    context_of,
    context_prefix,
    qualify,
)
from tailrace.registry.http.call import read_config_scope, read_subject
from tailrace.web.edge import CHANGE
from tailrace.web.right import CLUSTER_NAME, Need, allowed, caller_of, first_missing, log_denial

T = TypeVar("T")

_SUFFIXES = ("-key", "-value")


class About(Enum):
    """What a rule's right is about."""

    NOTHING = auto()
    """Every caller may ask; the answer has nothing that needs a right."""
    SHOWN = auto()
    """Every caller may ask; the route leaves out what the caller may not see."""
    INSIDE = auto()
    """The subjects are in the body of the request or in the state, so the route checks them."""
    SUBJECT = auto()
    SCOPE = auto()
    CONTEXT = auto()
    CLUSTER = auto()


class Rule(NamedTuple):
    """The right that a route needs."""

    about: About
    operation: Operation = Operation.DESCRIBE
    is_change: bool = False


_READ = Rule(About.SUBJECT)
_REGISTER = Rule(About.SUBJECT, Operation.WRITE, is_change=True)
_DELETE = Rule(About.SUBJECT, Operation.DELETE, is_change=True)
_READ_SCOPE = Rule(About.SCOPE)
_CHANGE_SCOPE = Rule(About.SCOPE, Operation.ALTER_CONFIGS, is_change=True)
_CHANGE_ALL = Rule(About.CLUSTER, Operation.ALTER_CONFIGS, is_change=True)
_OPEN = Rule(About.NOTHING)
_SHOWN = Rule(About.SHOWN)
_INSIDE = Rule(About.INSIDE, is_change=True)

_VERSION = "/subjects/{subject}/versions/{version}"
_RESOURCE = "/associations/resources/{resource_id}"

RULES: dict[tuple[str, str], Rule] = {
    ("GET", "/"): _OPEN,
    ("POST", "/"): _OPEN,
    ("GET", "/health"): _OPEN,
    ("GET", "/metrics"): Rule(About.CLUSTER),
    ("GET", "/v1/metadata/deployment"): _OPEN,
    ("GET", "/v1/metadata/id"): _OPEN,
    ("GET", "/v1/metadata/version"): _OPEN,
    ("GET", "/subjects"): _SHOWN,
    ("POST", "/subjects/{subject}"): _READ,
    ("DELETE", "/subjects/{subject}"): _DELETE,
    ("GET", "/subjects/{subject}/metadata"): _READ,
    ("GET", "/subjects/{subject}/versions"): _READ,
    ("POST", "/subjects/{subject}/versions"): _REGISTER,
    ("GET", _VERSION): _READ,
    ("DELETE", _VERSION): _DELETE,
    ("GET", f"{_VERSION}/schema"): _READ,
    ("GET", f"{_VERSION}/referencedby"): _READ,
    ("POST", f"{_VERSION}/tags"): _REGISTER,
    ("GET", "/schemas"): _SHOWN,
    ("GET", "/schemas/types"): _OPEN,
    ("GET", "/schemas/ids/{schema_id}"): _SHOWN,
    ("GET", "/schemas/ids/{schema_id}/schema"): _SHOWN,
    ("GET", "/schemas/ids/{schema_id}/subjects"): _SHOWN,
    ("GET", "/schemas/ids/{schema_id}/versions"): _SHOWN,
    ("GET", "/schemas/guids/{guid}"): _SHOWN,
    ("GET", "/schemas/guids/{guid}/ids"): _SHOWN,
    ("POST", "/compatibility/subjects/{subject}/versions"): _READ,
    ("POST", "/compatibility/subjects/{subject}/versions/{version}"): _READ,
    ("GET", "/config"): _OPEN,
    ("PUT", "/config"): _CHANGE_ALL,
    ("DELETE", "/config"): _CHANGE_ALL,
    ("GET", "/config/{subject}"): _READ_SCOPE,
    ("PUT", "/config/{subject}"): _CHANGE_SCOPE,
    ("DELETE", "/config/{subject}"): _CHANGE_SCOPE,
    ("GET", "/mode"): _OPEN,
    ("PUT", "/mode"): _CHANGE_ALL,
    ("DELETE", "/mode"): _CHANGE_ALL,
    ("GET", "/mode/{subject}"): _READ_SCOPE,
    ("PUT", "/mode/{subject}"): _CHANGE_SCOPE,
    ("DELETE", "/mode/{subject}"): _CHANGE_SCOPE,
    ("GET", "/contexts"): _SHOWN,
    ("DELETE", "/contexts/{context}"): Rule(About.CONTEXT, Operation.DELETE, is_change=True),
    ("GET", "/associations/subjects/{subject}"): _READ,
    ("GET", _RESOURCE): _SHOWN,
    ("GET", "/associations/resources/{namespace}/{name}"): _SHOWN,
    ("POST", "/associations:batchGet"): _SHOWN,
    ("POST", "/associations"): _INSIDE,
    ("PUT", _RESOURCE): _INSIDE,
    ("DELETE", _RESOURCE): _INSIDE,
    ("POST", "/associations:batchMutate"): _INSIDE,
}


async def enforce(request: Request) -> None:
    """Raise `RegistryError` if the caller does not have the right that the route of a request needs."""
    rule = RULES.get((request.method, request.scope["route"].path))
    if rule is not None and rule.is_change:
        request.scope[CHANGE] = request.scope["path"]
    if not caller_of(request).is_judged:
        return
    if rule is None:
        raise _denied(request, Need(Operation.ALL, Resource.CLUSTER, CLUSTER_NAME))
    need = _need(request, rule)
    missing = None if need is None else await first_missing(request, need)
    if missing is not None:
        raise _denied(request, missing)


def _need(request: Request, rule: Rule) -> Need | None:
    operation = rule.operation
    if rule.about is About.SUBJECT:
        return _on_subject(operation, read_subject(request, request.path_params["subject"]))
    if rule.about is About.SCOPE:
        name = read_config_scope(request.path_params["subject"])
        is_everywhere = name is None or context_of(name) == GLOBAL_CONTEXT
        if is_everywhere and operation is Operation.DESCRIBE:
            return None
        return _on_cluster(operation) if is_everywhere else _on_subject(operation, name or "")
    if rule.about is About.CONTEXT:
        prefix = context_prefix(context_of(unquote(request.path_params["context"])))
        return _on_subject(operation, prefix) if prefix else _on_cluster(operation)
    return _on_cluster(operation) if rule.about is About.CLUSTER else None


def _on_cluster(operation: Operation) -> Need:
    return Need(operation, Resource.CLUSTER, CLUSTER_NAME)


def _on_subject(operation: Operation, subject: str) -> Need:
    return Need(operation, Resource.TOPIC, topic_of(subject))


def topic_of(subject: str) -> str:
    """Return the topic whose ACLs hold for a subject, or for a context."""
    parsed = Subject.parse(subject)
    for suffix in _SUFFIXES:
        if parsed.name.endswith(suffix) and parsed.name != suffix:
            return str(Subject(parsed.context, parsed.name.removesuffix(suffix)))
    return str(parsed)


def _denied(request: Request, need: Need) -> RegistryError:
    log_denial(request, need.operation.name, need.resource.name, need.name)
    return RegistryError(Code.DENIED, f"User is denied operation {need}")


# --- for routes that name several subjects


class Subjects(Container[str]):
    """The subjects of some topics."""

    def __init__(self, topics: Container[str]) -> None:
        self._topics = topics

    def __contains__(self, subject: object) -> bool:
        return isinstance(subject, str) and topic_of(subject) in self._topics


async def subjects_allowed(
    request: Request, subjects: Iterable[str], operation: Operation = Operation.DESCRIBE
) -> Container[str]:
    """Return on which of some subjects the caller may perform an operation; by default, which it may read."""
    topics = {topic_of(subject) for subject in subjects}
    if not topics:
        return topics
    return Subjects(await allowed(request, operation, Resource.TOPIC, topics))


async def readable(request: Request, found: Sequence[T], subject_of: Callable[[T], str]) -> list[T]:
    """Return what is of subjects that the caller may read."""
    may_read = await subjects_allowed(request, map(subject_of, found))
    return [each for each in found if subject_of(each) in may_read]


async def readable_subjects(request: Request, subjects: Sequence[str]) -> list[str]:
    """Return the subjects that the caller may read."""
    return await readable(request, subjects, lambda subject: subject)


async def require_subjects(request: Request, operation: Operation, subjects: Collection[str]) -> Container[str]:
    """Raise `RegistryError` unless the caller may perform an operation on all of some subjects; returns those."""
    may = await subjects_allowed(request, subjects, operation)
    for subject in subjects:
        if subject not in may:
            raise _denied(request, _on_subject(operation, subject))
    return may


def check_still_allowed(operation: Operation, subjects: Iterable[str], may: Container[str]) -> None:
    """Raise `RegistryError` if a decision is about a subject that the caller's rights were not checked for.

    That can only be if the state has changed since.
    """
    for subject in subjects:
        if subject not in may:
            raise RegistryError(Code.DENIED, f"User is denied operation {_on_subject(operation, subject)}")


async def require_references(request: Request, subject: str, references: Sequence[SchemaReference] | None) -> None:
    """Raise `RegistryError` unless the caller may read the subjects that a schema of a subject refers to."""
    subjects = [qualify(each.subject or "", subject) for each in references or ()]
    await require_subjects(request, Operation.DESCRIBE, subjects)


async def readable_contexts(request: Request, contexts: Sequence[str], subjects: Iterable[str]) -> list[str]:
    """Return the contexts that the caller may read, or of which it may read a subject; the default one always."""
    seen = {context_of(subject) for subject in await readable_subjects(request, list(subjects))}
    may_read = await subjects_allowed(request, map(context_prefix, contexts[1:]))
    return [
        context
        for context in contexts
        if context == DEFAULT_CONTEXT or context in seen or context_prefix(context) in may_read
    ]


def denied_schema(request: Request, schema: object) -> RegistryError:
    """Return the error for a schema that exists, in subjects that the caller may not read."""
    log_denial(request, Operation.DESCRIBE.name, "SCHEMA", str(schema))
    return RegistryError(Code.DENIED, f"User is denied operation Describe on Schema: {schema}")

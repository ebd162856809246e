"""Creating, changing and deleting associations.

A request may bring schemas along. They are registered first, one after the other, and the associations are written
last, so that an association never names a subject without a schema. Each of these steps makes all checks again.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tailrace.base.text import is_control
from tailrace.registry.core import compatibility
from tailrace.registry.core.association import (
    ASSOCIATION_TYPES,
    TOPIC,
    Association,
    Lifecycle,
    Search,
)
from tailrace.registry.core.entity import Mode
from tailrace.registry.core.error import Code, RegistryError, read_only, subject_is_associated
from tailrace.registry.core.parser import SchemaParser
from tailrace.registry.core.record import Change, Entry, Kind
from tailrace.registry.core.register import Draft, canonicalize, look_up, register
from tailrace.registry.core.removal import remove_subject
from tailrace.registry.core.state import State
from tailrace.registry.core.subject import context_of, context_prefix, normalize

NAME_LENGTH_MAX = 256


@dataclass(frozen=True, slots=True)
class Resource:
    """A topic: its name, the cluster that it is in, and its id."""

    name: str
    namespace: str
    id: str
    type: str = TOPIC

    def subject_for(self, association_type: str) -> str:
        """Return the subject that belongs to the resource by name."""
        return f":.{self.namespace}:{self.name}-{association_type}"


@dataclass(frozen=True, slots=True)
class Wanted:
    """An association that a client wants; None leaves a member to the defaults, or as it is."""

    type: str = "value"
    subject: str | None = None
    lifecycle: Lifecycle | None = None
    frozen: bool | None = None
    draft: Draft | None = None
    """A schema to register under the subject, whatever subject it names."""
    normalize: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """An association with all members, and the one that it takes the place of."""

    new: Association
    old: Association | None
    draft: Draft | None
    normalize: bool

    @property
    def is_change(self) -> bool:
        """Whether the association becomes another one; a schema alone does not change it."""
        old, new = self.old, self.new
        return old is None or (old.subject, old.lifecycle, old.frozen) != (new.subject, new.lifecycle, new.frozen)

    @property
    def subjects(self) -> list[str]:
        """The subject of the association, and the one that it had before."""
        return [self.new.subject, *([] if self.old is None else [self.old.subject])]


# --- steps


def check(
    state: State, parser: SchemaParser, resource: Resource, wanted: Sequence[Wanted], *, is_create: bool
) -> list[Step]:
    """Return what a request changes. Raises `RegistryError` if it may not; nothing has been written then."""
    _check_resource(resource)
    types = [each.type for each in wanted]
    if len(set(types)) < len(types):
        raise invalid("associationType", "two associations have the same type")
    if not wanted:
        raise invalid("associations", "there are none")
    old = {each.association_type: each for each in _existing(state, resource, types)}
    steps = [_check_one(state, parser, resource, each, old.get(each.type), is_create=is_create) for each in wanted]
    for step in steps:
        _check_subject(state, step)
        _check_schema(state, parser, step)
    return steps


def subjects_of(state: State, resource: Resource, wanted: Wanted) -> list[str]:
    """Return the subjects that an association can have, and those that it has, before anything is checked."""
    named = resource.subject_for(wanted.type) if wanted.subject is None else state.target_of(normalize(wanted.subject))
    return [named, *(each.subject for each in _existing(state, resource, [wanted.type]))]


def register_schema(state: State, parser: SchemaParser, step: Step) -> tuple[Change, ...]:
    """Return the records that register the schema of an association. A scope that imports takes no new schemas."""
    if step.draft is None or state.mode(step.new.subject) is Mode.IMPORT:
        return ()
    return register(state, parser, step.draft, normalize=step.normalize).changes


def registered(state: State, parser: SchemaParser, steps: Sequence[Step]) -> dict[str, Entry]:
    """Return the registered schemas of associations, by their types."""
    found = {
        step.new.association_type: look_up(state, parser, step.draft, normalize=step.normalize)
        for step in steps
        if step.draft is not None
    }
    return {name: each.entry for name, each in found.items() if each is not None}


def put(steps: Sequence[Step]) -> tuple[Change, ...]:
    """Return the records of the associations that change."""
    return tuple(
        Change(Kind.ASSOC, step.new.subject, value=step.new, key=step.new.key) for step in steps if step.is_change
    )


def delete(state: State, search: Search, *, is_cascade: bool) -> tuple[Change, ...]:
    """Decide the deletion of the associations of a resource, and with `is_cascade` of the subjects that they own."""
    changes: list[Change] = []
    for each in state.associations(search):
        _check_writable(state, each.subject)
        if each.frozen and not is_cascade:
            raise _frozen(each)
        changes.append(Change(Kind.ASSOC, each.subject, key=each.key))
        owns = each.lifecycle is Lifecycle.STRONG and state.mode(each.subject) is not Mode.IMPORT
        if is_cascade and owns and state.has_subject(each.subject, with_deleted=True):
            changes += remove_subject(state, each.subject)
    return tuple(changes)


# --- checks


def invalid(member: str, problem: str) -> RegistryError:
    """Return the error for a member of an association that is wrong."""
    return RegistryError(Code.INVALID_ASSOCIATION, f"Invalid association: {member}: {problem}")


def _check_resource(resource: Resource) -> None:
    for member, name in (("resourceName", resource.name), ("resourceNamespace", resource.namespace)):
        if not name:
            raise invalid(member, "it is missing")
        if len(name) > NAME_LENGTH_MAX:
            raise invalid(member, f"it has {len(name)} characters of at most {NAME_LENGTH_MAX}")
        if not all(letter.isalnum() or letter in "_-" for letter in name):
            raise invalid(member, f"{name!r} has a character other than letters, digits, _ and -")
    if resource.type != TOPIC:
        raise invalid("resourceType", f"{resource.type!r} is not {TOPIC}")


def _existing(state: State, resource: Resource, types: Sequence[str]) -> list[Association]:
    """Return the associations of a resource; a trial run may not know its id yet."""
    if resource.id:
        return state.associations(Search(resource.id, resource_type=resource.type, association_types=types))
    search = Search("", resource.name, resource.namespace, resource.type, association_types=types)
    return sorted(state.associations(search), key=lambda each: each.update_ts or 0)


def _check_one(
    state: State, parser: SchemaParser, resource: Resource, each: Wanted, old: Association | None, *, is_create: bool
) -> Step:
    if each.type not in ASSOCIATION_TYPES:
        raise invalid("associationType", f"{each.type!r} is neither key nor value")
    if old is None or is_create:
        each = _with_defaults(each, is_create=is_create)
    subject = _subject_of(state, resource, each, old)
    lifecycle = each.lifecycle or (old.lifecycle if old else Lifecycle.WEAK)
    is_frozen = old.frozen if old else bool(each.frozen)
    _check_lifecycle(resource, each, subject, lifecycle, is_frozen=is_frozen)
    draft = None if each.draft is None else replace(each.draft, subject=subject)
    new = Association(
        guid=old.guid if old else str(uuid.uuid4()),
        resource_name=resource.name,
        resource_namespace=resource.namespace,
        resource_id=resource.id,
        resource_type=resource.type,
        association_type=each.type,
        subject=subject,
        lifecycle=lifecycle,
        frozen=is_frozen if each.frozen is None else each.frozen,
    )
    step = Step(new, old, draft, each.normalize)
    if old is None:
        _check_new(state, parser, step, is_create=is_create)
    else:
        _check_change(state, parser, resource, each, step, is_create=is_create)
    return step


def _with_defaults(each: Wanted, *, is_create: bool) -> Wanted:
    """Return an association that does not exist yet with all members: one with a schema owns its subject."""
    if each.draft is None:
        return replace(each, lifecycle=each.lifecycle or Lifecycle.WEAK, frozen=bool(each.frozen))
    if each.lifecycle is Lifecycle.WEAK:
        raise invalid("lifecycle", "an association that brings a schema cannot be WEAK")
    if each.frozen is not None and each.frozen != is_create:
        raise invalid("frozen", "it must be true if an association is created with a schema, and false if it is put")
    return replace(each, lifecycle=Lifecycle.STRONG, frozen=is_create)


def _subject_of(state: State, resource: Resource, each: Wanted, old: Association | None) -> str:
    if each.subject is not None:
        if not each.subject or any(is_control(letter) for letter in each.subject):
            raise invalid("subject", f"{each.subject!r} is empty or has a control character")
        return state.target_of(normalize(each.subject))
    if old is not None:
        return old.subject
    if each.lifecycle is not Lifecycle.STRONG:
        raise invalid("subject", "a WEAK association must name its subject")
    return resource.subject_for(each.type)


def _check_lifecycle(resource: Resource, each: Wanted, subject: str, lifecycle: Lifecycle, *, is_frozen: bool) -> None:
    own = resource.subject_for(each.type)
    if lifecycle is Lifecycle.WEAK and each.draft is not None:
        raise invalid("lifecycle", "an association that brings a schema cannot be WEAK")
    if lifecycle is Lifecycle.WEAK and each.frozen:
        raise invalid("frozen", "a WEAK association cannot be frozen")
    if lifecycle is Lifecycle.WEAK and subject == own:
        raise invalid("subject", f"a WEAK association cannot have the resource's own subject {own!r}")
    if is_frozen and subject != own:
        raise invalid("subject", f"a frozen association must have the resource's own subject {own!r}")


def _check_new(state: State, parser: SchemaParser, step: Step, *, is_create: bool) -> None:
    """Check that a frozen association starts with its only schema."""
    subject = step.new.subject
    if not step.new.frozen or state.mode(subject) is Mode.IMPORT:
        return
    if is_create and step.draft is None:
        raise invalid("schema", "a frozen association must bring a schema")
    latest = state.latest(subject)
    if latest is not None and (latest.version != 1 or not registered(state, parser, [step])):
        raise invalid("frozen", f"subject {subject!r} has schemas already")


def _check_change(
    state: State, parser: SchemaParser, resource: Resource, each: Wanted, step: Step, *, is_create: bool
) -> None:
    old = step.old
    if old is None or not step.is_change:
        if is_create and step.draft is not None and not registered(state, parser, [step]):
            raise _exists(resource, each.type)
        return
    if is_create:
        raise _exists(resource, each.type)
    if each.lifecycle is None and each.draft is None:
        raise invalid("lifecycle", "a change must have a lifecycle or a schema")
    if step.new.subject != old.subject:
        raise invalid("subject", f"it cannot be changed from {old.subject!r} to {step.new.subject!r}")
    if step.new.frozen != old.frozen:
        raise invalid("frozen", "it cannot be changed")
    if old.frozen:
        raise _frozen(old)


def _check_subject(state: State, step: Step) -> None:
    """Check that the subject has a schema, and no association that excludes this one."""
    new, old = step.new, step.old
    _check_writable(state, new.subject)
    if step.draft is None and state.latest(new.subject) is None:
        raise RegistryError(Code.NO_ACTIVE_VERSION, f"Subject '{new.subject}' has no version that is not deleted")
    others = [
        each
        for each in state.associations(Search(subject=new.subject))
        if old is None or (each.resource_id, each.key) != (old.resource_id, old.key)
    ]
    if new.lifecycle is Lifecycle.STRONG and others:
        raise subject_is_associated(new.subject)
    if any(each.lifecycle is Lifecycle.STRONG for each in others):
        raise RegistryError(
            Code.STRONG_ASSOCIATION_EXISTS, f"A strong association already exists for subject '{new.subject}'"
        )


def _check_schema(state: State, parser: SchemaParser, step: Step) -> None:
    draft = step.draft
    if draft is None:
        return
    schema, _ = canonicalize(parser, draft, normalize=step.normalize)
    earlier, config = state.versions(draft.subject), state.config(draft.subject)
    found = compatibility.problems(schema, draft.metadata, earlier, config, parser)
    if found:
        raise RegistryError(Code.INCOMPATIBLE_SCHEMA, f"The schema of subject '{draft.subject}': {', '.join(found)}")


def _check_writable(state: State, subject: str) -> None:
    if state.mode(subject).is_read_only:
        raise read_only(subject, context_prefix(context_of(subject)))


def _exists(resource: Resource, association_type: str) -> RegistryError:
    return RegistryError(
        Code.ASSOCIATION_EXISTS,
        f"An association of type '{association_type}' already exists for resource '{resource.name}'",
    )


def _frozen(each: Association) -> RegistryError:
    return RegistryError(
        Code.ASSOCIATION_FROZEN,
        f"The association of type '{each.association_type}' with subject '{each.subject}' is frozen",
    )

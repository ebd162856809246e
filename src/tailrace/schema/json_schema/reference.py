"""References of a schema: places in its own document, in imported ones by their names, and metaschemas.

Nothing is ever fetched. An imported name is also found where a document's own id turns it into a URL, and a `$ref` to
`#/$defs/x` finds `definitions/x` if the document has no such `$defs`, as in Confluent's registry.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

from jsonschema_specifications import REGISTRY
from referencing import Registry, Resource
from referencing.exceptions import NoSuchResource, Unresolvable

from tailrace.schema.json_schema.document import Json, read
from tailrace.schema.json_schema.draft import Checked, Draft, by_url, check, draft_of
from tailrace.schema.language import Imports, InvalidSchema

Resolver = Any
"""A resolver of the referencing library: where a relative reference is resolved from."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The document that a schema stands in, as far as its references and keywords depend on it."""

    resolver: Resolver
    draft: Draft

    def inside(self, schema: Json) -> "Scope":
        """Return the scope of a schema inside this scope: its own id changes what its references mean."""
        if not isinstance(schema, dict) or not isinstance(schema.get(self.draft.id_keyword), str):
            return self
        resource = self.draft.specification.create_resource(schema)
        return Scope(self.resolver.in_subresource(resource), self.draft)


class References:
    """All documents that a schema can refer to."""

    def __init__(self, document: Json, draft: Draft, imports: Imports, reader: Callable[[str], Json] = read) -> None:
        self._read = reader
        self.root = with_bridged_definitions(document)
        self._draft = draft
        self._checked = Checked()
        self._imported: dict[str, Resource[Json]] = {}
        check(self.root, draft, self._checked)
        resource = draft.specification.create_resource(self.root)
        base = resource.id() or ""
        self._imports = imports
        self._names = {name: name for name in imports}
        self._add_names(base)
        empty: Registry[Json] = Registry(retrieve=self.retrieve)  # type: ignore[call-arg]  # made with attrs
        self.registry = empty.with_resource(base, resource)
        self.scope = Scope(self.registry.resolver(base), draft)

    def follow(self, reference: str, scope: Scope) -> tuple[Json, Scope]:
        """Return the schema that a reference leads to and its scope; raise InvalidSchema if there is none."""
        try:
            found = scope.resolver.lookup(reference)
        except (Unresolvable, LookupError, TypeError, ValueError, AttributeError) as error:
            raise InvalidSchema(_unresolved(reference, error)) from None
        if not isinstance(found.contents, dict | bool):
            raise InvalidSchema(f"$ref '{reference}' does not lead to a schema")
        draft = self._checked.drafts.get(id(found.contents), scope.draft)
        check(found.contents, draft, self._checked)  # it may stand where no schema is expected
        return found.contents, Scope(found.resolver, draft)

    def retrieve(self, uri: str) -> Resource[Json]:
        """Return the document at an address: an import or a metaschema."""
        if uri in self._names:
            return self._import(self._names[uri])
        metaschema = by_url(uri)
        if metaschema is not None:
            uri = metaschema.metaschema
            check(REGISTRY.contents(uri), metaschema, self._checked)
        if uri in REGISTRY:
            found: Resource[Json] = REGISTRY[uri]
            return found
        raise NoSuchResource(uri)

    def _add_names(self, base: str) -> None:
        """Let a document find imports by their names, whatever URL its own id makes of them."""
        for name in self._imports:
            for relative in (name, f"./{name}"):
                try:
                    self._names.setdefault(urljoin(base, relative), name)
                except ValueError:  # a name like http://[ is found by itself only
                    continue

    def _import(self, name: str) -> Resource[Json]:
        """Return an imported document, always the same object: nodes know the schemas they were made of by identity."""
        if name not in self._imported:
            document = with_bridged_definitions(self._read(self._imports[name]))
            if not isinstance(document, dict | bool):
                raise InvalidSchema(f"reference '{name}' is not a JSON Schema")
            draft = draft_of(document, self._draft)
            check(document, draft, self._checked)
            resource = self._imported[name] = draft.specification.create_resource(document)
            self._add_names(name)
            self._add_names(resource.id() or "")
        return self._imported[name]


def with_bridged_definitions(document: Json) -> Json:
    """Return a document in which `#/$defs/x` also finds what stands in `definitions`."""
    if not isinstance(document, dict):
        return document
    definitions, defs = document.get("definitions"), document.get("$defs", {})
    if not isinstance(definitions, Mapping) or not definitions or not isinstance(defs, Mapping):
        return document
    return document | {"$defs": {**definitions, **defs}}


def _unresolved(reference: str, error: BaseException) -> str:
    """Say why a reference leads nowhere; a mistake inside an imported schema is the cause of the cause."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, InvalidSchema):
            return f"$ref '{reference}' leads to an invalid schema: {cause}"
        cause = cause.__cause__
    return f"$ref '{reference}' cannot be resolved: neither the schema nor its references define it"

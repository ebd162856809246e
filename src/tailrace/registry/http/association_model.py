"""The bodies of requests and answers about associations."""

from enum import StrEnum

from pydantic import Field

from tailrace.registry.core.associate import Resource, Wanted, invalid
from tailrace.registry.core.association import TOPIC, Lifecycle
from tailrace.registry.core.entity import Entity
from tailrace.registry.http.call import read_type
from tailrace.registry.http.model import ErrorAnswer, SchemaAnswer, SchemaRequest
from tailrace.web.member import Items


class AssociationRequest(Entity):
    """An association to create or to change."""

    subject: str | None = None
    association_type: str | None = Field(default=None, description="key or value; value if it is missing.")
    lifecycle: Lifecycle | None = None
    frozen: bool | None = None
    schema_: SchemaRequest | None = Field(default=None, alias="schema")
    normalize: bool | None = None

    def to_wanted(self) -> Wanted:
        """Return the request for the registry's decisions."""
        schema = self.schema_
        return Wanted(
            type=self.association_type or "value",
            subject=self.subject,
            lifecycle=self.lifecycle,
            frozen=self.frozen,
            draft=None if schema is None else schema.to_draft(self.subject or "", read_type(schema.schema_type)),
            normalize=bool(self.normalize),
        )


class ResourceRequest(Entity):
    """The resource that associations belong to."""

    resource_name: str | None = None
    resource_namespace: str | None = None
    resource_id: str | None = None
    resource_type: str | None = None

    def to_resource(self, *, is_trial: bool) -> Resource:
        """Return the resource for the registry's decisions."""
        name, namespace, kind = self.resource_name or "", self.resource_namespace or "", self.resource_type or TOPIC
        if name and namespace and not self.resource_id and not is_trial:
            raise invalid("resourceId", "it is missing")
        return Resource(name, namespace, self.resource_id or "", kind)


class AssociationsRequest(ResourceRequest):
    """The associations of a resource to create or to change."""

    associations: Items[AssociationRequest] | None = None


class OperationType(StrEnum):
    """What to do with an association."""

    CREATE = "CREATE"
    UPSERT = "UPSERT"
    DELETE = "DELETE"


class Operation(AssociationRequest):
    """One change of a batch."""

    op_type: OperationType
    cascade_lifecycle: bool | None = None


class OperationsRequest(ResourceRequest):
    """Changes of one resource's associations."""

    associations: Items[Operation] | None = None


class BatchRequest(Entity):
    """Changes of the associations of several resources."""

    requests: Items[OperationsRequest] | None = None


class SearchRequest(ResourceRequest):
    """A resource whose associations are looked for."""

    association_types: Items[str] | None = None
    lifecycle: Lifecycle | None = None


class BatchSearchRequest(Entity):
    """Several resources whose associations are looked for."""

    requests: Items[SearchRequest] | None = None


class AssociationAnswer(Entity):
    """An association, with the schema that was registered for it."""

    subject: str
    association_type: str
    lifecycle: Lifecycle
    frozen: bool
    schema_: SchemaAnswer | None = Field(default=None, alias="schema")


class AssociationsAnswer(ResourceRequest):
    """The associations of a resource that were created or changed."""

    associations: list[AssociationAnswer] | None = None


class Result(Entity):
    """The associations of one resource of a batch, or the error."""

    result: AssociationsAnswer | None = None
    error: ErrorAnswer | None = None


class BatchAnswer(Entity):
    """The results of a batch, in the order of its requests."""

    results: list[Result]

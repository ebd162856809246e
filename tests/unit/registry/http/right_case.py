"""One request for each route of the registry, and the right that it needs.

The rights are written out here once more, and not taken from the registry's own table, so that a mistake there shows.
"""

import json
from typing import Any, NamedTuple

LOGIN = "login"
"""Every user may send the request."""

SECRET = "a_field_of_payments"  # noqa: S105 - the name of a field
"""A field of a schema that only users of the topic `payments` may see."""
GUID_OF_SECRET = "GUID"  # noqa: S105
"""In a path: the GUID of the schema with the secret."""


def avro(field: str, **more: Any) -> dict[str, Any]:
    fields = [{"name": field, "type": "int"}]
    return {"schema": json.dumps({"type": "record", "name": "R", "fields": fields}), **more}


def association(subject: str, resource: str) -> dict[str, Any]:
    return {
        "resourceName": resource,
        "resourceNamespace": "cluster",
        "resourceId": f"id-of-{resource}",
        "associations": [{"subject": subject, "associationType": "value"}],
    }


class Case(NamedTuple):
    """A request, and the right that it needs: an operation on the topic `payments`, or on the cluster."""

    method: str
    route: str
    path: str
    needs: str
    body: Any = None


_REFERENCE = {"references": [{"name": "S", "subject": "payments-value", "version": 1}]}
_CONFIG, _MODE = {"compatibility": "FULL"}, {"mode": "READWRITE"}
_S = "/subjects/{subject}"
_V = f"{_S}/versions/{{version}}"
_R = "/associations/resources/{resource_id}"
_DELETE_OF_BATCH = {**association("x", "linked"), "associations": [{"opType": "DELETE", "associationType": "value"}]}

CASES = [
    Case("GET", "/", "/", LOGIN),
    Case("POST", "/", "/", LOGIN, {}),
    Case("GET", "/health", "/health", LOGIN),
    Case("GET", "/metrics", "/metrics", "cluster describe"),
    Case("GET", "/v1/metadata/deployment", "/v1/metadata/deployment", LOGIN),
    Case("GET", "/v1/metadata/id", "/v1/metadata/id", LOGIN),
    Case("GET", "/v1/metadata/version", "/v1/metadata/version", LOGIN),
    Case("GET", "/subjects", "/subjects", LOGIN),
    Case("GET", "/subjects", "/subjects?deleted=true", LOGIN),
    Case("POST", _S, "/subjects/payments-value", "describe", avro(SECRET)),
    Case("POST", _S, "/subjects/free-value", "describe", avro("a", **_REFERENCE)),
    Case("POST", _S, "/subjects/alias-of-payments", "describe", avro(SECRET)),
    Case("DELETE", _S, "/subjects/payments?permanent=true", "delete"),
    Case("GET", f"{_S}/metadata", "/subjects/payments-value/metadata", "describe"),
    Case("GET", f"{_S}/versions", "/subjects/payments-value/versions", "describe"),
    Case("GET", f"{_S}/versions", "/subjects/payments-key/versions", "describe"),
    Case("GET", f"{_S}/versions", "/subjects/payments/versions", "describe"),
    Case("GET", f"{_S}/versions", "/subjects/alias-of-payments/versions", "describe"),
    Case("POST", f"{_S}/versions", "/subjects/payments-value/versions", "write", avro(SECRET)),
    Case("POST", f"{_S}/versions", "/subjects/payments-key/versions", "write", avro("b")),
    Case("POST", f"{_S}/versions", "/subjects/free-value/versions", "describe", avro("a", **_REFERENCE)),
    Case("POST", f"{_S}/versions", "/subjects/alias-of-payments/versions", "write", avro("c")),
    Case("GET", _V, "/subjects/payments-value/versions/1", "describe"),
    Case("GET", _V, "/subjects/payments-value/versions/latest", "describe"),
    Case("DELETE", _V, "/subjects/payments-value/versions/9", "delete"),
    Case("GET", f"{_V}/schema", "/subjects/payments-value/versions/1/schema", "describe"),
    Case("GET", f"{_V}/referencedby", "/subjects/payments-value/versions/1/referencedby", "describe"),
    Case("POST", f"{_V}/tags", "/subjects/payments-value/versions/1/tags", "write", {}),
    Case("GET", "/schemas", "/schemas?subjectPrefix=:*:&aliases=true", LOGIN),
    Case("GET", "/schemas/types", "/schemas/types", LOGIN),
    Case("GET", "/schemas/ids/{schema_id}", "/schemas/ids/1", "describe"),
    Case("GET", "/schemas/ids/{schema_id}", "/schemas/ids/1?subject=free-value", "describe"),
    Case("GET", "/schemas/ids/{schema_id}/schema", "/schemas/ids/1/schema", "describe"),
    Case("GET", "/schemas/ids/{schema_id}/subjects", "/schemas/ids/1/subjects", "describe"),
    Case("GET", "/schemas/ids/{schema_id}/versions", "/schemas/ids/1/versions", "describe"),
    Case("GET", "/schemas/guids/{guid}", f"/schemas/guids/{GUID_OF_SECRET}", "describe"),
    Case("GET", "/schemas/guids/{guid}/ids", f"/schemas/guids/{GUID_OF_SECRET}/ids", LOGIN),
    Case(
        "POST",
        "/compatibility/subjects/{subject}/versions",
        "/compatibility/subjects/payments-value/versions?verbose=true",
        "describe",
        avro("b"),
    ),
    Case(
        "POST",
        "/compatibility/subjects/{subject}/versions",
        "/compatibility/subjects/free-value/versions?verbose=true",
        "describe",
        avro("b", **_REFERENCE),
    ),
    Case(
        "POST",
        "/compatibility/subjects/{subject}/versions/{version}",
        "/compatibility/subjects/payments-value/versions/latest?verbose=true",
        "describe",
        avro("b"),
    ),
    Case("GET", "/config", "/config", LOGIN),
    Case("PUT", "/config", "/config", "cluster alter_configs", {"compatibility": "BACKWARD"}),
    Case("DELETE", "/config", "/config", "cluster alter_configs"),
    Case("GET", "/config/{subject}", "/config/payments-value", "describe"),
    Case("GET", "/config/{subject}", "/config/:.__GLOBAL:", LOGIN),
    Case("PUT", "/config/{subject}", "/config/payments-value", "alter_configs", _CONFIG),
    Case("PUT", "/config/{subject}", "/config/:.:", "cluster alter_configs", {"compatibility": "BACKWARD"}),
    Case("PUT", "/config/{subject}", "/config/:.__GLOBAL:", "cluster alter_configs", {"compatibility": "BACKWARD"}),
    Case("PUT", "/config/{subject}", "/contexts/:.:/config", "cluster alter_configs", {"compatibility": "BACKWARD"}),
    Case("DELETE", "/config/{subject}", "/config/payments-value", "alter_configs"),
    Case("GET", "/mode", "/mode", LOGIN),
    Case("PUT", "/mode", "/mode", "cluster alter_configs", _MODE),
    Case("DELETE", "/mode", "/mode", "cluster alter_configs"),
    Case("GET", "/mode/{subject}", "/mode/payments-value", "describe"),
    Case("PUT", "/mode/{subject}", "/mode/payments-value", "alter_configs", _MODE),
    Case("PUT", "/mode/{subject}", "/mode/:.__GLOBAL:", "cluster alter_configs", _MODE),
    Case("DELETE", "/mode/{subject}", "/mode/payments-value", "alter_configs"),
    Case("GET", "/contexts", "/contexts", LOGIN),
    Case("DELETE", "/contexts/{context}", "/contexts/.dark", "delete .dark"),
    Case("GET", "/associations/subjects/{subject}", "/associations/subjects/payments-value", "describe"),
    Case("GET", _R, "/associations/resources/id-of-linked", LOGIN),
    Case("GET", "/associations/resources/{namespace}/{name}", "/associations/resources/-/-", LOGIN),
    Case(
        "POST",
        "/associations:batchGet",
        "/associations:batchGet?includeSchemas=true",
        LOGIN,
        {"requests": [{"resourceId": "id-of-linked"}]},
    ),
    Case("POST", "/associations", "/associations", "write", association("payments-value", "other")),
    Case("PUT", _R, "/associations/resources/id-of-linked", "write", association("payments-value", "linked")),
    Case("DELETE", _R, "/associations/resources/id-of-linked?dryRun=true", "delete"),
    Case(
        "POST",
        "/associations:batchMutate",
        "/associations:batchMutate?dryRun=true",
        "delete in results",
        {"requests": [_DELETE_OF_BATCH]},
    ),
]

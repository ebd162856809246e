"""What happens to a request of the registry before it is routed.

`/contexts/CONTEXT/…` in front of a path means that the rest is about that context.
"""

from urllib.parse import parse_qsl, quote, unquote, urlencode

from tailrace.registry.core.subject import normalize_context
from tailrace.web import edge

V1_JSON = "application/vnd.schemaregistry.v1+json"
MEDIA_TYPES = (V1_JSON, "application/vnd.schemaregistry+json", "application/json")
"""What the registry answers with, the preferred type first."""
SPEECH = edge.Speech("registry", "schema registry", MEDIA_TYPES, frozenset({*MEDIA_TYPES, "application/octet-stream"}))

_SUBJECT_PARENTS = frozenset({"subjects"})
_SCOPE_PARENTS = frozenset({"config", "mode"})


class Edge(edge.Edge):
    """The outermost part of the registry."""

    def move(self, path: str, query: str) -> tuple[str, str]:
        """Return the path and query that mean the same without a context in front."""
        return within_context(path, query) if path.startswith("/contexts/") else (path, query)


def within_context(path: str, query: str) -> tuple[str, str]:
    """Return the path and query that mean the same without `/contexts/CONTEXT` in front.

    Raises ValueError if the name of the context is invalid.
    """
    _, _, context, *rest = path.split("/")
    prefix = normalize_context(unquote(context))
    while rest and not rest[-1]:
        rest.pop()
    if not rest:
        return f"/contexts/{quote(prefix, safe=':')}", query
    return _qualify_path(rest, prefix), _qualify_query(rest, query, prefix)


def _qualify_path(parts: list[str], prefix: str) -> str:
    qualified = list(parts)
    for index, part in enumerate(parts):
        if part in _SUBJECT_PARENTS or (index == 0 and part in _SCOPE_PARENTS):
            if index + 1 < len(parts):
                qualified[index + 1] = _qualified(parts[index + 1], prefix)
            elif part in _SCOPE_PARENTS and prefix:
                qualified.append(quote(prefix, safe=":"))
            break
    return "/" + "/".join(qualified)


def _qualify_query(parts: list[str], query: str, prefix: str) -> str:
    name = "subjectPrefix" if parts in (["schemas"], ["subjects"]) else None
    if parts[:2] == ["schemas", "ids"]:
        name = "subject"
    if name is None:
        return query
    pairs = parse_qsl(query, keep_blank_values=True)
    given = [value for key, value in pairs if key == name] or [""]
    others = [(key, value) for key, value in pairs if key != name]
    return urlencode([*others, *((name, value if _has_context(value) else prefix + value) for value in given)])


def _qualified(part: str, prefix: str) -> str:
    return part if _has_context(unquote(part)) else quote(prefix, safe=":") + part


def _has_context(text: str) -> bool:
    return text.startswith((":.", ":*:"))

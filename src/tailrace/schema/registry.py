"""The client of a schema registry, Tailrace's or Confluent's.

registry = Registry("http://localhost:8081")
stored = registry.register("page_views-value", NewSchema(text))
print(stored.id, registry.versions("page_views-value"))
"""

import ssl
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from tailrace.base.schema_limits import REGISTRY_CACHE_COUNT, SCHEMA_REFERENCES_MAX
from tailrace.client.backoff import Backoff
from tailrace.schema.cache import Cache
from tailrace.schema.error import RegistryUnavailable
from tailrace.schema.http import HttpClient, Request
from tailrace.schema.language import Reference
from tailrace.schema.setting import RegistrySettings
from tailrace.schema.stored import NewSchema, StoredSchema, read_references, read_type

LATEST = "latest"


class Registry:
    """A client that threads may share. Schemas are cached by id and by subject, because they never change.

    Each method raises `RegistryError` if the registry refuses, and `RegistryUnavailable` if none answers.
    """

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        user: str | None = None,
        password: str | None = None,
        tls: ssl.SSLContext | None = None,
        timeout_s: float = 10.0,
        retries: int = 3,
        retry_backoff_ms: int = 100,
        retry_backoff_max_ms: int = 2_000,
    ) -> None:
        """Take one URL or several, of which any that answers is used; one text may hold several with commas."""
        urls = [part.strip() for part in url.split(",")] if isinstance(url, str) else list(url)
        backoff = Backoff(retry_backoff_ms, retry_backoff_max_ms)
        self._http = HttpClient(
            urls, user=user, password=password, tls=tls, timeout_s=timeout_s, retries=retries, backoff=backoff
        )
        self._by_id: Cache[tuple[int, str | None], StoredSchema] = Cache(REGISTRY_CACHE_COUNT)
        self._by_version: Cache[tuple[str, int], StoredSchema] = Cache(REGISTRY_CACHE_COUNT)
        self._by_text: Cache[tuple[str, str, NewSchema, bool], StoredSchema] = Cache(REGISTRY_CACHE_COUNT)

    @classmethod
    def from_config(cls, config: RegistrySettings | Mapping[str, str]) -> Self:
        """Connect with the configs of confluent-kafka's client, such as `url` and `basic.auth.user.info`.

        Raise `ConfigError` if one is invalid.
        """
        settings = config if isinstance(config, RegistrySettings) else RegistrySettings(config)
        user, password = settings.credentials
        return cls(settings.url, user=user, password=password, tls=settings.make_tls())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    # --- schemas

    def schema(self, schema_id: int, subject: str | None = None) -> StoredSchema:
        """Return the schema with an id, and the texts that it refers to. A subject names the context of the id."""
        return self._by_id.get((schema_id, subject), lambda: self._find_schema(schema_id, subject))

    def register(self, subject: str, schema: NewSchema, *, normalize: bool = False) -> StoredSchema:
        """Register a schema unless the subject has it, and return it as the registry stores it."""
        return self._by_text.get(
            ("register", subject, schema, normalize), lambda: self._register(subject, schema, normalize=normalize)
        )

    def look_up(self, subject: str, schema: NewSchema, *, normalize: bool = False) -> StoredSchema:
        """Return the version of a subject that has a schema."""
        return self._by_text.get(
            ("look up", subject, schema, normalize), lambda: self._look_up(subject, schema, normalize=normalize)
        )

    def check(self, subject: str, schema: NewSchema, version: int | str | None = None) -> list[str]:
        """Return why a schema could not be registered, in words; empty if it could.

        It is compared with the versions that the subject's compatibility level names, or with one version.
        """
        path = f"/compatibility/subjects/{_part(subject)}/versions"
        if version is not None:
            path += f"/{version}"
        said = self._send("POST", path, {"verbose": "true"}, schema.to_json())
        return [] if said["is_compatible"] else list(said.get("messages") or ["the schema is incompatible"])

    # --- subjects and versions

    def subjects(self, prefix: str = "", *, deleted: bool = False) -> list[str]:
        """Return the names of the subjects, those that are softly deleted as well with `deleted`."""
        query = {"subjectPrefix": prefix} if prefix else {}
        found: list[str] = self._send("GET", "/subjects", {**query, **_flag("deleted", deleted)})
        return found

    def versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        """Return the numbers of a subject's versions."""
        found: list[int] = self._send("GET", f"/subjects/{_part(subject)}/versions", _flag("deleted", deleted))
        return found

    def version(self, subject: str, version: int) -> StoredSchema:
        """Return one version of a subject."""
        return self._by_version.get((subject, version), lambda: self._find_version(subject, str(version)))

    def latest(self, subject: str) -> StoredSchema:
        """Return the newest version of a subject, which is not cached."""
        return self._find_version(subject, LATEST)

    def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        """Delete all versions of a subject, softly at first; return their numbers."""
        found: list[int] = self._send("DELETE", f"/subjects/{_part(subject)}", _flag("permanent", permanent))
        self._forget_subjects()
        return found

    def delete_version(self, subject: str, version: int | str, *, permanent: bool = False) -> int:
        """Delete one version of a subject, softly at first; return its number."""
        path = f"/subjects/{_part(subject)}/versions/{version}"
        found: int = self._send("DELETE", path, _flag("permanent", permanent))
        self._forget_subjects()
        return found

    # --- configs

    def config(self, subject: str | None = None) -> Mapping[str, Any]:
        """Return the config that applies to a subject or, without one, to the default context."""
        found: Mapping[str, Any] = self._send("GET", _config_path(subject), {"defaultToGlobal": "true"})
        return found

    def set_config(self, changes: Mapping[str, Any], subject: str | None = None) -> None:
        """Change a config, for instance `{"compatibility": "FULL"}`."""
        self._send("PUT", _config_path(subject), {}, dict(changes))

    def delete_config(self, subject: str | None = None) -> None:
        """Remove the config of a subject, so that the one of its context applies."""
        self._send("DELETE", _config_path(subject))

    # --- parts

    def imports_of(self, references: Sequence[Reference]) -> dict[str, str]:
        """Return the texts that references lead to, directly or not, each after those that it refers to itself."""
        found: dict[str, str] = {}
        self._collect(references, found, set())
        return found

    def _collect(self, references: Sequence[Reference], found: dict[str, str], seen: set[str]) -> None:
        for reference in references:
            if reference.name in seen:
                continue
            seen.add(reference.name)
            if len(seen) > SCHEMA_REFERENCES_MAX:
                raise RegistryUnavailable(f"the schema refers to more than {SCHEMA_REFERENCES_MAX} others")
            stored = self.version(reference.subject, reference.version)
            self._collect(stored.references, found, seen)
            found[reference.name] = stored.text

    def _find_schema(self, schema_id: int, subject: str | None) -> StoredSchema:
        query = {} if subject is None else {"subject": subject}
        members = self._send("GET", f"/schemas/ids/{schema_id}", query)
        references = read_references(members)
        imports = self.imports_of(references)
        return StoredSchema(schema_id, read_type(members), members["schema"], references, imports=imports)

    def _find_version(self, subject: str, version: str) -> StoredSchema:
        # A schema may refer to a version that was softly deleted since.
        query = {} if version == LATEST else {"deleted": "true"}
        members = self._send("GET", f"/subjects/{_part(subject)}/versions/{version}", query)
        references = read_references(members)
        return StoredSchema(
            members["id"],
            read_type(members),
            members["schema"],
            references,
            members["subject"],
            members["version"],
            self.imports_of(references),
        )

    def _register(self, subject: str, schema: NewSchema, *, normalize: bool) -> StoredSchema:
        path = f"/subjects/{_part(subject)}/versions"
        members = self._send("POST", path, _flag("normalize", normalize), schema.to_json())
        imports = self.imports_of(schema.references)
        text = members.get("schema") or schema.text
        return StoredSchema(
            members["id"], schema.type, text, schema.references, subject, members.get("version"), imports
        )

    def _look_up(self, subject: str, schema: NewSchema, *, normalize: bool) -> StoredSchema:
        members = self._send("POST", f"/subjects/{_part(subject)}", _flag("normalize", normalize), schema.to_json())
        return StoredSchema(
            members["id"],
            schema.type,
            members.get("schema") or schema.text,
            schema.references,
            members["subject"],
            members["version"],
            self.imports_of(schema.references),
        )

    def _forget_subjects(self) -> None:
        """Forget which subjects have which schemas; the schema of an id remains the same."""
        self._by_text.clear()
        self._by_version.clear()

    def _send(self, method: str, path: str, query: Mapping[str, str] | None = None, body: Any = None) -> Any:
        return self._http.send(Request(method, path, query or {}, body))


def _part(name: str) -> str:
    return quote(name, safe="")


def _flag(name: str, is_set: bool) -> dict[str, str]:
    return {name: "true"} if is_set else {}


def _config_path(subject: str | None) -> str:
    return "/config" if subject is None else f"/config/{_part(subject)}"

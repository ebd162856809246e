"""A registry in memory, for tests of pipelines without Spark."""

from typing import Any, Self

from tailrace.schema.error import RegistryError
from tailrace.schema.language import SchemaType
from tailrace.schema.setting import RegistrySettings
from tailrace.schema.stored import NewSchema, StoredSchema

URL = "http://registry.example:8081"
SETTINGS = RegistrySettings(URL)


class RegistryModel:
    """Has what pipelines ask of `Registry`. An instance stands for the class, too."""

    def __init__(self) -> None:
        self.subjects: dict[str, list[StoredSchema]] = {}
        self.looked_up: list[int] = []
        self.problems: list[str] = []

    def from_config(self, _settings: RegistrySettings) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def register(self, subject: str, schema: NewSchema) -> StoredSchema:
        versions = self.subjects.setdefault(subject, [])
        for known in versions:
            if known.text == schema.text:
                return known
        schema_id = sum(map(len, self.subjects.values())) + 1
        versions.append(StoredSchema(schema_id, schema.type, schema.text, (), subject, len(versions) + 1))
        return versions[-1]

    def add(self, subject: str, text: str, type_: SchemaType = SchemaType.AVRO) -> int:
        return self.register(subject, NewSchema(text, type_)).id

    def look_up(self, subject: str, schema: NewSchema, *, normalize: bool = False) -> StoredSchema:
        found = [known for known in self.subjects.get(subject, []) if known.text == schema.text]
        return found[0] if found else self._missing()

    def schema(self, schema_id: int) -> StoredSchema:
        self.looked_up.append(schema_id)
        found = [known for versions in self.subjects.values() for known in versions if known.id == schema_id]
        return found[0] if found else self._missing()

    def version(self, subject: str, version: int) -> StoredSchema:
        versions = self.subjects.get(subject, [])
        return versions[version - 1] if version <= len(versions) else self._missing()

    def latest(self, subject: str) -> StoredSchema:
        return self.version(subject, max(1, len(self.subjects.get(subject, []))))

    def check(self, _subject: str, _schema: NewSchema) -> list[str]:
        return self.problems

    def imports_of(self, _references: Any) -> dict[str, str]:
        return {}

    def _missing(self) -> Any:
        raise RegistryError(404, 40403, "Schema not found")

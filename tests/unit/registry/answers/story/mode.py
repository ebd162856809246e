"""What each mode allows."""

from collections.abc import Iterator

from tests.unit.registry.answers.call import (
    Call,
    avro,
    check,
    delete,
    get,
    look_up,
    put,
    record,
    register,
    set_level,
    set_mode,
    story,
)


def _writes(subject: str) -> Iterator[Call]:
    """Yield one call of each kind that changes something."""
    yield register(subject, avro("int"))
    yield register(subject, avro("long"))
    yield look_up(subject, avro("int"))
    yield check(subject, avro("string"))
    yield set_level("NONE", subject)
    yield delete(f"/config/{subject}")
    yield delete(f"/subjects/{subject}/versions/1")
    yield delete(f"/subjects/{subject}")
    yield delete(f"/subjects/{subject}?permanent=true")
    yield get(f"/subjects/{subject}/versions?deleted=true")


@story
def read_only() -> Iterator[Call]:
    """Writes to a subject and a registry that may only be read."""
    yield register("a", avro("int"))
    yield set_mode("READONLY", "a")
    yield from _writes("a")
    yield register("b", avro("int"))
    yield set_mode("READWRITE", "a")
    yield set_mode("READONLY")
    yield register("a", avro("long"))
    yield register("b", avro("long"))
    yield put("/config", {"compatibility": "NONE"})
    yield delete("/subjects/b")
    yield delete("/mode/a")
    yield register("a", avro("double"))


@story
def read_only_override() -> Iterator[Call]:
    """A mode that no subject can lift."""
    yield register("a", avro("int"))
    yield set_mode("READONLY_OVERRIDE")
    yield set_mode("READWRITE", "a")
    yield get("/mode/a")
    yield from _writes("a")
    yield set_mode("READWRITE")
    yield register("a", avro("long"))


@story
def importing() -> Iterator[Call]:
    """Schemas that bring their ids and versions with them."""
    yield register("full", avro("int"))
    yield set_mode("IMPORT", "full")
    yield set_mode("IMPORT", "full", "?force=true")
    yield get("/mode/full")
    yield set_mode("READWRITE", "full")
    yield set_mode("IMPORT")
    yield set_mode("IMPORT", None, "?force=true")
    yield set_mode("READWRITE")
    yield set_mode("IMPORT", "a")
    yield register("a", avro("int"))
    yield register("a", avro("int", id=10))
    yield register("a", avro("long", id=20, version=7))
    yield register("a", avro("long", id=20, version=7))
    yield register("a", avro("long", id=21, version=7))
    yield register("a", avro("string", id=20, version=8))
    yield register("a", avro("string", id=22, version=3))
    yield register("a", avro("bytes", id=23, version=7))
    yield register("a", avro("int", id=1))
    yield register("a", avro("bytes", id=0))
    yield register("a", record("R", {"id": 24, "version": 9}, r="n.Missing"))
    yield get("/subjects/a/versions")
    yield get("/subjects/a/versions/latest")
    yield get("/schemas/ids/20")
    yield get("/schemas/ids/10/versions")
    yield delete("/subjects/a/versions/3")
    yield register("a", avro("string", id=22, version=3))
    yield set_mode("READWRITE", "a")
    yield register("b", avro("boolean"))
    yield get("/subjects/b/versions/1")
    yield get("/schemas/ids/22/subjects")


@story
def import_all() -> Iterator[Call]:
    """Import mode for the whole registry."""
    yield set_mode("IMPORT")
    yield register("a", avro("int", id=5, version=2))
    yield register("b", avro("int", id=5, version=1))
    yield register("b", avro("int", id=6, version=2))
    yield register("c", avro("string"))
    yield delete("/subjects/b")
    yield delete("/subjects/b?permanent=true")
    yield set_mode("READWRITE")
    yield register("c", avro("string"))
    yield get("/schemas")

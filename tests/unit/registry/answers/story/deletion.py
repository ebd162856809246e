"""Soft and hard deletes of versions and subjects."""

from collections.abc import Iterator

from tests.unit.registry.answers.call import (
    Call,
    avro,
    check,
    delete,
    get,
    look_up,
    register,
    set_level,
    story,
)


@story
def version() -> Iterator[Call]:
    """One version after the other."""
    yield set_level("NONE")
    for name in ("int", "long", "string"):
        yield register("a", avro(name))
    yield delete("/subjects/a/versions/2?permanent=true")
    yield delete("/subjects/a/versions/2")
    yield delete("/subjects/a/versions/2")
    yield get("/subjects/a/versions")
    yield get("/subjects/a/versions?deleted=true")
    yield get("/subjects/a/versions?deletedOnly=true")
    yield get("/subjects/a/versions?deletedAsNegative=true")
    yield get("/subjects/a/versions?deleted=true&deletedOnly=true")
    yield get("/subjects/a/versions/2")
    yield get("/subjects/a/versions/2?deleted=true")
    yield get("/subjects/a/versions/2/schema")
    yield get("/subjects/a/versions/2/schema?deleted=true")
    yield get("/schemas/ids/2")
    yield get("/schemas/ids/2/schema")
    yield get("/schemas/ids/2/subjects")
    yield get("/schemas/ids/2/subjects?deleted=true")
    yield get("/schemas/ids/2/versions")
    yield get("/schemas/ids/2/versions?deleted=true")
    yield get("/schemas")
    yield get("/schemas?deleted=true")
    yield look_up("a", avro("long"))
    yield look_up("a", avro("long"), "?deleted=true")
    yield delete("/subjects/a/versions/latest")
    yield get("/subjects/a/versions/latest")
    yield delete("/subjects/a/versions/-1")
    yield get("/subjects/a/versions")
    yield get("/subjects/a/versions/latest")
    yield get("/subjects")
    yield get("/subjects?deleted=true")
    yield get("/subjects?deletedOnly=true")
    yield delete("/subjects/a/versions/2?permanent=true")
    yield get("/subjects/a/versions/2?deleted=true")
    yield get("/schemas/ids/2")
    yield get("/schemas/ids/2/subjects?deleted=true")
    yield delete("/subjects/a/versions/9")
    yield delete("/subjects/a/versions/0")
    yield delete("/subjects/a/versions/x")
    yield register("a", avro("int"))
    yield register("a", avro("double"))
    yield get("/subjects/a/versions?deleted=true")


@story
def subject() -> Iterator[Call]:
    """A whole subject, soft and then hard."""
    yield register("a", avro("int"))
    yield register("a", avro("long"))
    yield register("b", avro("int"))
    yield set_level("FULL", "a")
    yield delete("/subjects/a?permanent=true")
    yield delete("/subjects/a")
    yield delete("/subjects/a")
    yield get("/subjects")
    yield get("/subjects?deleted=true")
    yield get("/subjects?deletedOnly=true")
    yield get("/subjects/a/versions")
    yield get("/subjects/a/versions?deleted=true")
    yield get("/subjects/a/versions/1")
    yield get("/subjects/a/versions/1?deleted=true")
    yield get("/subjects/a/versions/latest?deleted=true")
    yield get("/config/a")
    yield look_up("a", avro("int"))
    yield look_up("a", avro("int"), "?deleted=true")
    yield check("a", avro("int"))
    yield get("/schemas/ids/1/subjects")
    yield get("/schemas/ids/1/subjects?deleted=true")
    yield delete("/subjects/a?permanent=true")
    yield delete("/subjects/a?permanent=true")
    yield get("/subjects?deleted=true")
    yield get("/subjects/a/versions?deleted=true")
    yield get("/schemas/ids/1")
    yield get("/schemas/ids/2")
    yield register("a", avro("string"))
    yield get("/subjects/a/versions")
    yield register("c", avro("long"))


@story
def again() -> Iterator[Call]:
    """Schemas that are registered again after a delete."""
    yield register("a", avro("int"))
    yield delete("/subjects/a")
    yield register("a", avro("int"))
    yield get("/subjects/a/versions")
    yield get("/subjects/a/versions?deleted=true")
    yield delete("/subjects/a/versions/latest")
    yield register("a", avro("string"))
    yield get("/subjects/a/versions?deleted=true")
    yield delete("/subjects/a/versions/1?permanent=true")
    yield get("/subjects/a/versions?deleted=true")
    yield register("a", avro("int"))
    yield delete("/subjects/a")
    yield delete("/subjects/a?permanent=true")
    yield register("a", avro("int"))
    yield get("/subjects/a/versions")

"""Contexts: name spaces of subjects, each with ids of its own."""

from collections.abc import Iterator

from tests.unit.registry.answers.call import (
    Call,
    avro,
    check,
    delete,
    get,
    look_up,
    post,
    record,
    reference,
    register,
    set_level,
    set_mode,
    story,
)


@story
def subjects() -> Iterator[Call]:
    """Subjects with a context in their name."""
    yield register("a", avro("int"))
    yield register(":.ctx:a", avro("string"))
    yield register(":.ctx:b", avro("int"))
    yield register(":.:c", avro("long"))
    yield register(":.ctx.inner:a", avro("bytes"))
    yield get("/contexts")
    yield get("/contexts?contextPrefix=.ctx")
    yield get("/contexts?offset=1&limit=1")
    yield get("/subjects")
    yield get("/subjects?subjectPrefix=:.ctx:")
    yield get("/subjects?subjectPrefix=:.ctx:b")
    yield get("/subjects?subjectPrefix=:*:")
    yield get("/subjects?subjectPrefix=:.:")
    yield get("/subjects?subjectPrefix=a")
    yield get("/subjects/:.ctx:a/versions")
    yield get("/subjects/:.ctx:a/versions/1")
    yield get("/subjects/:.:a/versions/1")
    yield get("/subjects/b/versions/latest")
    yield get("/subjects/:.none:a/versions/latest")
    yield get("/schemas/ids/1")
    yield get("/schemas/ids/1?subject=:.ctx:")
    yield get("/schemas/ids/1?subject=:.ctx:b")
    yield get("/schemas/ids/2?subject=b")
    yield get("/schemas/ids/2?subject=a")
    yield get("/schemas/ids/1/subjects?subject=:.ctx:")
    yield get("/schemas/ids/1/versions?subject=:.ctx:")
    yield get("/schemas/ids/1/schema?subject=:.ctx:a")
    yield get("/schemas?subjectPrefix=:.ctx:")
    yield get("/schemas?subjectPrefix=:*:")
    yield get("/schemas/guids/ef524ea1-b91e-7317-3d93-8ade36c1db32/ids")
    yield look_up(":.ctx:a", avro("string"))
    yield look_up(":.ctx:a", avro("int"))
    yield check(":.ctx:b", avro("string"))
    yield delete("/contexts/.ctx")
    yield delete("/subjects/:.ctx:a")
    yield delete("/subjects/:.ctx:a?permanent=true")
    yield delete("/subjects/:.ctx:b")
    yield delete("/contexts/.ctx")
    yield delete("/subjects/:.ctx:b?permanent=true")
    yield get("/contexts")
    yield delete("/contexts/.ctx")
    yield delete("/contexts/.none")
    yield delete("/contexts/:.ctx.inner:")
    yield get("/contexts")


@story
def path() -> Iterator[Call]:
    """The context as the beginning of the path."""
    yield post("/contexts/.ctx/subjects/a/versions", avro("int"))
    yield get("/contexts/.ctx/subjects")
    yield get("/contexts/:.ctx:/subjects")
    yield get("/contexts/ctx/subjects")
    yield get("/contexts/.ctx/subjects/a/versions/1")
    yield get("/contexts/.ctx/subjects/:.other:a/versions/1")
    yield get("/contexts/.ctx/schemas/ids/1")
    yield get("/contexts/.ctx/schemas/ids/1/subjects")
    yield get("/contexts/.ctx/schemas")
    yield get("/contexts/.ctx/config")
    yield get("/contexts/.ctx/mode")
    yield get("/contexts/./subjects")
    yield get("/contexts/.none/subjects")
    yield get("/contexts/.ctx/contexts")


@story
def scope() -> Iterator[Call]:
    """Levels and modes of a context."""
    yield set_level("NONE", ":.ctx:")
    yield get("/config/:.ctx:")
    yield get("/config/:.ctx:a")
    yield get("/config/:.ctx:a?defaultToGlobal=true")
    yield get("/config/a?defaultToGlobal=true")
    yield register(":.ctx:a", avro("int"))
    yield register(":.ctx:a", avro("string"))
    yield register("a", avro("int"))
    yield register("a", avro("string"))
    yield set_mode("READONLY", ":.ctx:")
    yield register(":.ctx:a", avro("bytes"))
    yield get("/mode/:.ctx:")
    yield get("/mode/:.ctx:a?defaultToGlobal=true")
    yield delete("/mode/:.ctx:")
    yield delete("/config/:.ctx:")
    yield get("/config/:.ctx:")
    yield set_level("FULL", ":.__GLOBAL:")
    yield get("/config/:.__GLOBAL:")
    yield get("/config")
    yield get("/config?defaultToGlobal=true")
    yield get("/config/:.ctx:a?defaultToGlobal=true")
    yield delete("/config/:.__GLOBAL:")
    yield set_level("FORWARD", ":.:")
    yield get("/config")
    yield get("/config/:.:")


@story
def reference_scope() -> Iterator[Call]:
    """References within a context and across contexts."""
    base = {"type": "record", "name": "Base", "fields": []}
    yield register(":.ctx:base", avro(base))
    yield register(":.ctx:uses", record("U", {"references": [reference("Base", "base")]}, u="Base"))
    yield register("uses", record("U", {"references": [reference("Base", "base")]}, u="Base"))
    yield register("uses", record("U", {"references": [reference("Base", ":.ctx:base")]}, u="Base"))
    yield get("/subjects/:.ctx:uses/versions/1")
    yield get("/subjects/:.ctx:uses/versions/1?referenceFormat=qualified")
    yield get("/subjects/uses/versions/1")
    yield get("/subjects/:.ctx:base/versions/1/referencedby")
    yield delete("/subjects/:.ctx:base")


@story
def names() -> Iterator[Call]:
    """Names that are no contexts, or only look like one."""
    yield register(":.a%20b:s", avro("int"))
    yield register(":ctx:s", avro("int"))
    yield register(":.ctx", avro("int"))
    yield register(":.ctx:", avro("int"))
    yield register("x:y", avro("int"))
    yield register(":.a-b_c.1:s", avro("int"))
    yield register(":.__GLOBAL:s", avro("int"))
    yield register(":*:s", avro("int"))
    yield register("__GLOBAL", avro("int"))
    yield register("__EMPTY", avro("int"))
    yield register(":.ctx:__EMPTY", avro("int"))
    yield get("/subjects")
    yield get("/contexts")

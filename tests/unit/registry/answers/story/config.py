"""Configs: global, of a subject, and what they change."""

from collections.abc import Iterator

from tests.unit.registry.answers.call import (
    Call,
    avro,
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

LEVELS = ("NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE")


@story
def levels() -> Iterator[Call]:
    """Compatibility levels, global and of a subject."""
    for level in LEVELS:
        yield set_level(level)
        yield get("/config")
    for level in LEVELS:
        yield set_level(level, "a")
        yield get("/config/a")
    yield set_level("full", "a")
    yield get("/config/a")
    yield set_level("SOMETIMES")
    yield set_level("SOMETIMES", "a")
    yield put("/config", {"compatibilityLevel": "FULL"})
    yield put("/config", {"compatibility": None})
    yield put("/config", {})
    yield put("/config/b", {})
    yield get("/config/b")
    yield delete("/config/a")
    yield get("/config/a")
    yield get("/config/a?defaultToGlobal=true")
    yield delete("/config/a")
    yield delete("/config")
    yield get("/config")
    yield delete("/config")


@story
def every_name() -> Iterator[Call]:
    """Every config by name, alone and together."""
    yield put("/config/a", {"normalize": True})
    yield get("/config/a")
    yield get("/config/a?defaultToGlobal=true")
    yield put("/config/a", {"compatibility": "FULL"})
    yield get("/config/a")
    yield put("/config/a", {"validateFields": True, "validateRules": True, "validateNewSchemas": False})
    yield put("/config/a", {"compatibilityPolicy": "LENIENT"})
    yield put("/config/a", {"compatibilityPolicy": "lenient"})
    yield put("/config/c", {"compatibilityPolicy": "KIND"})
    yield put("/config/a", {"compatibilityGroup": "major"})
    yield put("/config/a", {"defaultMetadata": {"properties": {"owner": "x"}}})
    yield put("/config/a", {"overrideMetadata": {"tags": {"t": ["u"]}, "sensitive": ["s"]}})
    rules = [{"name": "r", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "true"}]
    yield put("/config/a", {"defaultRuleSet": {"domainRules": rules}})
    yield put("/config/a", {"overrideRuleSet": {"domainRules": [{"kind": "CONDITION"}]}})
    yield get("/config/a")
    yield put("/config/a", {"normalize": None})
    yield put("/config/a", {"normalize": "true"})
    yield put("/config/a", {"normalize": "perhaps"})
    yield put("/config/a", {"unknown": 1})
    yield get("/config/a")
    yield put("/config", {"normalize": True, "compatibility": "NONE"})
    yield get("/config")
    yield get("/config/b?defaultToGlobal=true")
    yield delete("/config/a")


@story
def alias() -> Iterator[Call]:
    """A subject that is another name of one."""
    yield register("real", avro("int"))
    yield put("/config/name", {"alias": "real"})
    yield get("/config/name")
    yield get("/subjects/name/versions")
    yield get("/subjects/name/versions/1")
    yield get("/subjects/name/versions/latest")
    yield look_up("name", avro("int"))
    yield register("name", avro("long"))
    yield get("/subjects")
    yield get("/schemas?aliases=true")
    yield put("/config/loop", {"alias": "loop"})
    yield get("/subjects/loop/versions/1")
    yield delete("/config/name")
    yield get("/subjects/name/versions/1")


@story
def group() -> Iterator[Call]:
    """Compatibility only among versions with the same value of a property."""
    yield put("/config/a", {"compatibilityGroup": "major"})
    for major, name in (("1", "int"), ("2", "string"), ("2", "int"), ("1", "long")):
        yield register("a", avro(name, metadata={"properties": {"major": major}}))
    yield get("/subjects/a/versions")


@story
def defaults() -> Iterator[Call]:
    """Metadata and rule sets that a config adds to schemas."""
    rule = {"name": "r", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "true"}
    yield put("/config/a", {"defaultMetadata": {"properties": {"owner": "x", "team": "t"}}})
    yield register("a", record("R", a="int"))
    yield register("a", record("R", {"metadata": {"properties": {"owner": "y"}}}, a="int"))
    yield put("/config/a", {"overrideMetadata": {"properties": {"owner": "z"}}})
    yield register("a", record("R", {"metadata": {"properties": {"owner": "y"}}}, a="int", b=("int", 0)))
    yield put("/config/a", {"defaultRuleSet": {"domainRules": [rule]}})
    yield register("a", record("R", a="int", b=("int", 0), c=("int", 0)))
    yield get("/subjects/a/versions/latest")
    yield get("/subjects/a/versions")


@story
def modes() -> Iterator[Call]:
    """Modes, global and of a subject."""
    for mode in ("READONLY", "READONLY_OVERRIDE", "IMPORT", "READWRITE", "readonly", "FORWARD", "SLEEP"):
        yield set_mode(mode)
        yield get("/mode")
        yield get("/mode?defaultToGlobal=true")
    for mode in ("READONLY", "READONLY_OVERRIDE", "IMPORT", "READWRITE", "FORWARD", "SLEEP"):
        yield set_mode(mode, "a")
        yield get("/mode/a")
        yield get("/mode/a?defaultToGlobal=true")
    yield put("/mode", {})
    yield put("/mode/a", {"mode": None})
    yield put("/mode/a", {"other": "READONLY"})
    yield delete("/mode/a")
    yield delete("/mode/a")
    yield delete("/mode/a?recursive=true")
    yield delete("/mode")
    yield delete("/mode")
    yield get("/mode")

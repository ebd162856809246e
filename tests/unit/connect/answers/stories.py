"""The stories that are told to Kafka Connect and to our service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.unit.connect.answers.call import (
    BROKEN,
    JSON,
    LINES,
    ORDERS,
    SINK,
    SOURCE,
    STORIES,
    Settle,
    Step,
    create,
    delete,
    get,
    of_sink,
    patch,
    post,
    put,
    running,
    story,
)
from tests.unit.registry.answers.call import Call

__all__ = ["STORIES"]

VALIDATE = "/connector-plugins/{}/config/validate"


@story
def life() -> Iterator[Step]:
    yield get("/connectors")
    yield get("/connectors?expand=status")
    yield create("lines", LINES)
    yield running("lines")
    yield get("/connectors")
    yield get("/connectors?expand=status")
    yield get("/connectors?expand=info")
    yield get("/connectors?expand=info&expand=status")
    yield get("/connectors?expand=other")
    yield get("/connectors?expand=")
    yield get("/connectors/lines")
    yield get("/connectors/lines/")
    yield get("/connectors/lines/config")
    yield get("/connectors/lines/status")
    yield get("/connectors/lines/tasks")
    yield get("/connectors/lines/tasks/0/status")
    yield get("/connectors/lines/topics")
    yield put("/connectors/lines/topics/reset")
    yield get("/connectors/lines/offsets")
    yield create("lines", LINES)
    yield delete("/connectors/lines")
    yield delete("/connectors/lines")
    yield get("/connectors")


@story
def creation() -> Iterator[Step]:
    yield create("a", {})
    yield create("", LINES)
    yield create("  ", LINES)
    yield post("/connectors", {"config": LINES})
    yield post("/connectors", {"name": None, "config": LINES})
    yield post("/connectors", {"name": 7, "config": {}})
    yield post("/connectors", {"name": {}, "config": LINES})
    yield post("/connectors", {"name": "a"})
    yield post("/connectors", {"name": "a", "config": None})
    yield post("/connectors", {"name": "a", "config": []})
    yield post("/connectors", {"name": "a", "config": "text"})
    yield post("/connectors", {"name": "a", "config": LINES, "other": 1})
    yield create("a\nb", LINES)
    yield create("a", {**LINES, "name": "b"})
    yield create("a", {**LINES, "connector.class": "No"})
    yield create("a", {**LINES, "connector.class": ""})
    yield create("a", {"connector.class": SOURCE, "file": "x"})
    yield create("a", {**LINES, "topic": ""})
    yield create("a", {**LINES, "tasks.max": "none"})
    yield create("a", {**LINES, "tasks.max": "0"})
    yield create("a", {**LINES, "batch.size": {}})
    yield create("a", {**LINES, "batch.size": [1]})
    yield create("a", {"connector.class": SINK, "file": "/dev/null"})
    yield create("a", {**ORDERS, "topics.regex": "o.*"})
    yield create("a", LINES, initial_state="LATER")
    yield create("a", LINES, initial_state="running")
    yield delete("/connectors/a")
    yield create("a", LINES, initial_state="")
    yield create("a", LINES, initial_state=None)
    yield delete("/connectors/a")
    yield create("a", LINES, initial_state=7)
    yield post("/connectors", [])
    yield post("/connectors", "{")
    yield post("/connectors", "")
    yield post("/connectors", "null")
    yield post("/connectors", "text")
    yield post("/connectors", '{"name": "a", "name": "b", "config": {}}')
    yield post("/connectors", '{"name": "a", "config": {}} {}')
    yield Call("POST", "/connectors", '{"name": "a"}', {"Content-Type": "text/plain"})
    yield Call("POST", "/connectors", '{"name": "a"}', {"Content-Type": "application/vnd.other+json"})
    yield Call("GET", "/connectors", None, {"Accept": "text/plain"})
    yield Call("POST", "/connectors", None)
    yield get("/connectors")


@story
def values() -> Iterator[Step]:
    """Numbers and truth values are texts, and a setting may be null."""
    yield create("a", {**LINES, "tasks.max": 1, "batch.size": 5})
    yield get("/connectors/a/config")
    yield put("/connectors/a/config", {**LINES, "batch.size": 7, "file": None})
    yield put("/connectors/a/config", {**LINES, "errors.log.enable": True, "batch.size": 7.0})
    yield delete("/connectors/a")


@story
def initial_state() -> Iterator[Step]:
    yield create("a", LINES, initial_state="STOPPED")
    yield Settle("a", "STOPPED", ())
    yield get("/connectors/a/status")
    yield get("/connectors/a/tasks")
    yield delete("/connectors/a")
    yield create("b", LINES, initial_state="PAUSED")
    yield Settle("b", "PAUSED", ())
    yield get("/connectors/b/status")
    yield get("/connectors/b/tasks")
    yield delete("/connectors/b")


@story
def configs() -> Iterator[Step]:
    yield put("/connectors/lines/config", LINES)
    yield running("lines")
    yield put("/connectors/lines/config", {**LINES, "batch.size": "5"})
    yield running("lines")
    yield get("/connectors/lines/config")
    yield put("/connectors/lines/config", {**LINES, "name": "other"})
    yield put("/connectors/lines/config", {})
    yield put("/connectors/lines/config", "[]")
    yield put("/connectors/lines/config", "{")
    yield put("/connectors/lines/config", "null")
    yield put("/connectors/lines/config", {"connector.class": SOURCE})
    yield put("/connectors/lines/config", {**LINES, "connector.class": "No"})
    yield patch("/connectors/lines/config", {"batch.size": "7"})
    yield patch("/connectors/lines/config", {"batch.size": None})
    yield patch("/connectors/lines/config", {"topic": None})
    yield patch("/connectors/lines/config", {"connector.class": None})
    yield patch("/connectors/lines/config", {})
    yield patch("/connectors/lines/config", "{")
    yield patch("/connectors/no/config", {"batch.size": "7"})
    yield get("/connectors/no/config")
    yield get("/connectors/lines/config")
    yield patch("/connectors/lines/config", {"name": None})
    yield patch("/connectors/lines/config", {"name": "other"})
    yield patch("/connectors/lines/config", {"batch.size": 0})
    yield delete("/connectors/lines")


@story
def states() -> Iterator[Step]:
    yield create("lines", LINES)
    yield running("lines")
    yield put("/connectors/lines/pause")
    yield Settle("lines", "PAUSED", ("PAUSED",))
    yield get("/connectors/lines/status")
    yield put("/connectors/lines/pause")
    yield post("/connectors/lines/restart")
    yield get("/connectors/lines/offsets")
    yield delete("/connectors/lines/offsets")
    yield put("/connectors/lines/config", {**LINES, "batch.size": "5"})
    yield Settle("lines", "PAUSED", ("PAUSED",))
    yield put("/connectors/lines/resume")
    yield running("lines")
    yield put("/connectors/lines/resume")
    yield put("/connectors/lines/stop")
    yield Settle("lines", "STOPPED", ())
    yield get("/connectors/lines/status")
    yield get("/connectors/lines")
    yield get("/connectors/lines/tasks")
    yield get("/connectors/lines/tasks/0/status")
    yield put("/connectors/lines/stop")
    yield put("/connectors/lines/pause")
    yield Settle("lines", "PAUSED", ())
    yield put("/connectors/lines/resume", {})
    yield running("lines")
    yield delete("/connectors/lines")


@story
def restarts() -> Iterator[Step]:
    yield create("lines", LINES)
    yield running("lines")
    yield post("/connectors/lines/restart")
    yield running("lines")
    yield post("/connectors/lines/restart?includeTasks=true")
    yield running("lines")
    yield post("/connectors/lines/restart?onlyFailed=true")
    yield post("/connectors/lines/restart?includeTasks=true&onlyFailed=true")
    yield post("/connectors/lines/restart?includeTasks=perhaps")
    yield running("lines")
    yield post("/connectors/lines/tasks/0/restart")
    yield running("lines")
    yield post("/connectors/lines/tasks/1/restart")
    yield post("/connectors/lines/tasks/-1/restart")
    yield post("/connectors/lines/tasks/x/restart")
    yield delete("/connectors/lines")


@story
def failures() -> Iterator[Step]:
    yield create("broken", BROKEN)
    yield Settle("broken", "RUNNING", ("FAILED",))
    yield get("/connectors/broken/status")
    yield get("/connectors/broken/tasks/0/status")
    yield post("/connectors/broken/restart?includeTasks=true&onlyFailed=true")
    yield Settle("broken", "RUNNING", ("FAILED",))
    yield put("/connectors/broken/pause")
    yield delete("/connectors/broken")


@story
def no_such_connector() -> Iterator[Step]:
    for path in ("", "/config", "/status", "/tasks", "/tasks/0/status", "/topics", "/offsets", "/other", "/tasks/0"):
        yield get(f"/connectors/no{path}")
    for path in ("/pause", "/resume", "/stop", "/topics/reset"):
        yield put(f"/connectors/no{path}")
    yield post("/connectors/no/restart")
    yield post("/connectors/no/tasks/0/restart")
    yield delete("/connectors/no")
    yield delete("/connectors/no/offsets")
    yield patch("/connectors/no/offsets", {"offsets": [of_sink(0, 1)]})


@story
def tasks() -> Iterator[Step]:
    yield create("lines", LINES)
    yield running("lines")
    yield get("/connectors/lines/tasks/1/status")
    yield get("/connectors/lines/tasks/-1/status")
    yield get("/connectors/lines/tasks/x/status")
    yield get("/connectors/lines/tasks/99999999999/status")
    yield get("/connectors/lines/tasks-config")
    yield delete("/connectors/lines")


@story
def offsets_of_a_source() -> Iterator[Step]:
    partition = {"filename": "/nonexistent/lines.txt"}
    yield create("lines", LINES)
    yield running("lines")
    yield patch("/connectors/lines/offsets", {"offsets": [{"partition": partition, "offset": {"position": 5}}]})
    yield delete("/connectors/lines/offsets")
    yield put("/connectors/lines/stop")
    yield Settle("lines", "STOPPED", ())
    for offset in ({"position": 5}, {"position": -1}, {"position": "x"}, {"other": 1}, {}, 7, None):
        yield patch("/connectors/lines/offsets", {"offsets": [{"partition": partition, "offset": offset}]})
    yield get("/connectors/lines/offsets")
    yield patch("/connectors/lines/offsets", {"offsets": [{"partition": {"other": 1}, "offset": {"position": 5}}]})
    yield patch("/connectors/lines/offsets", {"offsets": [{"partition": partition, "offset": {"position": 9}}]})
    yield get("/connectors/lines/offsets")
    yield delete("/connectors/lines/offsets")
    yield get("/connectors/lines/offsets")
    yield delete("/connectors/lines/offsets")
    yield delete("/connectors/lines")


@story
def offsets_of_a_sink() -> Iterator[Step]:
    yield create("out", ORDERS)
    yield running("out")
    yield patch("/connectors/out/offsets", {"offsets": [of_sink(1, 7)]})
    yield put("/connectors/out/stop")
    yield Settle("out", "STOPPED", ())
    yield delete("/connectors/out/offsets")
    yield get("/connectors/out/offsets")
    body: Any
    for body in ({"offsets": []}, {}, {"offsets": None}, {"offsets": {}}, {"offsets": [{}]}, "[]", "{", "null"):
        yield patch("/connectors/out/offsets", body)
    for partition, offset in ((1, -7), (1, "x"), ("x", 7), (None, 7), (1, None), (-1, 7), (1, 7.5), (True, 7)):
        yield patch("/connectors/out/offsets", {"offsets": [of_sink(partition, offset)]})
    yield patch("/connectors/out/offsets", {"offsets": [{"partition": {"filename": "x"}, "offset": {"position": 1}}]})
    yield patch("/connectors/out/offsets", {"offsets": [{"partition": {}, "offset": {"kafka_offset": 1}}]})
    yield patch("/connectors/out/offsets", {"offsets": [of_sink(9, 7)]})
    yield patch("/connectors/out/offsets", {"offsets": [of_sink(0, 7, "no-such-topic")]})
    yield patch("/connectors/out/offsets", {"offsets": [of_sink(1, 7)]})
    yield get("/connectors/out/offsets")
    yield patch("/connectors/out/offsets", {"offsets": [of_sink("0", "3")]})
    yield get("/connectors/out/offsets")
    yield patch("/connectors/out/offsets", {"offsets": [{"partition": of_sink(1, 7)["partition"], "offset": None}]})
    yield get("/connectors/out/offsets")
    yield delete("/connectors/out/offsets")
    yield get("/connectors/out/offsets")
    yield delete("/connectors/out")


@story
def names() -> Iterator[Step]:
    for name, encoded in (
        ("a b", "a%20b"),
        ("a/b", "a%2Fb"),
        ("100%", "100%25"),
        ("a+b", "a+b"),
        ("é—漢", "%C3%A9%E2%80%94%E6%BC%A2"),
        ("a;b?c#d", "a%3Bb%3Fc%23d"),
        (" padded ", "%20padded%20"),
        ("a\\b", "a%5Cb"),
        ("..", "%2E%2E"),
    ):
        yield create(name, {**LINES, "topic": "lines"}, initial_state="STOPPED")
        yield get(f"/connectors/{encoded}")
        yield get(f"/connectors/{encoded}/config")
        yield delete(f"/connectors/{encoded}")
    yield get("/connectors/%ZZ")
    yield get("/connectors/%FF")
    yield get("/connectors/a%00b")
    yield put("/connectors/%20/config", LINES)
    yield put("/connectors/a%0Ab/config", LINES)
    yield delete("/connectors/padded")


@story
def plugins() -> Iterator[Step]:
    yield get("/connector-plugins")
    yield get("/connector-plugins?connectorsOnly=false")
    yield get("/connector-plugins/No/config")
    yield get("/connector-plugins/FileStreamSource/config")
    yield put(VALIDATE.format(SOURCE), {})
    yield put(VALIDATE.format(SOURCE), {**LINES, "name": "a"})
    yield put(VALIDATE.format("FileStreamSource"), {"connector.class": "FileStreamSource", "file": "x"})
    yield put(VALIDATE.format("FileStreamSink"), {**LINES, "name": "a"})
    yield put(VALIDATE.format("No"), {**LINES, "name": "a"})
    yield put(VALIDATE.format("No"), {**LINES, "connector.class": "No", "name": "a"})
    yield put(VALIDATE.format(SOURCE), "{")
    yield put(VALIDATE.format(SOURCE), "[]")
    yield get(VALIDATE.format(SOURCE))


@story
def loggers() -> Iterator[Step]:
    name = "tailrace.answers"
    yield get(f"/admin/loggers/{name}")
    yield put(f"/admin/loggers/{name}", {"level": "debug"})
    yield get(f"/admin/loggers/{name}")
    yield put(f"/admin/loggers/{name}", {"level": "LOUD"})
    yield put(f"/admin/loggers/{name}", {})
    yield put(f"/admin/loggers/{name}", {"level": None})
    yield put(f"/admin/loggers/{name}", {"level": 7})
    yield put(f"/admin/loggers/{name}", "[]")
    yield put(f"/admin/loggers/{name}", "{")
    yield put(f"/admin/loggers/{name}?scope=cluster", {"level": "WARN"})
    yield put(f"/admin/loggers/{name}?scope=worker", {"level": "ERROR"})
    yield put(f"/admin/loggers/{name}?scope=other", {"level": "INFO"})
    yield get(f"/admin/loggers/{name}")


@story
def worker() -> Iterator[Step]:
    yield get("/")
    yield get("/health")
    yield get("/nowhere")
    yield get("/connectors/a/b/c/d")
    yield get("//connectors")
    yield put("/connectors")
    yield delete("/connectors")
    yield post("/connectors/lines")
    yield get("/connectors/lines/pause")
    yield post("/connectors/lines/pause")
    yield put("/")
    yield post("/connector-plugins")
    yield Call("HEAD", "/connectors")
    yield Call("OPTIONS", "/connectors")
    yield Call("BREW", "/connectors")
    yield Call("GET", "/", None, JSON)

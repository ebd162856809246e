"""Confluent's serializers, deserializers and Connect converters for Java, in a process that answers requests.

Maven Central does not have them, so they must be on this machine: TAILRACE_CONFLUENT_JARS names folders of jars or of
classes, separated as in a class path.
"""

from __future__ import annotations

import hashlib
import json
import os
import queue
import subprocess
import threading
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import Any, Self

from bench.cache import NotInstalled, require_tool
from tests.clients.program import HERE, JAVA_OPTIONS, RUN_TIMEOUT_S, compile_java

VARIABLE = "TAILRACE_CONFLUENT_JARS"


class JavaError(Exception):
    """What a class of Confluent's raised, with its causes."""


class Serdes:
    """The Java program, for one registry and one broker. Use it as a context manager.

    Raise `Unavailable` if this machine lacks Java or Confluent's classes.
    """

    def __init__(self, registry_url: str, bootstrap_servers: str) -> None:
        options = ["-cp", serdes_classpath(), "Serdes", registry_url, bootstrap_servers]
        self._command = [require_tool("java"), *JAVA_OPTIONS, *options]
        self._answers: queue.Queue[str] = queue.Queue()

    def __enter__(self) -> Self:
        self._log = TemporaryFile()
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, encoding="utf-8"
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(RUN_TIMEOUT_S)
        finally:
            self._process.kill()
            self._reader.join()
            self._process.stdout.close()
            self._log.close()

    def ask(self, do: str, **members: Any) -> dict[str, Any]:
        """Send a request and return its answer; raise `JavaError` if the answer is an error."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **members}) + "\n")
        self._process.stdin.flush()
        line = self._answers.get(timeout=RUN_TIMEOUT_S)
        if not line:
            self._log.seek(0)
            raise AssertionError(f"the Java program ended:\n{self._log.read().decode()[-4000:]}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise JavaError(answer["error"])
        return answer

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put("")


def serdes_classpath() -> str:
    """Return the class path of the program, and of Confluent's classes; raises `Unavailable`."""
    sources = sorted((HERE / "java" / "registry").glob("*.java"))
    classpath = confluent_classpath()
    classes = compile_java(f"registry-{hashlib.sha256(classpath.encode()).hexdigest()[:8]}", sources, classpath)
    return os.pathsep.join([str(classes), classpath])


def confluent_classpath() -> str:
    """Return the class path of Confluent's classes; raise `NotInstalled` if the environment does not name them."""
    named = os.environ.get(VARIABLE)
    if not named:
        raise NotInstalled(
            f"Confluent's serializers for Java are not on Maven Central: set {VARIABLE}, see REGISTRY.md"
        )
    folders = [Path(each).resolve() for each in named.split(os.pathsep)]
    missing = [str(folder) for folder in folders if not folder.is_dir()]
    if missing:
        raise NotInstalled(f"{VARIABLE} names folders that do not exist: {', '.join(missing)}")
    return os.pathsep.join(f"{folder}{os.pathsep}{folder}/*" for folder in folders)

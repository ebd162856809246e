"""The clients that are not Python: how `make fetch` downloads and builds each, and how it is run.

A client that is missing is `Unavailable` and makes a test skip with the reason. Anything that fails later (a workload
that exits with an error) fails the test.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.cache import NotInstalled, built_once, cache_folder, fingerprint, require_tool, resolve
from bench.maven import Classpath

HERE = Path(__file__).resolve().parent
BUILD_TIMEOUT_S = 600.0
RUN_TIMEOUT_S = 100.0
SLF4J_VERSION = "1.7.36"
TOKEN_LIBRARIES = ("com.fasterxml.jackson.core:jackson-databind:2.21.2", "org.bitbucket.b_c:jose4j:0.9.6")
KAFKA_CONNECT_PY, KAFKA_CONNECT_API = "kafka-connect-py==1.0.0", "kafka-connect-api==0.5.10"
JAVA_VERSION_MIN = 17
# For programs that live for seconds: most of what they cost is starting and compiling.
JAVA_OPTIONS = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


@dataclass
class Program:
    """A workload program in another language."""

    name: str
    prepare: Callable[[], tuple[list[str], dict[str, str]]]
    _ready: tuple[list[str], dict[str, str]] | None = field(default=None, repr=False)

    def ready(self) -> tuple[list[str], dict[str, str]]:
        """Its command and environment, made when first asked for."""
        if self._ready is None:
            self._ready = self.prepare()
        command, environment = self._ready
        return command, {**os.environ, **environment}

    def run(self, phase: str, bootstrap: str, topic: str, *options: str) -> dict[str, Any]:
        """Run one phase and return the report that it printed."""
        command, environment = self.ready()
        done = subprocess.run(
            [*command, phase, bootstrap, topic, *options],
            env=environment,
            capture_output=True,
            text=True,
            timeout=RUN_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            raise AssertionError(
                f"{self.name} {phase} ended with status {done.returncode}:\n{done.stdout}{done.stderr[-4000:]}"
            )
        report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return report


def java(version: str, main: str = "Workload") -> Program:
    """Java's kafka-clients in that version."""
    return Program(f"kafka-clients {version}", lambda: _prepare_java(version, main))


def java_with_tokens(version: str, main: str) -> Program:
    """The same with the libraries that kafka-clients reads OAuth tokens with, which it leaves to its users to add."""
    return Program(f"kafka-clients {version}", lambda: _prepare_java(version, main, TOKEN_LIBRARIES))


def go(client: str) -> Program:
    """`franz`, `sarama`, or franz-go in a group: `member`, or `copier`, which copies a topic."""
    return Program(client, lambda: _prepare_go(client))


def node(script: str = "workload.js") -> Program:
    """kafkajs."""
    return Program("kafkajs", lambda: _prepare_node(script))


def compile_java(name: str, sources: Sequence[Path], classpath: str) -> Path:
    """Compile Java sources once and return the folder of their classes."""
    compiler = require_tool("javac")
    _require_java(compiler)
    folder = cache_folder("clients") / f"java-{name}-{_fingerprint(sources)}"

    def compile_to(unfinished: Path) -> None:
        options = ["-encoding", "UTF-8", "-proc:none", "-cp", classpath, "-d", str(unfinished)]
        _build([compiler, *options, *map(str, sources)], HERE / "java")

    return built_once(folder, compile_to)


def python_package(requirement: str) -> Path:
    """Return the folder with a package of PyPI and its dependencies, apart from those that the tests run with."""

    def install_to(unfinished: Path) -> None:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(unfinished), requirement]
        resolve(command, what=requirement, cwd=unfinished)

    return built_once(cache_folder("connect-clients") / requirement, install_to)


def _prepare_java(version: str, main: str, more: Sequence[str] = ()) -> tuple[list[str], dict[str, str]]:
    coordinates = [f"org.apache.kafka:kafka-clients:{version}", f"org.slf4j:slf4j-nop:{SLF4J_VERSION}", *more]
    classpath = Classpath.of(f"clients-{version}{'-tokens' if more else ''}", coordinates)
    folder = compile_java(version, sorted((HERE / "java").glob("*.java")), str(classpath))
    return [require_tool("java"), *JAVA_OPTIONS, "-cp", f"{folder}{os.pathsep}{classpath}", main], {}


def _require_java(compiler: str) -> None:
    said = subprocess.run([compiler, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r"javac (\d+)", said.stdout + said.stderr)
    if found is None or int(found.group(1)) < JAVA_VERSION_MIN:
        raise NotInstalled(f"the Java workload needs a JDK of version {JAVA_VERSION_MIN} or newer")


def _prepare_go(client: str) -> tuple[list[str], dict[str, str]]:
    compiler = require_tool("go")
    source = HERE / "go"
    cache = cache_folder("clients")
    flags = f"{os.environ.get('GOFLAGS', '')} -modcacherw".strip()
    environment = {
        **os.environ,
        "GOMODCACHE": str(cache / "go-modules"),
        "GOCACHE": str(cache / "go-build"),
        # An older Go must say that it is too old, not download another Go.
        "GOTOOLCHAIN": "local",
        "GOFLAGS": flags,
    }
    folder = cache / f"go-{_fingerprint(source.rglob('*.*'))}"

    def compile_to(unfinished: Path) -> None:
        resolve([compiler, "mod", "download"], what="Go modules", cwd=source, env=environment)
        programs = ["./copier", "./franz", "./guess", "./login", "./member", "./sarama"]
        _build([compiler, "build", "-o", f"{unfinished}{os.sep}", *programs], source, environment)

    return [str(built_once(folder, compile_to) / client)], {}


def _prepare_node(script: str) -> tuple[list[str], dict[str, str]]:
    program, installer = require_tool("node"), require_tool("npm")
    wanted = HERE / "node" / "package.json"
    folder = cache_folder("clients") / f"node-{_fingerprint([wanted])}"

    def install_to(unfinished: Path) -> None:
        shutil.copy(wanted, unfinished)
        options = ["--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=0"]
        resolve([installer, "install", *options], what="npm packages", cwd=unfinished)

    built_once(folder, install_to)
    return [program, str(HERE / "node" / script)], {"NODE_PATH": str(folder / "node_modules")}


def _fingerprint(files: Iterable[Path]) -> str:
    return fingerprint(file.name.encode() + file.read_bytes() for file in sorted(files))


def _build(command: list[str], cwd: Path, environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False
    )
    if done.returncode != 0:
        raise AssertionError(f"{command[0]} could not build the workload:\n{done.stdout}{done.stderr}")

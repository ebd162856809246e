"""Small programs that stand before others, kept in a cache: what they are is their name, so each is written once."""

import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path

from runnel.spark.error import SessionError


def write_program(name: str, script: str, cache: Path | None = None) -> Path:
    """The path of a program with this script, in a folder `bin` of its own; raises `SessionError`."""
    digest = hashlib.sha256(script.encode()).hexdigest()[:16]
    for parent in (cache or _cache_folder(), Path(tempfile.gettempdir()) / f"runnel-{os.getuid()}"):
        with suppress(OSError):
            return _write(parent / name / digest, name, script)
    raise SessionError(f"no folder can be written for the program {name}; set XDG_CACHE_HOME to one that can")


def _cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "runnel"


def _write(home: Path, name: str, script: str) -> Path:
    """Whoever comes at the same time writes the same; the rename lets nobody see half of it."""
    program = home / "bin" / name
    program.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if home.stat().st_uid != os.getuid():
        raise PermissionError(f"{home} belongs to somebody else")
    if not program.exists() or program.read_text() != script:
        unfinished = program.with_name(f"{name}.{os.getpid()}")
        unfinished.write_text(script)
        unfinished.chmod(0o755)
        unfinished.replace(program)
    return program

"""Wrapper programs in a cache, named by a hash of their contents, so each is written once."""

import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path

from tailrace.spark.error import SessionError


def write_program(name: str, script: str, cache: Path | None = None) -> Path:
    """Return the path of a program with this script, in a folder `bin` of its own; raises `SessionError`."""
    digest = hashlib.sha256(script.encode()).hexdigest()[:16]
    for parent in (cache or _cache_folder(), Path(tempfile.gettempdir()) / f"tailrace-{os.getuid()}"):
        with suppress(OSError):
            return _write(parent / name / digest, name, script)
    raise SessionError(f"no writable folder for the program {name}; set XDG_CACHE_HOME to one")


def _cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tailrace"


def _write(home: Path, name: str, script: str) -> Path:
    """Write a program atomically; concurrent processes write the same contents."""
    program = home / "bin" / name
    program.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if home.stat().st_uid != os.getuid():
        raise PermissionError(f"{home} belongs to another user")
    if not program.exists() or program.read_text() != script:
        unfinished = program.with_name(f"{name}.{os.getpid()}")
        unfinished.write_text(script)
        unfinished.chmod(0o755)
        unfinished.replace(program)
    return program

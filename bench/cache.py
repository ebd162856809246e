"""Where downloads and builds are kept, and how two processes that want the same one take turns.

Everything lives under `.cache/` of the checkout, which git ignores. An entry is built in a
sibling folder and renamed into place, so a folder that exists is a folder that is whole.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
RESOLVE_TIMEOUT_S = 240.0


class Unavailable(Exception):  # noqa: N818 (a state of the machine, not an error)
    """Something that this machine lacks, or cannot fetch; the message says what."""


def cache_folder(name: str, variable: str | None = None) -> Path:
    """The folder for `name` under the cache, or the one that the environment variable names."""
    override = os.environ.get(variable) if variable else None
    return Path(override) if override else CHECKOUT / ".cache" / name


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on `path`; it ends with the process at the latest."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def built_once(folder: Path, build: Callable[[Path], None]) -> Path:
    """Return `folder`, made by `build` the first time; a build that raises leaves nothing behind."""
    if folder.is_dir():
        return folder
    with lock(folder.with_name(folder.name + ".lock")):
        if folder.is_dir():
            return folder
        unfinished = folder.with_name(folder.name + ".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        build(unfinished)
        unfinished.rename(folder)
    return folder


def require_tool(name: str) -> str:
    """The path of a program, or `Unavailable`."""
    path = shutil.which(name)
    if path is None:
        raise Unavailable(f"{name} is not installed")
    return path


def resolve(
    command: Sequence[str],
    *,
    what: str,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    timeout_s: float = RESOLVE_TIMEOUT_S,
) -> str:
    """Run a command that downloads; whatever goes wrong is `Unavailable`, with the tool's own words."""
    try:
        done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{what} could not be fetched within {timeout_s:.0f} s") from None
    if done.returncode != 0:
        raise Unavailable(f"{what} could not be fetched: {complaint(done.stdout + done.stderr)}")
    return done.stdout


def complaint(output: str) -> str:
    """The first line of a tool's output that looks like its reason, cut to a readable length."""
    lines = [line.strip() for line in re.sub(r"\x1b\[[0-9;]*m", "", output).splitlines() if line.strip()]
    marked = [line for line in lines if "error" in line.lower() or "require" in line.lower()]
    return next(iter(marked or lines[-1:]), "no message")[:200]

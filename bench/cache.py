"""The cache of downloads and builds, with a lock between processes.

Everything is under `.cache/` of the checkout, which git ignores. An entry is built in a sibling folder and then
renamed, so an existing folder is complete.

A process whose environment has TAILRACE_NO_DOWNLOAD=1 uses what is in the cache and builds nothing: so do the tests,
whose limits would otherwise count downloads. `make fetch` (`bench.fetch`) fills the cache before.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
RESOLVE_TIMEOUT_S = 240.0
NO_DOWNLOAD = "TAILRACE_NO_DOWNLOAD"
FETCH_HINT = "`make fetch` brings it"
"""The end of the reason of every test that is skipped for a missing part; the summary of a test run counts them."""


class Unavailable(Exception):
    """This machine lacks a tool, or cannot download something; the message says what."""


class NotInstalled(Unavailable):
    """A tool is missing or too old, so trying again does not help."""


class NotFetched(Unavailable):
    """The cache lacks something, and this process does not download."""


def may_download() -> bool:
    """Return whether the environment lets this process download and build."""
    return os.environ.get(NO_DOWNLOAD, "") in ("", "0")


@contextlib.contextmanager
def downloads(*, allowed: bool) -> Iterator[None]:
    """Let this process and those that it starts download during the block, or keep them from it."""
    before = os.environ.get(NO_DOWNLOAD)
    os.environ[NO_DOWNLOAD] = "0" if allowed else "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[NO_DOWNLOAD]
        else:
            os.environ[NO_DOWNLOAD] = before


def cache_folder(name: str, variable: str | None = None) -> Path:
    """Return the folder of `name` in the cache, or the one that the environment variable names."""
    override = os.environ.get(variable) if variable else None
    return Path(override) if override else CHECKOUT / ".cache" / name


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on `path`, at most until the process ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def built_once(folder: Path, build: Callable[[Path], None]) -> Path:
    """Return `folder`, built by `build` the first time; a failed build leaves nothing behind.

    Raise `NotFetched` if the folder is missing and this process may not download.
    """
    if folder.is_dir():
        return folder
    if not may_download():
        raise NotFetched(f"{folder.parent.name}/{folder.name} is not in the cache; {FETCH_HINT}")
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
    """Return the path of a program; raise `NotInstalled` if there is none."""
    path = shutil.which(name)
    if path is None:
        raise NotInstalled(f"{name} is not installed")
    return path


def fingerprint(parts: Iterable[bytes]) -> str:
    """Return a short hash of what an entry is built from, for the name of its folder."""
    sha = hashlib.sha256()
    for part in parts:
        sha.update(part)
    return sha.hexdigest()[:12]


def resolve(
    command: Sequence[str],
    *,
    what: str,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    timeout_s: float = RESOLVE_TIMEOUT_S,
) -> str:
    """Run a command that downloads; raise `Unavailable` with the tool's message if it fails."""
    try:
        done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{what} could not be fetched within {timeout_s:.0f} s") from None
    if done.returncode != 0:
        raise Unavailable(f"{what} could not be fetched: {complaint(done.stdout + done.stderr)}")
    return done.stdout


def complaint(output: str) -> str:
    """Return the first line of a tool's output that looks like the reason, shortened."""
    lines = [line.strip() for line in re.sub(r"\x1b\[[0-9;]*m", "", output).splitlines() if line.strip()]
    marked = [line for line in lines if "error" in line.lower() or "require" in line.lower()]
    return next(iter(marked or lines[-1:]), "no message")[:200]

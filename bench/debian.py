"""Programs that Debian packages and PyPI does not."""

from __future__ import annotations

import functools
import os
import shutil
from pathlib import Path

from bench.cache import FETCH_HINT, NotFetched, NotInstalled, may_download, resolve

APT_TIMEOUT_S = 600.0
ENVIRONMENT = {"DEBIAN_FRONTEND": "noninteractive"}
LOCK_WAIT = ("-o", "DPkg::Lock::Timeout=120")  # another program may be installing


def debian_program(program: str) -> str:
    """Return the path of a program, which is installed from the package of its name if it is missing.

    Raise `NotInstalled` if there is no apt-get, or this process is not root's.
    """
    if (path := shutil.which(program)) is not None:
        return path
    apt_get = shutil.which("apt-get")
    if apt_get is None or os.geteuid() != 0:
        raise NotInstalled(f"{program} is not installed, and only root can install it, with apt-get install {program}")
    if not may_download():
        raise NotFetched(f"{program} is not installed; {FETCH_HINT}")
    _update(apt_get)
    _run(apt_get, "install", "--yes", "--quiet", "--no-install-recommends", program)
    if (path := shutil.which(program)) is None:
        raise NotInstalled(f"Debian's package {program} has no program {program}")
    return path


@functools.cache
def _update(apt_get: str) -> None:
    """Learn which packages there are, once in a process; if that fails, the next call tries again."""
    _run(apt_get, "update", "--quiet")


def _run(apt_get: str, *arguments: str) -> None:
    command, environment = [apt_get, *LOCK_WAIT, *arguments], {**os.environ, **ENVIRONMENT}
    resolve(command, what=f"apt-get {arguments[0]}", cwd=Path("/"), env=environment, timeout_s=APT_TIMEOUT_S)

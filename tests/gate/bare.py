"""`make test` and the demo as on a machine that has nothing but Python, make and git.

    python -m tests.gate.bare --revision HEAD

Compilers, Java, other languages and servers are hidden in a mount namespace, and a user without rights runs the
commands in a new clone. The skips at the end of the tests say what was missing. It needs root on Linux.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.gate.lane import CHECKOUT

USER_ID = 61_500
HIDDEN = (
    *("cc", "c++", "gcc", "g++", "cpp", "as", "ld", "clang", "java", "javac", "mvn", "node", "nodejs", "npm", "npx"),
    *("go", "cargo", "rustc", "perl", "docker", "tmux", "kcat", "redis-server"),
    *("psql", "pg_config", "pg_ctl", "initdb", "postgres"),
)
"""Programs that a machine with Python may lack."""

HIDDEN_FOLDERS = tuple(
    Path(name)
    for name in (
        "/usr/lib/jvm",
        "/usr/local/go",
        "/usr/lib/gcc",
        "/usr/lib/postgresql",
        "/usr/lib/node_modules",
        "/root",
    )
)
COMMANDS = "make test && make demo FOR=20s"


def mount(*arguments: str | Path) -> None:
    """Mount something in the namespace of this process."""
    subprocess.run(["mount", *map(str, arguments)], check=True)


def hide(room: Path) -> None:
    """Hide what the machine has beside Python, and give the user a name."""
    python, kept, users = Path(sys.base_prefix), room / "python", room / "passwd"
    kept.mkdir()
    mount("--bind", python, kept)
    for folder in HIDDEN_FOLDERS:
        if folder.is_dir():
            mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", folder)
    if not python.exists():
        python.mkdir(parents=True)
        mount("--bind", kept, python)
    for name in HIDDEN:
        while (found := shutil.which(name)) is not None:
            mount("--bind", "/dev/null", Path(found).resolve())
    users.write_text(f"{Path('/etc/passwd').read_text()}tester:x:{USER_ID}:{USER_ID}::/:/bin/sh\n")
    mount("--bind", users, "/etc/passwd")


def run(room: Path) -> int:
    """Run the commands without rights; return their status."""
    hide(room)
    home = room / "home"
    subprocess.run(["chown", "-R", f"{USER_ID}:{USER_ID}", str(home)], check=True)
    known = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_")) or "proxy" in name}
    environment = {**known, "HOME": str(home), "PATH": f"{sys.base_prefix}/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
    user = ["setpriv", "--reuid", str(USER_ID), "--regid", str(USER_ID), "--clear-groups"]
    command = [*user, "sh", "-c", COMMANDS]
    return subprocess.run(command, cwd=home / "project", env=environment, check=False).returncode


def main(arguments: Sequence[str] | None = None) -> int:
    """Clone a revision, and run its commands in namespaces that end with them."""
    parser = argparse.ArgumentParser(prog="python -m tests.gate.bare", description=__doc__)
    parser.add_argument("--revision", default="HEAD", help="the commit (%(default)s)")
    parser.add_argument("--room", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.room is not None:
        return run(options.room)
    room = Path(tempfile.mkdtemp(prefix="bare-"))
    room.chmod(0o755)
    project = str(room / "home" / "project")
    subprocess.run(["git", "clone", "--quiet", str(CHECKOUT), project], check=True)
    subprocess.run(["git", "-C", project, "checkout", "--quiet", options.revision], check=True)
    namespaces = ["unshare", "--mount", "--pid", "--fork", "--mount-proc"]
    try:
        command = [*namespaces, sys.executable, "-m", "tests.gate.bare", "--room", str(room)]
        return subprocess.call(command, cwd=CHECKOUT)
    finally:
        shutil.rmtree(room)  # what was mounted in it has gone with the namespace


if __name__ == "__main__":
    sys.exit(main())

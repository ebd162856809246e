"""The conditions of a benchmark: machine, versions and load, without names, addresses or folders."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import tempfile
from importlib import metadata
from pathlib import Path

import psutil


def conditions(*packages: str) -> dict[str, str]:
    """Return the properties of the machine and the versions, as short texts."""
    found = {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "file system of the data": _file_system(Path(tempfile.gettempdir())),
        "load before the run": load(),
        "Python": platform.python_version(),
        **{package: metadata.version(package) for package in packages},
    }
    java = _java()
    return found | ({"Java": java} if java else {})


def load() -> str:
    """Return the average number of runnable processes; more than the cores means that a run is disturbed."""
    return f"{os.getloadavg()[0]:.1f}"


def busy_seconds() -> float:
    """Return the CPU time that all cores have spent on anything, including the hypervisor's share."""
    times = psutil.cpu_times()
    names = ("user", "nice", "system", "irq", "softirq", "steal")
    return float(sum(getattr(times, name, 0.0) for name in names))


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.machine()
    found = re.search(r"model name\s*: (.*)", text)
    return found.group(1).strip() if found else platform.machine()


def _file_system(folder: Path) -> str:
    """Return the type of the file system of a folder: the mount with the longest matching path."""
    holders = [part for part in psutil.disk_partitions(all=True) if folder.is_relative_to(part.mountpoint)]
    return str(max(holders, key=lambda part: len(part.mountpoint)).fstype) if holders else "unknown"


def _java() -> str | None:
    if shutil.which("java") is None:
        return None
    done = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "([^"]+)"', done.stderr + done.stdout)
    return found.group(1) if found else None


def table(values: dict[str, str]) -> str:
    """Return a two-column Markdown table."""
    return "| | |\n| --- | --- |\n" + "".join(f"| {name} | {value} |\n" for name, value in values.items())


def command_line(module: str, **options: object) -> str:
    """Return the command that repeats this run."""
    return " ".join(
        [f"python -m {module}", *(f"--{name.replace('_', '-')} {value}" for name, value in options.items())]
    )

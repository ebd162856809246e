"""What is kept in the repository works on every machine and names none."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.tidy.tree import ROOT, shown

# Written in pieces, so that this file does not find itself.
MACHINE_PATH = re.compile("|".join(("/" + "work/", "/" + "root/", "/" + "home/[a-z]", "/" + "Users/")))
INDEX_OPTION = re.compile("--(extra-)?index" + "-url|--find" + "-links|files.python" + "hosted")
ADDRESS = re.compile(r"https?://(?:[^\s/@\"]*@)?([A-Za-z0-9.-]+)")

KNOWN_HOSTS = {
    "127.0.0.1",
    "localhost",
    "HOST",  # the placeholder of help texts
    "example.com",
    "github.com",
    "json-schema.org",  # the names of the drafts of JSON Schema
    "kafka.apache.org",
    "maven.apache.org",
    "pypi.org",
    "repo.maven.apache.org",
    "repo1.maven.org",
    "www.apache.org",
    "www.w3.org",  # the name space of SVG
}
"""Hosts that an address may name: projects and public registries."""

FILE_BYTES_MAX = 1_000_000


def tracked_files() -> list[Path]:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("this is no git checkout")
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    return [path for name in names.decode().split("\0") if name and (path := ROOT / name).is_file()]


def texts() -> list[tuple[Path, str]]:
    """Every tracked file that is text."""
    found = []
    for path in tracked_files():
        try:
            found.append((path, path.read_text()))
        except UnicodeDecodeError:
            continue
    return found


def lines_with(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{shown(path)}:{number}: {line.strip()[:80]}"
        for path, text in texts()
        if pattern.search(text)
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]


def test_no_file_names_a_place_on_somebodys_machine() -> None:
    assert lines_with(MACHINE_PATH) == []


def test_no_file_says_where_packages_are_downloaded_from() -> None:
    assert lines_with(INDEX_OPTION) == []


def test_every_address_is_a_public_one() -> None:
    strange = {
        f"{shown(path)}: {host}"
        for path, text in texts()
        for host in ADDRESS.findall(text)
        if host.rstrip(".") not in KNOWN_HOSTS and not host.endswith((".example", ".example.com", ".invalid"))
    }
    assert strange == set()


def test_no_file_is_huge() -> None:
    sizes = {shown(path): path.stat().st_size for path in tracked_files()}
    assert {name: size for name, size in sizes.items() if size > FILE_BYTES_MAX} == {}

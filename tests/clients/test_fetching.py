"""What a machine lacks must turn into a reason, not into a failure or a half-made cache."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from bench.cache import (
    NO_DOWNLOAD,
    NotFetched,
    NotInstalled,
    Unavailable,
    built_once,
    complaint,
    downloads,
    may_download,
    require_tool,
    resolve,
)
from bench.kafka import kafka_classpath
from bench.maven import Classpath
from tests.clients import program


@pytest.fixture(autouse=True)
def _may_download(monkeypatch: pytest.MonkeyPatch) -> None:
    """Build as a benchmark does; nothing here needs a network."""
    monkeypatch.setenv(NO_DOWNLOAD, "0")


def test_missing_tool_is_named() -> None:
    """The reason of a skip says which program to install."""
    with pytest.raises(NotInstalled, match="no-such-program is not installed"):
        require_tool("no-such-program")


@pytest.mark.parametrize(
    "client", [program.java("4.3.1"), program.go("franz"), program.node()], ids=["java", "go", "node"]
)
def test_program_without_its_tools_is_unavailable(client: program.Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without the toolchain skips."""
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Unavailable, match="is not installed"):
        client.run("write", "127.0.0.1:1", "topic")


def test_kafka_without_java_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness says so before it tries anything."""
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Unavailable, match="java is not installed"):
        kafka_classpath()


def test_failed_download_is_unavailable_with_the_tool_s_words(tmp_path: Path) -> None:
    """The tool's own complaint is the reason."""
    script = "import sys; print('trying'); print('ERROR: host not found', file=sys.stderr); sys.exit(3)"
    with pytest.raises(Unavailable, match="some jars could not be fetched: ERROR: host not found"):
        resolve([sys.executable, "-c", script], what="some jars", cwd=tmp_path)


def test_slow_download_is_unavailable(tmp_path: Path) -> None:
    """A registry that never answers costs a bounded time."""
    with pytest.raises(Unavailable, match=r"could not be fetched within 0 s"):
        resolve([sys.executable, "-c", "import time; time.sleep(60)"], what="jars", cwd=tmp_path, timeout_s=0.2)


def test_build_happens_once(tmp_path: Path) -> None:
    """The second call finds what the first one made."""
    calls: list[Path] = []

    def build(folder: Path) -> None:
        calls.append(folder)
        (folder / "jar").write_text("data")

    assert (built_once(tmp_path / "made", build) / "jar").read_text() == "data"
    built_once(tmp_path / "made", build)
    assert len(calls) == 1


def test_failed_build_leaves_nothing_that_looks_whole(tmp_path: Path) -> None:
    """A build that broke is tried again by the next call, from nothing."""

    def broken(folder: Path) -> None:
        (folder / "half").write_text("data")
        raise Unavailable("the network went away")

    with pytest.raises(Unavailable):
        built_once(tmp_path / "made", broken)
    made = built_once(tmp_path / "made", lambda folder: (folder / "whole").touch())
    assert [file.name for file in made.iterdir()] == ["whole"]


def test_nothing_is_built_without_downloads(tmp_path: Path) -> None:
    """A test run downloads nothing, and its reason says what to do; what is there is used."""
    with downloads(allowed=False):
        with pytest.raises(NotFetched, match=f"{tmp_path.name}/made is not in the cache; `make fetch` brings it"):
            built_once(tmp_path / "made", lambda _: pytest.fail("it was built"))
        assert list(tmp_path.iterdir()) == []
        (tmp_path / "made").mkdir()
        assert built_once(tmp_path / "made", lambda _: pytest.fail("it was built")).is_dir()


def test_downloads_are_allowed_as_before_after_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment tells child processes, so it must not keep what a block set."""
    for before in ("0", "1", None):
        if before is None:
            monkeypatch.delenv(NO_DOWNLOAD)
        else:
            monkeypatch.setenv(NO_DOWNLOAD, before)
        for is_allowed in (True, False):
            with downloads(allowed=is_allowed):
                assert may_download() == is_allowed
            assert os.environ.get(NO_DOWNLOAD) == before


def test_other_coordinates_are_another_class_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jars of an older logging backend stayed in the cache, because only Kafka's version was in the folder's name."""
    if shutil.which("java") is None:
        pytest.skip("java is not installed")
    made: list[Path] = []
    monkeypatch.setattr("bench.maven._copy_jars", lambda _coordinates, folder, _is_transitive: made.append(folder))
    older, newer = (Classpath.of("broker", [f"a:log4j:{version}"], tmp_path) for version in "12")
    assert older.folder != newer.folder
    assert Classpath.of("broker", ["a:log4j:1"], tmp_path) == older
    assert len(made) == 2


def test_complaint_is_short() -> None:
    """A reason fits on a line even where a tool prints pages."""
    assert complaint("") == "no message"
    assert complaint("one\ntwo") == "two"
    assert len(complaint("error " + "x" * 1000)) == 200

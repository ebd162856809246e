"""What `make fetch` prints and how it ends, with parts that need no network."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from bench import debian, fetch
from bench.cache import NotFetched, NotInstalled, Unavailable, built_once, downloads
from bench.fetch import Outcome
from bench.parts import Part, all_parts


def part(folder: Path, build: Callable[[Path], None] = lambda _: None) -> Part:
    """A part in this folder, called as the folder is."""
    return Part(folder.name, lambda: built_once(folder, build))


def failing(*errors: Exception) -> Callable[[Path], None]:
    """A builder that fails with these errors, one for each attempt, and works after them."""
    left = list(errors)

    def build(_: Path) -> None:
        if left:
            raise left.pop(0)

    return build


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_a_part_is_brought_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert fetch.fetch([part(tmp_path / "kcat")]) == {Outcome.THERE: 1}
    assert lines(capsys) == ["fetch: kcat … done in 0 s", "fetch: kcat … already there"]


def test_the_third_attempt_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A registry that fails twice for a moment is no reason to skip tests."""
    build = failing(Unavailable("timed out"), Unavailable("reset by peer"))
    assert fetch.fetch([part(tmp_path / "kafka", build)], pause_s=0) == {Outcome.THERE: 1}
    assert lines(capsys) == [
        "fetch: kafka … attempt 1 of 3: timed out",
        "fetch: kafka … attempt 2 of 3: reset by peer",
        "fetch: kafka … done in 0 s",
    ]


def test_there_is_no_fourth_attempt_and_the_next_part_is_brought(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build = failing(*(Unavailable("no route") for _ in range(4)))
    outcomes = fetch.fetch([part(tmp_path / "kafka", build), part(tmp_path / "kcat")], pause_s=0)
    assert outcomes == {Outcome.MISSING: 1, Outcome.THERE: 1}
    assert lines(capsys) == [
        *(f"fetch: kafka … attempt {number} of 3: no route" for number in (1, 2, 3)),
        "fetch: kcat … done in 0 s",
    ]


def test_attempts_are_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    fetch.fetch([part(tmp_path / "kafka", failing(*(Unavailable("no route") for _ in range(3))))], pause_s=7)
    assert pauses == [7, 7]


@pytest.mark.parametrize("is_found_late", [False, True])
def test_a_missing_tool_is_tried_once(tmp_path: Path, capsys: pytest.CaptureFixture[str], is_found_late: bool) -> None:
    """Some tools are looked for before the cache, and some only by the builder."""

    def make() -> None:
        raise NotInstalled("node is not installed")

    wanted = part(tmp_path / "kafkajs", lambda _: make()) if is_found_late else Part("kafkajs", make)
    assert fetch.fetch([wanted]) == {Outcome.MISSING: 1}
    assert lines(capsys) == ["fetch: kafkajs … not available: node is not installed"]


def test_what_does_not_build_is_broken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A compiler's complaint is about our own source, so it is no reason to skip tests."""
    outcomes = fetch.fetch([part(tmp_path / "go", failing(AssertionError("go could not build"))), part(tmp_path / "b")])
    assert outcomes == {Outcome.BROKEN: 1, Outcome.THERE: 1}
    assert lines(capsys)[0] == "fetch: go … broken: go could not build"


@pytest.mark.parametrize(
    ("outcomes", "said", "status", "strict_status"),
    [
        ({Outcome.THERE: 13}, "13 parts there, 0 missing", 0, 0),
        ({Outcome.THERE: 11, Outcome.MISSING: 2}, "11 parts there, 2 missing", 0, 1),
        ({Outcome.THERE: 11, Outcome.MISSING: 1, Outcome.BROKEN: 1}, "11 parts there, 2 missing", 1, 1),
    ],
)
def test_the_end(outcomes: dict[Outcome, int], said: str, status: int, strict_status: int) -> None:
    counter = Counter(outcomes)
    assert fetch.summary(counter) == said
    assert fetch.exit_status(counter, is_strict=False) == status
    assert fetch.exit_status(counter, is_strict=True) == strict_status


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def absent() -> None:
        raise NotInstalled("node is not installed")

    monkeypatch.setattr(fetch, "all_parts", lambda: [part(tmp_path / "kcat"), Part("kafkajs", absent)])
    assert fetch.main([]) == 0
    assert lines(capsys)[-1] == "fetch: 1 part there, 1 missing"
    assert fetch.main(["--strict"]) == 1


def test_every_part_has_a_name_of_its_own() -> None:
    names = [each.name for each in all_parts()]
    assert len(set(names)) == len(names)


def test_a_debian_program_is_installed_by_root_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under the variable that tests set, nothing is installed either."""
    programs = {"apt-get": "/usr/bin/apt-get"}
    monkeypatch.setattr(shutil, "which", programs.get)
    monkeypatch.setattr("bench.debian._run", lambda *_: pytest.fail("apt-get was run"))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with downloads(allowed=True), pytest.raises(NotInstalled, match="kcat is not installed, and only root can install"):
        debian.debian_program("kcat")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with downloads(allowed=False), pytest.raises(NotFetched, match="kcat is not installed; `make fetch` brings it"):
        debian.debian_program("kcat")
    programs["kcat"] = "/usr/bin/kcat"
    assert debian.debian_program("kcat") == "/usr/bin/kcat"


def test_debian_is_asked_for_its_packages_once(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = {"apt-get": "apt-get"}
    runs: list[str] = []

    def run(_: str, verb: str, *arguments: str) -> None:
        runs.append(verb)
        if verb == "install":
            programs[arguments[-1]] = arguments[-1]

    monkeypatch.setattr(shutil, "which", programs.get)
    monkeypatch.setattr("bench.debian._run", run)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    debian._update.cache_clear()
    with downloads(allowed=True):
        assert [debian.debian_program(name) for name in ("kcat", "openssl")] == ["kcat", "openssl"]
    debian._update.cache_clear()
    assert runs == ["update", "install", "install"]

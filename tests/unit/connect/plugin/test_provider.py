"""Values of settings from files and the environment."""

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.base.limits import CONNECT_FILE_BYTES_MAX, CONNECT_REFERENCED_BYTES_MAX, CONNECT_REFERENCES_MAX
from tailrace.connect.plugin.provider import expand


def test_references_are_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secrets.properties").write_text("db.password=se:cret\nuser = anna\n")
    (tmp_path / "token").write_text("abc")
    monkeypatch.setenv("REGION", "eu")
    config = {
        "password": f"${{file:{tmp_path}/secrets.properties:db.password}}",
        "url": f"jdbc://${{file:{tmp_path}/secrets.properties:user}}@${{env:REGION}}",
        "token": f"${{dir:{tmp_path}:token}}",
        "table.name.format": "kafka_${topic}",
    }
    assert expand(config) == (
        {
            "password": "se:cret",
            "url": "jdbc://anna@eu",
            "token": "abc",
            "table.name.format": "kafka_${topic}",
        },
        [],
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("${file:/no/such/file:key}", "/no/such/file cannot be read: No such file"),
        ("${dir:/no/such:file}", "cannot be read"),
        ("${dir:/etc:../passwd}", "is not the name of a file"),
        ("${dir:/:dev}", "/dev cannot be read: Is a directory"),
        ("${env:NO_SUCH_VARIABLE}", "no environment variable NO_SUCH_VARIABLE"),
        ("${vault:path:key}", "there is no config provider vault; there are file, dir, env"),
    ],
)
def test_a_reference_without_a_value_names_the_setting(text: str, words: str) -> None:
    expanded, problems = expand({"secret": text, "other": "x"})
    assert expanded == {"secret": text, "other": "x"}
    assert [problem.name for problem in problems] == ["secret"]
    assert words in problems[0].message


def refusal(text: str) -> str:
    (problem,) = expand({"secret": text})[1]
    return problem.message


def test_a_missing_key_of_a_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "secrets.properties"
    path.write_text("a=1\n")
    assert "has no property b" in refusal(f"${{file:{path}:b}}")


@pytest.mark.parametrize("text", ["${dir:/dev:full}", "${file:/dev/full:x}"])
def test_only_regular_files_are_read(text: str) -> None:
    """A device was read until the memory was full: `/dev/full` has no end."""
    assert "cannot be read: it is not a regular file" in refusal(text)


@pytest.mark.timeout(30)
def test_a_pipe_without_a_writer_is_refused_at_once(tmp_path: Path) -> None:
    """Opening a pipe waits for a writer, and the event loop waited with it."""
    os.mkfifo(tmp_path / "pipe")
    assert "it is not a regular file" in refusal(f"${{dir:{tmp_path}:pipe}}")
    assert "it is not a regular file" in refusal(f"${{file:{tmp_path}/pipe:x}}")


def test_a_link_to_a_file_is_read(tmp_path: Path) -> None:
    """Kubernetes mounts secrets as links."""
    (tmp_path / "data").write_text("abc")
    (tmp_path / "token").symlink_to("data")
    assert expand({"token": f"${{dir:{tmp_path}:token}}"}) == ({"token": "abc"}, [])


def test_a_path_that_no_file_can_have_is_refused() -> None:
    assert "cannot be read: embedded null byte" in refusal("${file:/a\0:x}")


def test_a_file_is_read_up_to_a_limit(tmp_path: Path) -> None:
    (tmp_path / "fits").write_text("x" * CONNECT_FILE_BYTES_MAX)
    (tmp_path / "large").write_text("x" * (CONNECT_FILE_BYTES_MAX + 1))
    assert expand({"a": f"${{dir:{tmp_path}:fits}}"})[1] == []
    assert f"it has more than {CONNECT_FILE_BYTES_MAX} bytes" in refusal(f"${{dir:{tmp_path}:large}}")


def test_a_config_cannot_repeat_a_large_value_without_end(tmp_path: Path) -> None:
    (tmp_path / "large.properties").write_text("key=" + "x" * (CONNECT_FILE_BYTES_MAX - 4))
    reference = f"${{file:{tmp_path}/large.properties:key}}"
    expanded, problems = expand({str(index): reference for index in range(10)})
    assert sum(map(len, expanded.values())) < CONNECT_REFERENCED_BYTES_MAX + 1_000
    assert [problem.name for problem in problems] == [str(index) for index in range(3, 10)]
    assert "use smaller files or fewer references" in problems[0].message


def test_a_config_has_a_bounded_number_of_references(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A", "a")
    assert expand({"secret": "${env:A}" * CONNECT_REFERENCES_MAX})[1] == []
    assert "more than 1000 references" in refusal("${env:A}" * (CONNECT_REFERENCES_MAX + 1))


KAFKA = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")
"""The pattern of a reference in Kafka's ConfigTransformer."""


@given(st.text("${}:env", max_size=20))
def test_references_are_where_kafka_finds_them(text: str) -> None:
    found = KAFKA.search(text)
    _, problems = expand({"secret": text})
    assert [problem.message.split("}: ")[0] for problem in problems] == ([] if found is None else [found[0][:-1]])


@pytest.mark.timeout(60)
def test_many_beginnings_of_references_are_read_in_one_pass() -> None:
    """Each `${` was searched to the end of the text for its `}`: 60 KB took half a minute, and this takes hours."""
    text = "${:" * 700_000
    assert expand({"secret": text}) == ({"secret": text}, [])

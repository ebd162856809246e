"""Values of settings from files and the environment."""

from pathlib import Path

import pytest

from tailrace.connect.plugin.error import ConfigError
from tailrace.connect.plugin.provider import expand


def test_references_are_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secrets.properties").write_text("db.password=se:cret\nuser = anna\n")
    (tmp_path / "token").write_text("abc")
    monkeypatch.setenv("REGION", "eu")
    given = {
        "password": f"${{file:{tmp_path}/secrets.properties:db.password}}",
        "url": f"jdbc://${{file:{tmp_path}/secrets.properties:user}}@${{env:REGION}}",
        "token": f"${{dir:{tmp_path}:token}}",
        "table.name.format": "kafka_${topic}",
    }
    assert expand(given) == {
        "password": "se:cret",
        "url": "jdbc://anna@eu",
        "token": "abc",
        "table.name.format": "kafka_${topic}",
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("${file:/no/such/file:key}", "/no/such/file cannot be read: No such file"),
        ("${dir:/no/such:file}", "cannot be read"),
        ("${dir:/etc:../passwd}", "is not the name of a file"),
        ("${env:NO_SUCH_VARIABLE}", "no environment variable NO_SUCH_VARIABLE"),
        ("${vault:path:key}", "there is no config provider vault; there are file, dir, env"),
    ],
)
def test_a_reference_without_a_value_names_the_setting(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=r"^secret: ") as error:
        expand({"secret": text, "other": "x"})
    assert words in str(error.value)


def test_a_missing_key_of_a_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "secrets.properties"
    path.write_text("a=1\n")
    with pytest.raises(ConfigError, match="has no property b"):
        expand({"secret": f"${{file:{path}:b}}"})

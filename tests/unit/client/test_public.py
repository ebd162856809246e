"""What `import tailrace` offers, and how little it loads."""

import subprocess
import sys

import pytest

import tailrace


def test_every_name_is_there() -> None:
    names = [name for name in dir(tailrace) if not name.startswith("_")]
    assert {"Admin", "Consumer", "Producer", "aio", "read_table", "ApiError", "NewTopic"} <= set(names)
    for name in names:
        assert getattr(tailrace, name) is not None
    for name in tailrace.aio.__all__:
        assert getattr(tailrace.aio, name).__doc__


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Produser'"):
        _ = tailrace.Produser


@pytest.mark.parametrize(
    ("statement", "unwanted"),
    [
        ("import tailrace", ["asyncio", "tailrace.client", "pyarrow"]),
        (
            "import tailrace; tailrace.Producer; tailrace.Consumer; tailrace.Admin; tailrace.aio",
            ["pyarrow", "tailrace.server"],
        ),
    ],
)
def test_nothing_is_loaded_before_it_is_used(statement: str, unwanted: list[str]) -> None:
    code = f"{statement}\nimport sys\nprint([name for name in {unwanted!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

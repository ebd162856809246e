"""Every example of the guide runs."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from runnel.testing import Broker

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "CLIENT.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with Broker() as broker:
        broker.create_topic("page_views", 3)
        broker.produce("page_views", [b"/", (b"user-1", b"/docs")])
        yield broker.bootstrap_servers


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_runs(number: int, address: str) -> None:
    code = EXAMPLES[number]
    if "pyarrow" in code:
        pytest.importorskip("pyarrow")
    code = code.replace("localhost:9092", address)
    exec(compile(code, f"example {number}", "exec"), {"__name__": "example"})  # noqa: S102


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 5

"""Every example of the guide runs."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import runnel
from runnel.testing import Broker

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "CLIENT.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    if kafka := os.environ.get("RUNNEL_TEST_KAFKA"):
        with runnel.Admin(kafka) as admin:
            admin.create_topics([runnel.NewTopic("page_views", 3, 1)])
        with runnel.Producer(kafka) as producer:
            producer.send("page_views", b"/docs", b"user-1").result(20)
        yield kafka
        return
    with Broker({"transaction.two.phase.commit.enable": True}) as broker:
        broker.create_topic("page_views", 3)
        broker.produce("page_views", [b"/", (b"user-1", b"/docs")])
        yield broker.bootstrap_servers


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_runs(number: int, address: str) -> None:
    code = EXAMPLES[number]
    if "pyarrow" in code or "batches" in code:
        pytest.importorskip("pyarrow")
    if "group" in code:
        skip_without_groups(address)
    if "two_phase" in code and os.environ.get("RUNNEL_TEST_KAFKA"):
        pytest.skip("Kafka promises no two-phase commit yet")
    code = code.replace("localhost:9092", address)
    exec(compile(code, f"example {number}", "exec"), {"__name__": "example"})  # noqa: S102


def skip_without_groups(address: str) -> None:
    with runnel.Admin(address) as admin:
        try:
            admin.list_groups()
        except runnel.ApiError as error:
            if error.code is not runnel.ErrorCode.UNSUPPORTED_VERSION:
                raise
            pytest.skip(f"the broker has no groups yet: {error}")


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 5

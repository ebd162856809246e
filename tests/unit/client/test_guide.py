"""Every example of the guide runs."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.delegation_token.secured import secured_broker

import tailrace
from tailrace.testing import Broker, SchemaRegistry

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "CLIENT.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
OPTIONS: dict[str, str | bool] = {
    "transaction.two.phase.commit.enable": True,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    if kafka := os.environ.get("TAILRACE_TEST_KAFKA"):
        with tailrace.Admin(kafka) as admin:
            admin.create_topics([tailrace.NewTopic("page_views", 3, 1)])
        with tailrace.Producer(kafka) as producer:
            producer.send("page_views", b"/docs", b"user-1").result(60)
        yield kafka
        return
    with Broker(OPTIONS) as broker:
        broker.create_topic("page_views", 3)
        broker.produce("page_views", [b"/", (b"user-1", b"/docs")])
        yield broker.bootstrap_servers


@pytest.fixture(scope="module")
def secured_address() -> Iterator[str]:
    with secured_broker() as started:
        yield started


@pytest.fixture(scope="module")
def registry_url(address: str) -> Iterator[str]:
    with SchemaRegistry(address) as registry:
        yield registry.url


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_runs(number: int, address: str, request: pytest.FixtureRequest) -> None:
    code = EXAMPLES[number]
    if "pyarrow" in code or "batches" in code:
        pytest.importorskip("pyarrow")
    if "group" in code:
        skip_without_groups(address)
    if "two_phase" in code and os.environ.get("TAILRACE_TEST_KAFKA"):
        pytest.skip("Kafka promises no two-phase commit yet")
    code = code.replace("localhost:9092", address)
    if "localhost:9094" in code:
        code = code.replace("localhost:9094", request.getfixturevalue("secured_address"))
    if "localhost:8081" in code:
        code = code.replace("http://localhost:8081", request.getfixturevalue("registry_url"))
    exec(compile(code, f"example {number}", "exec"), {"__name__": "example"})  # noqa: S102


def skip_without_groups(address: str) -> None:
    with tailrace.Admin(address) as admin:
        try:
            admin.list_groups()
        except tailrace.ApiError as error:
            if error.code is not tailrace.ErrorCode.UNSUPPORTED_VERSION:
                raise
            pytest.skip(f"the broker has no groups yet: {error}")


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 5

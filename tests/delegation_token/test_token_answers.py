"""Every answer about delegation tokens is that of Apache Kafka, which `record.py` has asked."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.delegation_token.difference import DIFFERENCES, expected
from tests.delegation_token.ground import Ground, properties
from tests.delegation_token.record import RECORDED
from tests.delegation_token.story import Story
from tests.port import free_ports

from tailrace.testing import Broker

PAGE = Path(__file__).parents[2] / "docs" / "SECURITY.md"


@contextmanager
def ground(*, has_key: bool) -> Iterator[Ground]:
    port, inner_port = free_ports(2)
    with Broker(properties(port, inner_port, has_key=has_key)):
        opened = Ground(port, inner_port)
        try:
            yield opened
        finally:
            opened.close()


def test_every_answer_is_that_of_kafka() -> None:
    with ground(has_key=True) as opened:
        found = dict(Story(opened).tell())
    with ground(has_key=False) as opened:
        found |= dict(Story(opened).tell_without_key())
    wanted = {title: expected(title, answer) for title, answer in json.loads(RECORDED.read_text()).items()}
    assert {title: (found.get(title), answer) for title, answer in wanted.items() if found.get(title) != answer} == {}
    assert found.keys() == wanted.keys()


def test_a_difference_is_one_and_is_documented() -> None:
    """A difference that no longer changes an answer would hide a new one."""
    recorded = json.loads(RECORDED.read_text())
    page = " ".join(PAGE.read_text().split())
    for difference in DIFFERENCES:
        assert any(difference.change(title, answer) != answer for title, answer in recorded.items())
        assert difference.reason in page

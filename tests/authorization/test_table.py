"""Every API asked with every right, on a broker with SASL and ACLs: the answers are those of Apache Kafka.

`record.py` has asked Apache Kafka. `difference.py` lists the cells that differ on purpose.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.authorization.case import Case
from tests.authorization.difference import DIFFERENCES, expected
from tests.authorization.table import CASES, GRANTS, cells, recorded_cells
from tests.authorization.world import World, properties

from tailrace.protocol.api_key import ApiKey
from tailrace.protocol.registry import request_type
from tailrace.server.handlers import APIS
from tailrace.testing import Broker

RECORDED = recorded_cells()
PAGE = Path(__file__).parents[2] / "docs" / "AUTHORIZATION.md"
BEFORE_ANY_RIGHT = {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with Broker(properties(GRANTS, 0, 0)) as broker:
        made = World(broker.bootstrap_servers, GRANTS)
        try:
            made.prepare()
            yield made
        finally:
            made.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_every_cell_is_that_of_kafka(world: World, case: Case) -> None:
    found, wanted = cells(world, case), expected(case, RECORDED[case.title])
    assert {granted: (found[granted], wanted[granted]) for granted in wanted if found[granted] != wanted[granted]} == {}


def test_every_api_is_in_the_table() -> None:
    asked = {case.api for case in CASES}
    served = {request_type(key).__name__.removesuffix("Request") for key in APIS.keys() - BEFORE_ANY_RIGHT}
    assert served - asked == set()


def test_a_difference_is_one() -> None:
    """A difference that no longer changes a cell, or that no case has, would hide a new one."""
    titles = {case.title: case for case in CASES}
    for difference in DIFFERENCES:
        for title in difference.titles:
            assert expected(titles[title], RECORDED[title]) != RECORDED[title], title


def test_the_differences_are_documented() -> None:
    page = " ".join(PAGE.read_text().split())
    assert [difference.reason for difference in DIFFERENCES if difference.reason not in page] == []

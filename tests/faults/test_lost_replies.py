"""Some runs of `lost_replies`, in both faces, with one request in flight and with five."""

from collections.abc import Iterator

import pytest
from tests.faults.lost_replies import CASES, Case, Lost, losing

pytestmark = pytest.mark.exact


@pytest.fixture(scope="module")
def lost() -> Iterator[Lost]:
    with losing() as made:
        yield made


@pytest.mark.parametrize("case", CASES, ids=str)
def test_lost_replies_cost_no_record_and_double_none(lost: Lost, case: Case) -> None:
    outcomes = [lost.run(case, seed) for seed in range(3)]
    assert [wrong for wrong, _ in outcomes] == [None] * 3
    assert sum(count for _, count in outcomes) > 0

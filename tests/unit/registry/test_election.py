"""The election of the registry that leads, and what members tell each other, in the JSON of Confluent's registry."""

import asyncio
import json
import logging
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tailrace.client.backoff import Backoff
from tailrace.client.cluster import Cluster
from tailrace.client.error import BrokerUnavailable
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.registry.election import Election, ElectionError, Member, elect, elected

ONE = Member("one", 8081)
TWO = Member("two", 8081)


def test_a_member_presents_itself_as_confluents_registry_does() -> None:
    assert json.loads(ONE.encode()) == {
        "version": 1,
        "host": "one",
        "port": 8081,
        "master_eligibility": True,
        "scheme": "http",
        "leader": False,
    }
    assert Member.decode(TWO.encode()) == TWO
    assert Member.decode(b'{"host":"two","port":8081,"unknown":1}') == TWO


@pytest.mark.parametrize(
    ("members", "leader"),
    [
        ([ONE], ONE),
        ([TWO, ONE], ONE),
        ([ONE, Member("two", 8081, is_leader=True)], TWO),
        ([Member("one", 8081, is_leader=True), Member("two", 8081, is_leader=True)], ONE),
        ([Member("one", 8081, can_lead=False), TWO], TWO),
        ([Member("one", 8081, can_lead=False)], None),
    ],
)
def test_one_member_that_can_lead_does(members: list[Member], leader: Member | None) -> None:
    assignments = elect([(str(number), member) for number, member in enumerate(members)])
    assert len(assignments) == len(members)
    for assignment in assignments.values():
        found = elected(assignment)
        assert (found and found.url) == (leader and leader.url)


def test_registries_with_one_address_are_told_what_to_do_and_the_others_go_on() -> None:
    """One registry with the address of another one took the leader away from the whole group."""
    assignments = elect([("a", ONE), ("b", ONE), ("c", TWO)])
    for member_id in ("a", "b"):
        with pytest.raises(ElectionError, match="--advertise"):
            elected(assignments[member_id])
        assert "master_identity" not in json.loads(assignments[member_id])
    assert elected(assignments["c"]) == TWO


def test_a_registry_that_leads_already_keeps_its_address() -> None:
    leader = replace(ONE, is_leader=True)
    assignments = elect([("a", ONE), ("b", leader), ("c", TWO)])
    with pytest.raises(ElectionError, match="--advertise"):
        elected(assignments["a"])
    assert [elected(assignments[member_id]) for member_id in ("b", "c")] == [leader, leader]


def test_registries_that_all_share_addresses_elect_none_of_them() -> None:
    follower = Member("three", 8081, can_lead=False)
    assignments = elect([("a", ONE), ("b", ONE), ("c", follower)])
    assert elected(assignments["c"]) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b'{"host":"h","port":"x"}',
        b'{"host":"h"}',
        b'{"host":7,"port":8081}',
        b'{"host":"","port":8081}',
        b'{"host":"h","port":99999}',
        b'{"host":"h","port":8081,"scheme":"file"}',
    ],
)
def test_a_member_that_is_no_registry_is_refused(data: bytes) -> None:
    with pytest.raises(ElectionError, match="not a registry"):
        Member.decode(data)


@pytest.mark.parametrize("data", [b"", b"[]", b'{"master_identity":{}}', b'{"master_identity":7}'])
def test_an_assignment_that_is_none_is_refused(data: bytes) -> None:
    with pytest.raises(ElectionError, match="not a registry"):
        elected(data)


# --- errors


class FailingElection(Election):
    """Joins with one error after the other, and then stays."""

    def __init__(self, errors: Sequence[Exception], *, fails_to_tell: bool = False) -> None:
        cluster = Cluster("localhost:9092")
        cluster.backoff = Backoff(1, 1)
        super().__init__(cluster, "g", ONE, self._note)
        self._errors = list(errors)
        self._fails_to_tell = fails_to_tell
        self.told: list[tuple[Member | None, str | None]] = []
        self.has_joined = asyncio.Event()

    async def _note(self, leader: Member | None, problem: str | None) -> None:
        self.told.append((leader, problem))
        if self._fails_to_tell:
            raise ZeroDivisionError

    async def _join(self) -> None:
        if self._errors:
            raise self._errors.pop(0)
        await self._take(elect([("a", ONE)])["a"])

    async def _stay(self) -> None:
        self.has_joined.set()
        await asyncio.Event().wait()


async def run_until_joined(election: FailingElection) -> None:
    running = asyncio.create_task(election.run())
    joining = asyncio.create_task(election.has_joined.wait())
    await asyncio.wait([running, joining], return_when=asyncio.FIRST_COMPLETED)
    assert not running.done()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def errors_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INVALID_SESSION_TIMEOUT,
    ],
)
async def test_an_error_that_lasts_is_logged_once_and_told(code: ErrorCode, caplog: pytest.LogCaptureFixture) -> None:
    """Such an error was logged at INFO alone, so a registry that would never take a write looked well."""
    lasting = [ApiError(code, "joining group g") for _ in range(3)]
    other = ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "joining group g")
    election = FailingElection([*lasting, BrokerUnavailable("no broker"), *lasting, other])
    await run_until_joined(election)
    first, second = errors_in(caplog)
    assert str(lasting[0]) in first
    assert str(other) in second
    assert election.told[:4] == [(None, str(lasting[0]))] * 3 + [(None, "no broker")]
    leader, problem = election.told[-1]
    assert leader is not None
    assert (leader.url, problem) == (ONE.url, None)


@pytest.mark.parametrize(
    "error",
    [
        ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        ApiError(ErrorCode.UNKNOWN_MEMBER_ID),
        ApiError(ErrorCode.ILLEGAL_GENERATION),
        ApiError(ErrorCode.REBALANCE_IN_PROGRESS),
        BrokerUnavailable("no broker"),
        ConnectionResetError("gone"),
    ],
)
async def test_an_error_that_passes_is_not_logged_as_one_that_lasts(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    await run_until_joined(FailingElection([error, error]))
    assert errors_in(caplog) == []


async def test_a_member_joins_with_the_id_that_it_was_given_without_a_wait() -> None:
    """The wait after failures was longer than a short session, so the id was forgotten each time before it was used."""
    election = FailingElection([BrokerUnavailable("no broker"), ApiError(ErrorCode.MEMBER_ID_REQUIRED)])
    waits: list[int] = []
    backoff = election._cluster.backoff

    class Noting(Backoff):
        def wait_s(self, failure_count: int) -> float:
            waits.append(failure_count)
            return backoff.wait_s(failure_count)

    election._cluster.backoff = Noting(1, 1)
    await run_until_joined(election)
    assert waits == [1]
    assert [problem for _, problem in election.told] == ["no broker", None]


async def test_a_bug_does_not_end_the_election(caplog: pytest.LogCaptureFixture) -> None:
    """It left the registry running without an election, so that it refused every write until it was restarted."""
    await run_until_joined(FailingElection([ZeroDivisionError("a bug")] * 2))
    (message,) = errors_in(caplog)
    assert "a bug" in message


async def test_a_bug_in_what_follows_an_election_does_not_end_it() -> None:
    await run_until_joined(FailingElection([BrokerUnavailable("no broker")], fails_to_tell=True))


async def test_a_member_that_is_refused_stays_and_hears_of_the_next_election(caplog: pytest.LogCaptureFixture) -> None:
    election = FailingElection([])
    for _ in range(2):
        await election._take(elect([("a", ONE), ("b", ONE)])["a"])
    ((leader, problem), _) = election.told
    assert leader is None
    assert "--advertise" in str(problem)
    assert len(errors_in(caplog)) == 1

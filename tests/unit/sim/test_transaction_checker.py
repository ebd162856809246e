"""Each anomaly of transactions made by hand is found, and what only looks like one is not."""

import pytest
from tests.unit.sim.event import P
from tests.unit.sim.transaction_event import INPUT, OTHER
from tests.unit.sim.transaction_event import TransactionStory as Story

from tailrace.sim.check import TRANSACTION_CHECKERS, check

A0, B0 = (P, 0, "a"), (OTHER, 0, "b")


def begun() -> Story:
    """A transaction with a value in each of two partitions."""
    return Story().init("p").begin("p1").put("p1", "a", 0).put("p1", "b", 0, partition=OTHER)


def zombie() -> Story:
    """A producer that another has fenced in the middle of its transaction."""
    return begun().init("q")


def circle() -> Story:
    """Two transactions that are both committed, and have each read what the other wrote."""
    written = Story().init("p", "one").init("q", "two").begin("p1", "one").begin("q1", "two")
    written.put("p1", "a", 0).put("q1", "b", 0, partition=OTHER).read(B0, process="p").read(A0, process="q")
    return written.end("p1").end("q1").read(A0, B0).drain_all()


def lost_end(*, commit: bool) -> Story:
    """A transaction whose end is lost, and the beginning of the next one."""
    first = Story().init("p").begin("p1").put("p1", "a", 0).end("p1", "info", commit=commit)
    return first.begin("p2").put("p2", "c", 5)


def copied() -> Story:
    """Two records, of which the first was made into another and committed."""
    made = Story().given("x", "y").init("p").begin("p1").put("p1", "x1", 0, source=f"{INPUT}:0").offsets("p1", 1)
    return made.end("p1").read((P, 0, "x1"))


CLEAN = {
    "committed and read": begun().end("p1").read(A0, B0).drain_all(),
    "aborted and not read": begun().abort("p1").drain_all(),
    "left open and not read": begun().drain_all(),
    "left open and read by one who sees everything": begun().read(A0, isolation="read_uncommitted").drain_all(),
    "aborted by a refused commit": begun().end("p1", "fail").abort("p1").drain_all(),
    "a commit that timed out and was done": begun().end("p1", "info").read(A0, B0).drain_all(),
    "a commit that timed out and was not": begun().end("p1", "info").drain_all(),
    "an abort that timed out": begun().abort("p1", "info").drain_all(),
    "read while the commit is lost": begun().end("p1", "info").read(A0).read(B0),
    "read in pieces": begun().end("p1").read(A0).read(B0).drain_all(),
    "only one partition was read yet": begun().end("p1").read(A0),
    "offsets of an aborted transaction": Story().given("x").begin("p1").offsets("p1", 1).abort("p1").look(-1),
    "offsets that another committed": Story().begin("p1").offsets("p1", 1).begin("q1").offsets("q1", 1).end("q1")
    .look(1),
    "offsets of a commit that timed out": Story().begin("p1").offsets("p1", 1).end("p1", "info").look(-1).look(1),
    "a zombie whose commit is refused": zombie().end("p1", "fail").drain_all(),
    "a zombie that does not know": zombie().end("p1", "info").drain_all(),
    "the same process begins again": begun().end("p1", "info").init("p").begin("p2").put("p2", "c", 5).end("p2")
    .read(A0, B0, (P, 5, "c")).drain_all(),
    "a lost commit before the next": lost_end(commit=True).end("p2").read(A0, (P, 5, "c")).drain_all(),
    "copied exactly once": copied().drain_all(),
    "copied again after an abort": Story().given("x").init("p").begin("p1").put("p1", "x1", 0, source=f"{INPUT}:0")
    .abort("p1").begin("p2").put("p2", "x2", 2, source=f"{INPUT}:0").offsets("p2", 1).end("p2").read((P, 2, "x2"))
    .drain_all(),
}  # fmt: skip

BROKEN = {
    "aborted and read": ("aborted-read", begun().abort("p1").read(A0, B0).drain_all()),
    "refused and read": ("aborted-read", begun().end("p1", "fail").read(A0, B0).drain_all()),
    "left open and read": ("aborted-read", begun().read(A0)),
    "offsets that were aborted": ("aborted-read", Story().begin("p1").offsets("p1", 1).abort("p1").look(1)),
    "read before it was committed": ("intermediate-read", begun().read(A0).end("p1").read(A0, B0, process="late")),
    "offsets before they were": ("intermediate-read", Story().begin("p1").offsets("p1", 1).look(1).end("p1").look(1)),
    "each has read of the other": ("intermediate-read", circle()),
    "read by its own producer": ("precommitted-read", begun().read(A0, process="p").end("p1").read(A0, B0).drain_all()),
    "one partition is not committed": ("torn-transaction", begun().end("p1").read(A0).drain_all()),
    "one, and nobody knew": ("torn-transaction", begun().end("p1", "info").read(B0).drain_all()),
    "one was passed": ("torn-transaction", begun().end("p1").send("z", 3, "n").read(B0, (P, 3, "z"))),
    "the offsets are not": ("torn-transaction", Story().begin("p1").offsets("p1", 1).end("p1").look(0)),
    "all of it is gone": ("unseen", Story().init("p").begin("p1").put("p1", "a", 0).end("p1").drain_all()),
    "a partition without an end": ("hanging-transaction", begun().end("p1").read(A0, B0).stuck(P)),
    "one partition never gets its end": ("torn-transaction", begun().end("p1").read(A0).stuck(OTHER)),
    "a zombie commits": ("commit-after-fencing", zombie().end("p1").read(A0, B0).drain_all()),
    "a zombie has committed": ("commit-after-fencing", zombie().end("p1", "info").read(A0, B0).drain_all()),
    "a zombie writes": ("write-after-fencing", zombie().put("p1", "c", 5).drain_all()),
    "offsets go back": (
        "group-offset-regression",
        Story().begin("p1").offsets("p1", 7).end("p1").look(7).begin("q1").offsets("q1", 3).end("q1"),
    ),
    "found less than before": (
        "group-offset-regression",
        Story().begin("p1").offsets("p1", 7).end("p1").look(7).look(3),
    ),
    "a late commit hits an open one": ("late-end", lost_end(commit=True).read((P, 0, "a"), (P, 5, "c"))),
    "a late commit hits an aborted one": ("late-end", lost_end(commit=True).read((P, 5, "c")).abort("p2")),
    "a late abort hits a committed one": (
        "late-end",
        lost_end(commit=False).put("p2", "d", 7).end("p2").read((P, 7, "d")).drain_all(),
    ),
    "made twice": (
        "doubled",
        copied().begin("p2").put("p2", "x2", 2, source=f"{INPUT}:0").end("p2").read((P, 2, "x2")).drain_all(),
    ),
    "never made": (
        "missed",
        copied().begin("p2").offsets("p2", 2).end("p2").drain_all(),
    ),
}


@pytest.mark.parametrize("name", CLEAN)
def test_a_clean_history_is_clean(name: str) -> None:
    assert CLEAN[name].anomalies() == []


@pytest.mark.parametrize("name", BROKEN)
def test_each_anomaly_is_found_by_its_name_alone(name: str) -> None:
    anomaly, story = BROKEN[name]
    # What never ends also hides what is behind it.
    assert set(story.anomalies()) - {anomaly} <= {"hanging-transaction"}, check(story.history())
    assert anomaly in story.anomalies()


def test_every_checker_is_tried() -> None:
    """A checker that no history here wakes could as well be missing."""
    stories = [story for _, story in BROKEN.values()]
    awake = {checker for checker in TRANSACTION_CHECKERS for story in stories if list(checker(story.history()))}
    assert awake == set(TRANSACTION_CHECKERS)


def test_a_commit_that_overlaps_the_fence_may_be_done() -> None:
    story = begun()
    commit = story.recorder.invoke("p", "end", transaction="p1", commit=True)
    story.init("q")
    commit.ok()
    assert story.read(A0, B0).drain_all().anomalies() == []


def test_two_inits_at_once_fence_in_any_order() -> None:
    story = Story()
    one, other = (story.recorder.invoke(name, "init", transactional_id="copier") for name in ("p", "q"))
    one.ok()
    other.ok()
    story.begin("p1").put("p1", "a", 0).end("p1").read(A0)
    assert story.drain_all().anomalies() == []


def test_a_poll_that_overlaps_the_commit_may_see_it() -> None:
    story = begun()
    poll = story.recorder.invoke("reader", "poll")
    commit = story.recorder.invoke("p", "end", transaction="p1", commit=True)
    poll.ok(records=[list(A0), list(B0)])
    commit.ok()
    assert story.drain_all().anomalies() == []


def test_a_reader_of_committed_records_skips_aborted_ones() -> None:
    story = Story().init("p").begin("p1").put("p1", "a", 1).abort("p1").send("x", 0, "n").send("y", 3, "n")
    story.read((P, 0, "x"), (P, 1, "a"), (P, 3, "y"), process="all", isolation="read_uncommitted")
    assert story.read((P, 0, "x"), (P, 3, "y")).drain_all().anomalies() == []

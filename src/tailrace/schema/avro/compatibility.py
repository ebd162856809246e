"""Whether a reader's schema can read what was written with a writer's schema, by Avro's rules for schema resolution.

`resolution.py` states the rules for one pair of types, which usually require that pairs of inner types fit too. This
module collects the pairs that are reachable from the two schemas, and lets misfits spread from a pair to those that
require it. Recursive types need no special care: pairs that only require each other fit. Each pair is looked at once,
so large schemas are cheap.
"""

from collections import deque
from dataclasses import dataclass

from tailrace.records.avro.type import Type
from tailrace.schema.avro.resolution import (
    MISSING_UNION_BRANCH,
    TYPE_MISMATCH,
    Demand,
    Problem,
    Resolver,
    Verdict,
    described,
)
from tailrace.schema.language import Difference

PAIRS_MAX = 300_000
"""Pairs of types that one check compares. Two unions of thousands of records with the same name would have more."""

DIFFERENCES_MAX = 100
"""Differences that are reported. More would not help a person to repair a schema."""

_Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Place:
    """A place in the reader's schema, as a chain: paths can be long, and few are ever shown."""

    outer: "_Place | None"
    tokens: tuple[str, ...]
    description: str

    def inside(self, step: Problem | Demand) -> "_Place":
        """Return the place to which a step leads."""
        return _Place(self, step.tokens, (step.place or "{}").replace("{}", self.description))

    def path(self) -> str:
        """Return the place as a JSON pointer."""
        tokens: list[str] = []
        place: _Place | None = self
        while place is not None:
            tokens += reversed(place.tokens)
            place = place.outer
        return "/" + "/".join(reversed(tokens))


class _TooManyPairs(Exception):
    """The schemas are too entangled to compare."""


class _Comparison:
    """The pairs that are reachable from one pair of schemas, and which of them do not fit."""

    def __init__(self, reader: Type, writer: Type) -> None:
        self._verdicts: dict[_Key, Verdict] = {}
        self._misfits: dict[_Key, int] = {}  # with the order in which they were found
        self._collect(reader, writer)
        self._spread()

    def _collect(self, reader: Type, writer: Type) -> None:
        resolver = Resolver()
        waiting = [(reader, writer)]
        while waiting:
            pair = waiting.pop()
            key = _key(*pair)
            if key in self._verdicts:
                continue
            if len(self._verdicts) >= PAIRS_MAX:
                raise _TooManyPairs
            verdict = self._verdicts[key] = resolver.resolve(*pair)
            waiting.extend((demand.reader, demand.writer) for demand in verdict.demands)

    def _spread(self) -> None:
        """Mark each pair that has a problem, and each whose demands are not met because of pairs already marked."""
        required_by: dict[_Key, list[_Key]] = {}
        chances: dict[_Key, int] = {}
        for key, verdict in self._verdicts.items():
            chances[key] = len(verdict.steps) if verdict.is_any_enough else 1
            for demand in verdict.demands:
                required_by.setdefault(_key(demand.reader, demand.writer), []).append(key)
        queue = deque(key for key, verdict in self._verdicts.items() if verdict.has_problem)
        self._misfits = {key: order for order, key in enumerate(queue)}
        while queue:
            for key in required_by.get(queue.popleft(), ()):
                chances[key] -= 1
                if chances[key] <= 0 and key not in self._misfits:
                    self._misfits[key] = len(self._misfits)
                    queue.append(key)

    def report(self, reader: Type, writer: Type, count_max: int = DIFFERENCES_MAX) -> list[Difference]:
        """Return the differences in the order of the reader's schema. Each pair is reported where it is first met."""
        found: list[Difference] = []
        reported: set[_Key] = set()
        start = _Place(None, (), "the schema")
        stack: list[tuple[Problem | Demand, _Place]] = [(Demand((), reader, writer), start)]
        while stack and len(found) < count_max:
            step, place = stack.pop()
            if isinstance(step, Problem):
                found.append(_difference(step, place))
                continue
            key = _key(step.reader, step.writer)
            if key not in self._misfits or key in reported:
                continue
            verdict = self._verdicts[key]
            if verdict.is_any_enough:
                if cause := self._cause(verdict, reported):
                    found.append(_difference(_missing_branch(step.writer, cause), place))
                continue
            if any(verdict.demands):
                reported.add(key)
            stack.extend((inner, place.inside(inner)) for inner in reversed(verdict.steps))
        return found

    def _cause(self, verdict: Verdict, reported: set[_Key]) -> str | None:
        """Return a problem because of which no branch of a union fits, or None if the report will contain it anyway.

        Each step goes to a pair that was found earlier not to fit, so the search ends even if types are recursive.
        """
        place = "its branch"
        while True:
            for step in verdict.steps:
                if isinstance(step, Problem):
                    return f"{step.place or place}: {step.message}"
            misfits = [demand for demand in verdict.demands if _key(demand.reader, demand.writer) in self._misfits]
            demand = min(misfits, key=lambda demand: self._misfits[_key(demand.reader, demand.writer)])
            key = _key(demand.reader, demand.writer)
            if key in reported:
                return None
            place = demand.place.replace("{}", place)
            verdict = self._verdicts[key]


def _missing_branch(writer: Type, cause: str) -> Problem:
    message = f"the reader's union has no branch that can read the writer's {described(writer)} ({cause})"
    return Problem(MISSING_UNION_BRANCH, (), message)


def differences(reader: Type, writer: Type) -> list[Difference]:
    """Return why the reader's type cannot read what was written with the writer's type. Empty if it can."""
    try:
        comparison = _Comparison(reader, writer)
    except _TooManyPairs:
        message = f"The schemas cannot be compared: more than {PAIRS_MAX} pairs of types may have to match"
        return [Difference(TYPE_MISMATCH, "/", message)]
    return comparison.report(reader, writer)


def _key(reader: Type, writer: Type) -> _Key:
    return id(reader), id(writer)


def _difference(problem: Problem, place: _Place) -> Difference:
    return Difference(
        problem.kind, place.path(), f"{place.description[0].upper()}{place.description[1:]}: {problem.message}"
    )

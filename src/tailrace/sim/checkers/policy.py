"""A check of cleanup policies: retention and compaction touch only logs whose policy calls for them.

A broker without a connection to the metadata store follows the last policy that it knows, so it may follow each that
the topic has had so far. That all brokers know the newest one in the end is checked with the other configs.
"""

from collections.abc import Iterator

from tailrace.sim.checkers.care import CaredLog, cared_logs
from tailrace.sim.checkers.finding import Finding
from tailrace.sim.history import History, Operation


def find_uncalled_care(history: History) -> Iterator[Finding]:
    """Find retention and compaction that the policy which a broker followed does not name, or that no topic had."""
    for log in cared_logs(history):
        moves = [each for each in log.retentions if each.asked["before"] < each.asked["offset"]]
        for word, acts in (("delete", moves), ("compact", log.compactions)):
            for act in acts:
                if (problem := _problem(log, act, word)) is not None:
                    text = f"{act.process} was to {word} by a policy {problem}"
                    yield Finding("uncalled-care", log.name, text, (act.begun,))
                    break


def _problem(log: CaredLog, act: Operation, word: str) -> str | None:
    policy = act.asked.get("policy", word)
    if word not in policy.split(","):
        return f"that says {policy or 'nothing'}"
    return None if policy in log.policies_before(act.begun) else f"that the topic never had: {policy}"

"""A check of configs: an acknowledged alteration is kept until a later one.

The alterations of one config are sent one after the other, so the newest acknowledged one counts. One with an unknown
outcome may still have been on its way when a later one was acknowledged, and may count instead. A config is described
after all alterations.
"""

from collections.abc import Iterator

from tailrace.sim.checkers.finding import Finding
from tailrace.sim.history import INFO, History, Operation


def find_lost_configs(history: History) -> Iterator[Finding]:
    """Find configs whose value is neither the newest acknowledged one nor one with an unknown outcome."""
    alterations = history.of("alter")
    for look in history.of("describe"):
        for config, value in look.told.get("configs", {}).items() if look.is_ok else ():
            known = [each for each in alterations if config in each.asked["configs"] and _is_of(each, look)]
            newest = max((each for each in known if each.is_ok), key=lambda each: each.begun, default=None)
            doubtful = {each.asked["configs"][config] for each in known if each.outcome == INFO}
            if newest is not None and value not in doubtful | {newest.asked["configs"][config]}:
                text = f"broker {look.asked['broker']} says {config}={value} after {newest.asked['configs'][config]}"
                yield Finding("lost-config", look.asked["topic"], text, (newest.begun, look.begun))


def _is_of(alteration: Operation, look: Operation) -> bool:
    return bool(alteration.asked["topic"] == look.asked["topic"]) and alteration.begun < look.begun

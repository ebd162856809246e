"""Hundreds of consumers of both protocols over virtual time, while everything goes wrong that can.

    python -m tests.scenarios.group_simulation --seed 7            one run, repeatable
    python -m tests.scenarios.group_simulation --seeds 500         many, from the first seed on
    python -m tests.scenarios.group_simulation --seed 7 --trace    with all that happened

Consumers join, leave, are killed, stand still and are slow; static ones come back under their names; groups
change between the protocols; the coordinator dies and is loaded from its log; messages are lost and appends
fail; topics come and grow. `group_check` says what must hold all the time, and what must hold in the end.
"""

import argparse
import sys
from dataclasses import dataclass, replace

from tests.scenarios.group_check import Checker, Violation
from tests.scenarios.group_classic_process import ClassicProcess
from tests.scenarios.group_consumer_process import ConsumerProcess
from tests.scenarios.group_world import START_MS, Clock, Trouble, World

Consumer = ClassicProcess | ConsumerProcess

KINDS = ("consumer", "regex", "eager", "cooperative", "mixed-eager", "mixed-cooperative")
TOPICS = ("orders", "views", "clicks")
QUIET_MS = 180_000


@dataclass(frozen=True)
class Size:
    """How much of everything."""

    group_count: int
    member_count_max: int
    storm_ms: int


QUICK = Size(group_count=6, member_count_max=5, storm_ms=90_000)
FULL = Size(group_count=24, member_count_max=12, storm_ms=300_000)


@dataclass
class Outcome:
    """What a run that went well has seen."""

    process_count: int
    gain_count: int
    commit_count: int
    refused_commit_count: int
    restart_count: int
    record_count: int


class Simulation:
    """One run."""

    def __init__(self, seed: int, size: Size) -> None:
        self.size = size
        self.clock = Clock(seed)
        self.random = self.clock.random
        self.world = World(self.clock)
        self.checker = Checker(self.world)
        self.groups = {
            f"g{number}-{KINDS[number % len(KINDS)]}": KINDS[number % len(KINDS)] for number in range(size.group_count)
        }
        self.living: dict[str, list[Consumer]] = {group_id: [] for group_id in self.groups}
        self.made = 0
        for name in TOPICS:
            self.world.make_topic(name, self.random.randint(1, 8))

    def run(self) -> Outcome:
        """Storm, then quiet; Violation if something was wrong."""
        for group_id in self.groups:
            for _ in range(self.random.randint(1, self.size.member_count_max)):
                self._join(group_id)
        self.clock.after(1_000, self._strike)
        self.clock.after(self.random.randint(10_000, 40_000), self._kill_coordinator)
        self.clock.run_until(START_MS + self.size.storm_ms)
        self.world.note("quiet")
        self.size = replace(self.size, storm_ms=0)
        self.world.trouble = Trouble(loss=0, append_failure=0)
        for processes in self.living.values():
            for process in processes:
                process.letting_go_ms = (0, 1_000)
        self.clock.run_until(self.clock.now_ms + QUIET_MS)
        for group_id in self.groups:
            self.checker.check_converged(group_id)
        return Outcome(
            self.made,
            self.checker.gain_count,
            self.checker.commit_count,
            self.checker.refused_commit_count,
            self.world.restart_count,
            len(self.world.log),
        )

    # Trouble.

    def _strike(self) -> None:
        if not self.size.storm_ms:
            return
        group_id = self.random.choice(list(self.groups))
        action = self.random.choices(
            [self._join, self._leave, self._kill, self._pause, self._come_back, self._commit, self._grow],
            [30, 15, 10, 8, 10, 25, 2],
        )[0]
        action(group_id)
        self.clock.after(self.random.randint(20, 6_000 // self.size.group_count), self._strike)

    def _kill_coordinator(self) -> None:
        if self.size.storm_ms:
            self.world.restart(self.random.randint(100, 20_000))
            self.clock.after(self.random.randint(20_000, 60_000), self._kill_coordinator)

    def _alive(self, group_id: str) -> list[Consumer]:
        self.living[group_id] = [process for process in self.living[group_id] if process.is_alive]
        return self.living[group_id]

    def _join(self, group_id: str) -> None:
        if len(self._alive(group_id)) >= self.size.member_count_max:
            return
        taken = {process.instance_id for process in self._alive(group_id)}
        instance_id = self.random.choice([None, None, "i1", "i2"])
        self._start(group_id, None if instance_id in taken else instance_id)

    def _start(self, group_id: str, instance_id: str | None) -> None:
        self.made += 1
        kind, name = self.groups[group_id], f"c{self.made}"
        topics = self.random.choice([TOPICS, TOPICS[:2], TOPICS[:1]])
        if instance_id is not None and kind not in ("consumer", "regex"):
            # Nobody rebalances for a static member of a classic group that comes back with another subscription.
            topics = TOPICS if instance_id == "i1" else TOPICS[:2]
        slow = (0, 45_000) if self.random.random() < 0.03 else (0, 2_000)
        process: Consumer
        if kind in ("eager", "cooperative") or (kind.startswith("mixed") and self.random.random() < 0.5):
            cooperative = kind.endswith("cooperative")
            process = ClassicProcess(
                self.world,
                self.checker,
                name,
                group_id,
                topics=topics,
                cooperative=cooperative,
                instance_id=instance_id,
                letting_go_ms=slow,
            )
        else:
            regex = self.random.choice([".*s", "[ov].*"]) if kind == "regex" and self.random.random() < 0.7 else None
            process = ConsumerProcess(
                self.world,
                self.checker,
                name,
                group_id,
                topics=() if regex else topics,
                regex=regex,
                instance_id=instance_id,
                assignor=self.random.choice([None, "range", "uniform"]),
                letting_go_ms=slow,
            )
        self.world.note(f"{name} joins {group_id} as {type(process).__name__} {instance_id or ''}")
        self.living[group_id].append(process)

    def _pick(self, group_id: str) -> Consumer | None:
        alive = self._alive(group_id)
        return self.random.choice(alive) if len(alive) > 1 else None

    def _leave(self, group_id: str) -> None:
        if process := self._pick(group_id):
            process.leave()

    def _kill(self, group_id: str) -> None:
        if process := self._pick(group_id):
            process.kill()

    def _pause(self, group_id: str) -> None:
        if (process := self._pick(group_id)) and not process.is_paused:
            process.pause(self.random.choice([2_000, 15_000, 70_000]))

    def _come_back(self, group_id: str) -> None:
        """A static member goes, in one way or the other, and starts again under its name."""
        static = [process for process in self._alive(group_id) if process.instance_id is not None]
        if not static:
            return
        process = self.random.choice(static)
        if self.random.random() < 0.5:
            process.leave()
        else:
            process.kill()
        instance_id = process.instance_id
        self.clock.after(self.random.randint(100, 8_000), lambda: self._start_again(group_id, instance_id))

    def _start_again(self, group_id: str, instance_id: str | None) -> None:
        if all(process.instance_id != instance_id for process in self._alive(group_id)):
            self._start(group_id, instance_id)

    def _commit(self, group_id: str) -> None:
        for process in self._alive(group_id):
            if process.owned and not process.is_paused:
                process.commit(self.random.choice(sorted(process.owned)))

    def _grow(self, _group_id: str) -> None:
        name = self.random.choice([*TOPICS, "visits", "notes"])
        topic = self.world.image.topics.get(name)
        count = 0 if topic is None else topic.partition_count
        if count < 12:
            self.world.make_topic(name, count + self.random.randint(1, 2))


def simulate(seed: int, size: Size = QUICK) -> Outcome:
    """Run one seed; a failure says how to run it again."""
    simulation = Simulation(seed, size)
    try:
        return simulation.run()
    except Exception as error:
        command = f"python -m tests.scenarios.group_simulation --seed {seed} --trace"
        command += " --full" if size is FULL else ""
        tail = "\n".join(simulation.world.trace[-25:])
        raise Violation(f"seed {seed}: {error!r}\nrepeat with: {command}\n{tail}") from error


def main(arguments: list[str]) -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    parser.add_argument("--full", action="store_true", help="hundreds of consumers over five minutes")
    parser.add_argument("--trace", action="store_true", help="print all that happened")
    options = parser.parse_args(arguments)
    size = FULL if options.full else QUICK
    for seed in range(options.seed, options.seed + options.seeds):
        if options.trace:
            return _trace(seed, size)
        print(f"seed {seed}: {simulate(seed, size)}", flush=True)
    return 0


def _trace(seed: int, size: Size) -> int:
    simulation = Simulation(seed, size)
    try:
        print(simulation.run())
    except Exception:
        print("\n".join(simulation.world.trace))
        raise
    print("\n".join(simulation.world.trace))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""kill -9 on a mirror, its Python workers and the brokers of both clusters: in the end both sides are equal by hash.

A feed writes plain records, transactions and a compacted topic to one cluster while something is killed again and again
and comes back. Then the feed stops, the mirror catches up, and each topic is compared: number and hash of all committed
records with their partitions, keys, values, headers and timestamps, and with `--keep-offsets` their offsets.

python -m tests.faults.mirror_kill --kills 50 --seed 1 --brokers 3
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.faults.killable import Killable, running_brokers
from tests.faults.mirror_feed import TOPICS, Content, MirrorFeed, content, create_topics
from tests.faults.spark_kill_process import Driver, kill_chosen, python_workers

CATCH_UP_S = 600.0
TARGETS = ("mirror", "worker", "source broker", "target broker")
WITHOUT_SPARK = ("mirror", "source broker", "target broker")


def mirror_program(source: str, target: str, options: argparse.Namespace) -> list[str]:
    """Return the module and the arguments that run the mirror."""
    names, topics = (f"east={source}", f"west={target}"), "|".join(TOPICS)
    kept = ["--keep-offsets"] if options.keep_offsets else []
    if options.without_spark:
        return ["tests.faults.mirror_threads", *names, topics, *kept]
    return ["tailrace.cli.main", "mirror", "run", "--from", names[0], "--to", names[1], "--topics", topics, *kept]


def add_mirror_options(parser: argparse.ArgumentParser) -> None:
    """Add what a program that kills mirrors says of the mirror."""
    parser.add_argument("--without-spark", action="store_true", help="tasks in threads, so that restarts take no time")
    parser.add_argument("--keep-offsets", action="store_true", help="records keep their offsets")


class KillRun:
    """The kills of one run, and the comparison at its end."""

    def __init__(
        self,
        driver: Driver,
        brokers: dict[str, list[Killable]],
        addresses: tuple[str, str],
        tell: Callable[[str], None],
        options: argparse.Namespace,
    ) -> None:
        self._driver = driver
        self._brokers = brokers
        self._addresses = addresses
        self._tell = tell
        self._random = random.Random(options.seed)
        self._keeps_offsets = options.keep_offsets
        self.killed: Counter[str] = Counter()

    def kill(self, target: str) -> None:
        """Kill one thing, and start it again."""
        self._tell(f"killing {target}")
        if target in self._brokers:
            broker = self._random.choice(self._brokers[target])
            broker.kill()
            time.sleep(self._random.random())
            broker.start()
        elif target == "worker":
            if not kill_chosen(python_workers(self._driver.session), self._random.random()):
                return
        else:
            self._driver.kill(with_workers=self._random.random() < 0.5)
            self._driver.start()
        self.killed[target] += 1

    def go_on(self) -> None:
        """Start the mirror again if it ended by itself."""
        if not self._driver.is_running:
            self._tell("the mirror has ended by itself, and is started again")
            self._driver.start()
            self.killed["ended by itself"] += 1

    def wait_until_equal(self) -> dict[str, bool]:
        """Wait until both sides have the same content; returns what is equal after the longest time."""
        deadline_s = time.monotonic() + CATCH_UP_S
        while True:
            self.go_on()
            pairs = {topic: tuple(map(partial(self._content, topic), self._addresses)) for topic in TOPICS}
            if all(one == other for one, other in pairs.values()) or time.monotonic() > deadline_s:
                break
            time.sleep(2.0)
        for topic, (one, other) in pairs.items():
            self._tell(f"{topic}: {one.record_count} records {one.digest}, copied {other.record_count} {other.digest}")
        return {topic: one == other for topic, (one, other) in pairs.items()}

    def _content(self, topic: str, side: str) -> Content:
        return content(side, topic, with_offsets=self._keeps_offsets)


def parse_arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=1)
    parser.add_argument("--pause", type=float, default=5.0, help="mean seconds between two kills")
    add_mirror_options(parser)
    return parser.parse_args()


def main() -> int:
    """Run it as the command line says."""
    options = parse_arguments()
    begun_s = time.monotonic()
    chance = random.Random(options.seed)

    def tell(line: str) -> None:
        print(f"{time.monotonic() - begun_s:7.1f} s  {line}", flush=True)

    with tempfile.TemporaryDirectory(prefix="tailrace-mirror-kill-") as name:
        folders = [Path(name) / side for side in ("source", "target")]
        for folder in folders:
            folder.mkdir()
        with (
            running_brokers(options.brokers, folders[0]) as (source, source_brokers),
            running_brokers(options.brokers, folders[1]) as (target, target_brokers),
        ):
            create_topics(source, options.brokers)
            program = mirror_program(source, target, options)
            driver = Driver(program, {}, Path(name) / "mirror.txt")
            feed = MirrorFeed(source, seed=options.seed)
            brokers = {"source broker": source_brokers, "target broker": target_brokers}
            run = KillRun(driver, brokers, (source, target), tell, options)
            try:
                driver.start()
                feed.start()
                targets = WITHOUT_SPARK if options.without_spark else TARGETS
                for _ in range(options.kills):
                    time.sleep(2 * chance.random() * options.pause)
                    run.go_on()
                    run.kill(chance.choice(targets))
                feed.stop()
                tell(f"{feed.count} records were written, each to {len(TOPICS)} topics")
                equal = run.wait_until_equal()
            finally:
                driver.end()
                print((Path(name) / "mirror.txt").read_text()[-2000:], file=sys.stderr)
    tell(f"killed {dict(run.killed)}; {'equal' if all(equal.values()) else 'different'}")
    return 0 if all(equal.values()) else 1


if __name__ == "__main__":
    sys.exit(main())

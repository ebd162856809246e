"""Copiers and brokers that are killed at random while records flow: each record is copied exactly once.

Every client has its own run, on one broker and on three. Copiers die by kill -9, or are stopped until another has
fenced them; brokers die by kill -9 and come back. At the end what a reader of committed records sees is counted and
hashed, and the checkers judge the history of the whole run.

    python -m tests.faults.exactly_once --records 20000 --seed 1 --client franz-go --brokers 3
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from bench.cache import Unavailable
from tests.clients.copier_run import CLIENTS, SLOT_COUNT, CopyRun
from tests.faults.broker_process import BrokerProcess
from tests.faults.storm_network import Network
from tests.faults.storm_process import Cluster

PER_SECOND = 500
CALM_S = (0.5, 3.0)
DOWN_S = (0.1, 2.0)
TIMEOUT_S = 300.0
KINDS = ["kill", "fence", "broker"]
FAULT_COUNT_MIN = 2 * len(KINDS)
OPTIONS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "log.segment.bytes": "1048576",
}
CLUSTER_OPTIONS = {
    "zookeeper.session.timeout.ms": "6000",
    "replica.lag.time.max.ms": "4000",
    "min.insync.replicas": "2",
}
Kill = Callable[[Random], None]


@contextmanager
def one_broker(folder: Path) -> Iterator[tuple[str, Kill]]:
    """A broker, and how it is killed."""
    broker = BrokerProcess(folder, OPTIONS)
    broker.start()

    def kill(random: Random) -> None:
        broker.kill()
        time.sleep(random.uniform(*DOWN_S))
        broker.start()

    try:
        yield broker.address, kill
    finally:
        broker.kill()


@contextmanager
def three_brokers(folder: Path) -> Iterator[tuple[str, Kill]]:
    """A cluster, and how one of its brokers is killed."""
    cluster = Cluster(folder, Network(), {**OPTIONS, **CLUSTER_OPTIONS}, server_count=1)
    cluster.start()

    def kill(random: Random) -> None:
        broker = random.choice(list(cluster.brokers.values()))
        broker.kill()
        time.sleep(random.uniform(*DOWN_S))
        broker.start()

    try:
        yield cluster.bootstrap_servers, kill
    finally:
        cluster.end()


BROKERS = {1: one_broker, 3: three_brokers}


HEADER = (
    "client | brokers | records | copiers killed | fenced | gave up | of these stalled | brokers killed "
    "| committed | aborted | refused | count and hash equal | s"
)


def run(client: str, broker_count: int, record_count: int, seed: int, folder: Path) -> str:
    """One run; what came of it, in the order of `HEADER`. A copy that differs from its source raises."""
    random, faults, deck = Random(seed), Counter[str](), list[str]()
    began_s = time.monotonic()
    with BROKERS[broker_count](folder) as (bootstrap, kill_broker):
        options = {"count": record_count, "per_second": PER_SECOND, "replicas": broker_count}
        with CopyRun(bootstrap, client, f"copy-{seed}", folder, **options) as copying:
            copying.wait_until_copied(1, TIMEOUT_S)
            while not copying.flow.is_over or faults.total() < FAULT_COUNT_MIN:
                time.sleep(random.uniform(*CALM_S))
                copying.look()
                # In rounds, so that a client that starts slowly meets each of them, too.
                deck = deck or random.sample(KINDS, len(KINDS))
                slot, kind = random.randrange(SLOT_COUNT), deck.pop()
                faults[kind] += 1
                if kind == "broker":
                    kill_broker(random)
                elif kind == "kill":
                    copying.kill(slot)
                else:
                    copying.fence(slot)
            count, digest = copying.finish(TIMEOUT_S)
            told = copying.transaction_counts
            gave_up_count = copying.restart_count - faults["kill"] - faults["fence"]
    hits = [faults["kill"], faults["fence"], gave_up_count, told["stalled"], faults["broker"]]
    ends = [told["committed"], told["aborted"], told["refused"], digest[:12], f"{time.monotonic() - began_s:.0f}"]
    return " | ".join(map(str, [client, broker_count, f"{count:,}", *hits, *ends]))


def main(arguments: list[str]) -> int:
    """Run what the command line asks for; 1 if a run failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.exactly_once", description=__doc__)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--client", action="append", choices=sorted(CLIENTS), help="all of them by default")
    parser.add_argument("--brokers", action="append", type=int, choices=sorted(BROKERS), help="1 and 3 by default")
    options = parser.parse_args(arguments)
    failed = 0
    print(HEADER, flush=True)
    for broker_count in options.brokers or sorted(BROKERS):
        for client in options.client or CLIENTS:
            folder = Path(tempfile.mkdtemp(prefix="exactly-once-"))
            try:
                print(run(client, broker_count, options.records, options.seed, folder), flush=True)
            except Unavailable as reason:
                print(f"{client} | {broker_count} | skipped: {reason}", flush=True)
            except AssertionError as error:
                failed += 1
                print(f"{client} | {broker_count} | FAILED with seed {options.seed}: {error}", flush=True)
                print(f"what brokers and copiers said is in {folder}", flush=True)
                continue
            shutil.rmtree(folder)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

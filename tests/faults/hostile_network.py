"""Clients behind a network that loses replies and holds requests, beside an administrator who changes their topic.

Each run is judged by its log: every acknowledged record is in it exactly once and in the order of sending, at the
offset of its acknowledgement. A record that failed may be in it once. A wrong run of our client is a bug, and the exit
status is 1; wrong runs of other clients are only counted.

    python -m tests.faults.hostile_network --client java --scene splits --runs 100 --seed 1
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence

from bench.cache import Unavailable
from tests.faults.hostile_client import CLIENTS
from tests.faults.hostile_scene import SCENES, Ground, Scene, hostile_ground


def repeat(ground: Ground, scene: Scene, seeds: range) -> int:
    """Run a scene with each seed, print what is wrong and a line about all, and return the number of wrong runs."""
    client, proxy = ground.client, ground.proxy
    start_s, lost_count, held_count = time.monotonic(), proxy.lost_count, proxy.held_count
    kinds: Counter[str] = Counter()
    wrong_count = acknowledged_count = failed_count = 0
    for seed in seeds:
        outcome = ground.run(scene, seed)
        acknowledged_count += outcome.acknowledged_count
        failed_count += outcome.failed_count
        if outcome.wrong is not None:
            wrong_count += 1
            kinds.update(outcome.kinds)
            print(f"{client.name}, {scene.name}, seed {seed}: {outcome.wrong}", flush=True)
    print(
        f"{client.name} {client.version}, {scene.name}: {len(seeds)} runs in {time.monotonic() - start_s:.0f} s,"
        f" {proxy.lost_count - lost_count} replies lost, {proxy.held_count - held_count} requests held,"
        f" {acknowledged_count} records acknowledged, {failed_count} failed,"
        f" {wrong_count} runs wrong{_listed(kinds)}",
        flush=True,
    )
    return wrong_count


def _listed(kinds: Counter[str]) -> str:
    return f" ({', '.join(f'{kind}: {count}' for kind, count in kinds.items())})" if kinds else ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line of this module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--client", action="append", choices=CLIENTS, help="this client; without it, ours")
    parser.add_argument("--scene", action="append", choices=SCENES, help="this scene; without it, all")
    parser.add_argument("--runs", type=int, default=100, help="runs of each scene")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    options = parser.parse_args(arguments)
    logging.getLogger("tailrace").setLevel(logging.ERROR)  # records that fail are expected, and warned of
    our_wrong_count = 0
    for name in options.client or ("tailrace", "tailrace-asyncio"):
        try:
            client = CLIENTS[name]()
        except Unavailable as reason:
            print(f"{name} is not available: {reason}")
            return 1
        with hostile_ground(client) as ground:
            for scene in (SCENES[found] for found in options.scene or SCENES):
                if client.is_ours or not scene.is_ours_only:
                    wrong_count = repeat(ground, scene, range(options.seed, options.seed + options.runs))
                    our_wrong_count += wrong_count if client.is_ours else 0
        client.close()
    print(f"load of the machine: {', '.join(f'{load:.1f}' for load in os.getloadavg())}")
    return 1 if our_wrong_count else 0


if __name__ == "__main__":
    sys.exit(main())

"""Which Kafka franz-go takes the broker for, by the rule behind `kcl misc probe-version`.

Its rule compares the newest version of every API with those of each release. A broker is taken for 4.x only if it also
announces share groups, groups of Kafka Streams and the voters of a Raft quorum. Tailrace has none of them, and a tool
that sees the APIs would offer them. So the guess is the last release without them, "at least".
"""

from __future__ import annotations

import subprocess

import pytest
from bench.cache import Unavailable
from tests.clients.conftest import TARGET
from tests.clients.program import RUN_TIMEOUT_S, go

EXPECTED = {"tailrace": "at least v3.9", "kafka": "v4.3"}


def test_the_guess(broker_bootstrap: str) -> None:
    """The APIs of security and quotas were missing, which every release announces, so no release was near."""
    try:
        command, environment = go("guess").ready()
    except Unavailable as reason:
        pytest.skip(str(reason))
    done = subprocess.run(
        [*command, broker_bootstrap], env=environment, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=True
    )
    assert done.stdout.strip() == EXPECTED[TARGET]

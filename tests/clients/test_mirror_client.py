"""MirrorMaker 2's own client reads what a mirror has written."""

import subprocess
from pathlib import Path

import pytest
from bench.cache import Unavailable
from bench.maven import Classpath
from bench.mirrormaker import mirror_client_classpath
from tests.unit.spark.mirror.pair import copy_once, options

import tailrace
from tailrace.testing import Broker

PROGRAM = Path(__file__).parent / "java" / "mirror" / "RemoteOffsets.java"
TIMEOUT_S = 240


@pytest.fixture(scope="module")
def classpath() -> Classpath:
    try:
        return mirror_client_classpath()
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.mark.slow
def test_mirrormakers_client_translates_offsets(classpath: Classpath) -> None:
    with Broker() as source, Broker() as target:
        source.create_topic("orders", 2)
        with tailrace.Producer(source.bootstrap_servers, transactional_id="t") as producer:
            for number in range(20):
                with producer.transaction():
                    producer.send("orders", b"%d" % number, partition=number % 2)
        with tailrace.Admin(source.bootstrap_servers) as admin:
            admin.alter_group_offsets("billing", {("orders", 0): 6, ("orders", 1): 20})
        copy_once(options(source, target, "orders", name=("east", "west"), template="{source}.{topic}"))
        command = classpath.command(str(PROGRAM), target.bootstrap_servers, "east", "billing")
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines() == [
        "upstream [east]",
        "hops 1",
        "checkpoints [east.checkpoints.internal]",
        "offsets {east.orders-0=3, east.orders-1=10}",  # markers are not copied
    ]

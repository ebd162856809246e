"""The lanes of the tests: what a test file may start, and so how it runs.

A pure test starts nothing: no broker, no listening socket, no process. Its result depends on the code alone, so there
is no second chance. A broker test runs brokers in its own process, on threads and ports that a busy machine delays. A
process test starts programs, a JVM or Spark; these tests run one at a time, and each heavy fixture starts once.

A file belongs to the lane of the longest path below that it begins with. The plugin fails a test that starts more than
its lane allows.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Lane:
    """One way to run tests; `timeout_s` limits a test without its fixtures.

    A lane without workers runs one test at a time. One whose tests wait for most of their time has several a core.
    """

    name: str
    workers_per_core: int
    has_second_chance: bool
    timeout_s: int


PURE = Lane("pure", workers_per_core=1, has_second_chance=False, timeout_s=300)
BROKER = Lane("broker", workers_per_core=2, has_second_chance=True, timeout_s=300)
PROCESS = Lane("process", workers_per_core=0, has_second_chance=True, timeout_s=900)
LANES = (PURE, BROKER, PROCESS)

PATHS: dict[str, Lane] = {
    "tests/": PURE,
    "tests/authorization/": BROKER,
    "tests/clients/": PROCESS,
    "tests/clients/security/": BROKER,
    "tests/clients/security/test_delegation_token.py": PROCESS,
    "tests/clients/security/test_program_logins.py": PROCESS,
    "tests/clients/security/test_python_refusals.py": PROCESS,
    "tests/clients/security/test_reauthentication.py": PROCESS,
    "tests/clients/test_answers.py": BROKER,
    "tests/clients/test_new_group_protocol.py": BROKER,
    "tests/clients/test_schema_validation.py": BROKER,
    "tests/delegation_token/": BROKER,
    "tests/faults/": PROCESS,
    "tests/faults/test_compaction": PURE,
    "tests/faults/test_crash": PURE,
    "tests/faults/test_damaged": BROKER,
    "tests/faults/test_fuzz": BROKER,
    "tests/faults/test_hostile": BROKER,
    "tests/faults/test_hostile_network_java.py": PROCESS,
    "tests/faults/test_security_fuzz": BROKER,
    "tests/gate/sample/": BROKER,
    "tests/gate/sample/pure/": PURE,
    "tests/gate/test_second_chance.py": PROCESS,
    "tests/spark/": PROCESS,
    "tests/unit/base/test_chance.py": PROCESS,
    "tests/unit/cli/": PROCESS,
    "tests/unit/client/": BROKER,
    "tests/unit/client/group/test_group_kill.py": PROCESS,
    "tests/unit/client/test_public.py": PROCESS,
    "tests/unit/connect/": PROCESS,
    "tests/unit/coordination/test_embedded_durability.py": PROCESS,
    "tests/unit/coordination/test_large_topic.py": PROCESS,
    "tests/unit/coordination/test_store_contract.py": PROCESS,
    "tests/unit/coordination/zookeeper/": PROCESS,
    "tests/unit/records/arrow/test_arrow_extra.py": PROCESS,
    "tests/unit/records/arrow/test_arrow_fill.py": PROCESS,
    "tests/unit/records/test_compression.py": PROCESS,
    "tests/unit/records/test_record_walk.py": PROCESS,
    "tests/unit/registry/": BROKER,
    "tests/unit/registry/core/": PURE,
    "tests/unit/runtime/": BROKER,
    "tests/unit/runtime/test_metadata_store.py": PROCESS,
    "tests/unit/schema/codec/": BROKER,
    "tests/unit/schema/test_": BROKER,
    "tests/unit/security/tls/": PROCESS,
    "tests/unit/server/": BROKER,
    "tests/unit/server/test_half_open.py": PROCESS,
    "tests/unit/server/test_kafka_security_tools.py": PROCESS,
    "tests/unit/sim/test_batch.py": PROCESS,
    "tests/unit/sim/test_beside_broker.py": BROKER,
    "tests/unit/spark/": BROKER,
    "tests/unit/spark/lake/": PROCESS,
    "tests/unit/spark/postgres": PROCESS,
    "tests/unit/spark/redis/": PROCESS,
    "tests/unit/spark/s3/": PROCESS,
    "tests/unit/spark/test_client_log.py": PROCESS,
    "tests/unit/spark/test_java.py": PROCESS,
    "tests/unit/spark/test_shipment.py": PROCESS,
    "tests/unit/spark/test_spark_log.py": PROCESS,
    "tests/unit/spark/test_worker_python.py": PROCESS,
    "tests/unit/storage/test_kafka_folder.py": PROCESS,
    "tests/unit/testing/": PROCESS,
    "tests/unit/web/": BROKER,
}


def lane_of(file: str) -> Lane:
    """Return the lane of a test file, given by its path from the checkout."""
    return PATHS[max((path for path in PATHS if file.startswith(path)), key=len)]


def files_below(paths: Iterable[str]) -> list[str]:
    """Return the test files at or below the paths, in order."""
    found: set[Path] = set()
    for name in paths:
        path = CHECKOUT / name
        found |= set(path.rglob("test_*.py")) if path.is_dir() else {path}
    return sorted(path.relative_to(CHECKOUT).as_posix() for path in found)

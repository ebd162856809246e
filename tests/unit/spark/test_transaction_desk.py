"""The desk of a driver, and tasks that write in transactions, at a real broker and without Spark."""

from collections.abc import Iterator
from types import SimpleNamespace
from uuid import UUID

import pyarrow as pa
import pytest

import tailrace
import tailrace.spark
from tailrace.spark.batch_end import abort_batch, commit_batch
from tailrace.spark.claim import RunReplaced
from tailrace.spark.client_setting import ClientSettings, parse_client_settings
from tailrace.spark.decision import Decision, Offer, check_size
from tailrace.spark.error import OptionError, WriteError
from tailrace.spark.option import Delivery, SinkOptions, parse_sink_options
from tailrace.spark.task_place import TaskPlace, task_place
from tailrace.spark.task_writer import write_prepared
from tailrace.spark.transaction_desk import TOPIC, TransactionDesk, decided_sinks, open_desk
from tailrace.spark.transaction_name import TaskNames, driver_name, sink_name
from tailrace.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def client(broker: Broker) -> ClientSettings:
    return parse_client_settings({"kafka.bootstrap.servers": broker.bootstrap_servers})


class Query:
    """A query without Spark: its tasks and its driver."""

    def __init__(self, broker: Broker, client: ClientSettings, name: str) -> None:
        self.name = name
        self.broker = broker
        self.options = SinkOptions(client, name, Delivery.EXACTLY_ONCE)
        self.sink = sink_name(name, name)
        broker.create_topic(name, 2)

    def write(self, run_id: str, batch_id: int, *values: bytes) -> tailrace.PreparedTransaction:
        """What one task leaves."""
        rows = pa.record_batch({"value": list(values)})
        counts, transaction = write_prepared(self.options, TaskPlace(self.name, run_id, batch_id, 0), iter([rows]))
        assert counts == {self.name: len(values)}
        assert transaction is not None
        return transaction

    def commit(self, run_id: str, batch_id: int, *transactions: tailrace.PreparedTransaction) -> None:
        with open_desk(self.options.client, self.sink) as desk:
            commit_batch(desk, Offer(self.sink, run_id, batch_id, transactions))

    def seen(self) -> list[bytes | None]:
        servers = self.broker.bootstrap_servers
        table = tailrace.read_table(servers, self.name, columns=["value"], isolation_level="read_committed")
        return sorted(table.column("value").to_pylist())

    def left_open(self) -> list[str]:
        with tailrace.Admin(self.broker.bootstrap_servers) as admin:
            listed = admin.list_transactions(states=["Ongoing"], pattern=f".*/{self.name}/.*")
            return [found.transactional_id for found in listed]


def test_batches_count_when_they_are_committed(broker: Broker, client: ClientSettings) -> None:
    query = Query(broker, client, "several")
    for batch_id in range(3):
        tasks = [query.write("r", batch_id, b"%d-%d" % (batch_id, task)) for task in range(2)]
        assert len(query.seen()) == 2 * batch_id
        query.commit("r", batch_id, *tasks)
        assert len(query.seen()) == 2 * batch_id + 2
    query.commit("r", 3)
    assert query.left_open() == []


def test_a_batch_that_was_decided_and_not_committed_is_finished_by_the_next_driver(
    broker: Broker, client: ClientSettings
) -> None:
    query = Query(broker, client, "unfinished")
    decided = query.write("r1", 0, b"first")
    desk = TransactionDesk(client, query.sink)
    desk.take("r1")
    desk.decide(Decision(0, "r1", (decided,)))
    desk.close()
    assert query.seen() == []
    again = query.write("r2", 0, b"again")
    query.commit("r2", 0, again)
    assert query.seen() == [b"first"]
    query.commit("r2", 1, query.write("r2", 1, b"next"))
    assert query.seen() == [b"first", b"next"]
    assert query.left_open() == []


def test_what_a_dead_run_left_open_is_aborted_by_the_next(broker: Broker, client: ClientSettings) -> None:
    query = Query(broker, client, "orphans")
    for task in range(3):
        query.write("r1", 0, b"orphan %d" % task)
    assert len(query.left_open()) == 3
    query.commit("r2", 0, query.write("r2", 0, b"kept"))
    assert (query.seen(), query.left_open()) == ([b"kept"], [])


def test_what_attempts_have_left_open_without_a_word_is_aborted_after_a_while(
    broker: Broker, client: ClientSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody looked again within a run without failures, so that one attempt too many, which Spark had killed,
    held back readers of the topic for as long as the query ran.
    """
    query = Query(broker, client, "speculation")
    query.commit("r", 0, query.write("r", 0, b"first"))
    kept = [query.write("r", 1, b"second")]
    query.write("r", 1, b"one attempt too many")
    query.commit("r", 1, *kept)
    assert len(query.left_open()) == 1
    monkeypatch.setattr("tailrace.spark.transaction_desk.SPARK_SEARCH_INTERVAL_MS", 0)
    query.commit("r", 2, query.write("r", 2, b"third"))
    assert (query.seen(), query.left_open()) == ([b"first", b"second", b"third"], [])


def test_a_query_that_never_comes_back_is_ended_from_outside(broker: Broker, client: ClientSettings) -> None:
    query = Query(broker, client, "abandoned")
    query.commit("r", 0, query.write("r", 0, b"committed"))
    decided, undecided = query.write("r", 1, b"decided"), query.write("r", 1, b"undecided")
    assert decided != undecided
    desk = TransactionDesk(client, query.sink)
    desk.take("r")
    desk.decide(Decision(1, "r", (decided,)))
    desk.close()
    assert tailrace.spark.end_query(broker.bootstrap_servers, query.name) == 2
    assert (query.seen(), query.left_open()) == ([b"committed", b"decided"], [])
    assert tailrace.spark.end_query(broker.bootstrap_servers, query.name) == 0


def test_a_query_that_died_within_a_batch_is_ended_from_outside(broker: Broker, client: ClientSettings) -> None:
    """Its worker had an id in use again that the last decision names, for which the end was refused: the decided
    transaction could not be committed again, and the open one was spared.
    """
    query = Query(broker, client, "midway")
    committed = query.write("r", 0, b"committed")
    query.commit("r", 0, committed)
    undecided = query.write("r", 1, b"undecided")
    assert undecided.transactional_id == committed.transactional_id
    assert tailrace.spark.end_query(broker.bootstrap_servers, query.name) == 1
    assert (query.seen(), query.left_open()) == ([b"committed"], [])


def test_a_query_that_never_comes_back_is_forgotten_when_somebody_says_so(
    broker: Broker, client: ClientSettings
) -> None:
    """Nobody else can know it: also a decision that was carried out is needed until Spark has noted its batch."""
    query, other = Query(broker, client, "gone"), Query(broker, client, "gone-too")
    for each in (query, other):
        each.commit("r", 0, each.write("r", 0, b"a"))
    assert tailrace.spark.end_query(broker.bootstrap_servers, query.name) == 0
    assert decided_sinks(client, query.name) == {query.sink}
    query.write("r", 1, b"undecided")
    assert tailrace.spark.end_query(broker.bootstrap_servers, query.name, forget=True) == 1
    assert (decided_sinks(client, query.name), decided_sinks(client, other.name)) == (set(), {other.sink})
    assert (query.seen(), query.left_open()) == ([b"a"], [])
    with open_desk(client, query.sink) as desk:
        assert desk.take("r").decision is None


def test_a_batch_of_too_many_tasks_says_what_to_do(
    broker: Broker, client: ClientSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The decision is one record. What the broker said of it told nobody that the number of tasks was the matter."""
    query = Query(broker, client, "wide")
    tasks = [query.write("r", 0, b"%d" % task) for task in range(2)]
    monkeypatch.setattr("tailrace.spark.decision.SPARK_DECISION_BYTES_MAX", 100)
    with pytest.raises(WriteError, match=r"written by 2 tasks.* coalesce"):
        query.commit("r", 0, *tasks)
    assert query.left_open() == []


def test_a_decision_names_some_thousand_tasks(broker: Broker, client: ClientSettings) -> None:
    query = Query(broker, client, "thousands")
    names = TaskNames()
    run_id = str(UUID(int=0))
    transactions = tuple(
        tailrace.PreparedTransaction(names.take(sink_name(str(UUID(int=0)), "t"), run_id, 0), 1000, 0)
        for _ in range(10_000)
    )
    decision = Decision(0, run_id, transactions[:7_000])
    check_size(decision, query.sink)
    desk = TransactionDesk(client, query.sink)
    desk.take(run_id)
    desk.decide(decision)
    desk.close()
    with pytest.raises(WriteError, match=r"written by 10000 tasks.* coalesce"):
        check_size(Decision(1, run_id, transactions), query.sink)


def test_what_was_committed_so_long_ago_that_it_is_forgotten_is_no_error(
    broker: Broker, client: ClientSettings
) -> None:
    """Brokers forget ids after days, and a driver may come back later than that. Its batch could not be finished."""
    query = Query(broker, client, "forgotten")
    forgotten = tailrace.PreparedTransaction("nobody-knows-it", 4711, 0)
    desk = TransactionDesk(client, query.sink)
    desk.take("r1")
    desk.decide(Decision(0, "r1", (forgotten,)))
    desk.close()
    query.commit("r2", 0, query.write("r2", 0, b"again"))
    query.commit("r2", 1, query.write("r2", 1, b"next"))
    assert (query.seen(), query.left_open()) == ([b"next"], [])
    assert tailrace.spark.end_query(broker.bootstrap_servers, query.name) == 0


def test_a_driver_that_was_succeeded_cannot_decide(broker: Broker, client: ClientSettings) -> None:
    query = Query(broker, client, "zombie")
    late = query.write("r1", 0, b"late")
    zombie = TransactionDesk(client, query.sink)
    assert zombie.take("r1").decision is None
    query.commit("r2", 0, query.write("r2", 0, b"kept"))
    with pytest.raises(RunReplaced, match="run r2 has replaced it"):
        zombie.decide(Decision(0, "r1", (late,)))
    zombie.close()
    assert query.seen() == [b"kept"]


class Worker:
    """One of several Python workers of a driver, each with a desk of its own for the sink."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self.desk = TransactionDesk(query.options.client, query.sink)

    def commit(self, run_id: str, batch_id: int, *values: bytes) -> None:
        offered = tuple(self.query.write(run_id, batch_id, value) for value in values)
        commit_batch(self.desk, Offer(self.query.sink, run_id, batch_id, offered))


def test_the_workers_of_a_run_commit_by_turns(broker: Broker, client: ClientSettings) -> None:
    """Spark commits in whichever worker is free. The desk of the first worker was of no use after the second one had
    committed, and the query failed when Spark came back to the first.
    """
    query = Query(broker, client, "turns")
    workers = [Worker(query) for _ in range(3)]
    for batch_id, index in enumerate((0, 1, 0, 2, 2, 1, 0)):
        workers[index].commit("r", batch_id, b"%d" % batch_id)
    assert query.seen() == [b"%d" % batch_id for batch_id in range(7)]
    for worker in workers:
        worker.desk.close()


def test_a_run_that_was_replaced_never_decides_again_in_any_of_its_workers(
    broker: Broker, client: ClientSettings
) -> None:
    query = Query(broker, client, "replaced")
    first, second, unused = (Worker(query) for _ in range(3))
    first.commit("r1", 0, b"0")
    second.commit("r2", 1, b"1")
    for worker in (first, unused):
        with pytest.raises(RunReplaced, match=r"run r1 .* run r2 has replaced it"):
            worker.commit("r1", 2, b"late")
    assert query.left_open() == []
    second.commit("r2", 2, b"2")
    assert query.seen() == [b"0", b"1", b"2"]
    for worker in (first, second, unused):
        worker.desk.close()


def test_a_worker_serves_the_next_run_of_its_query(broker: Broker, client: ClientSettings) -> None:
    query = Query(broker, client, "again")
    worker, other = Worker(query), Worker(query)
    worker.commit("r1", 0, b"0")
    worker.commit("r2", 1, b"1")
    with pytest.raises(RunReplaced):
        other.commit("r1", 1, b"late")
    worker.commit("r2", 2, b"2")
    assert query.seen() == [b"0", b"1", b"2"]
    for each in (worker, other):
        each.desk.close()


def test_a_run_does_not_wait_for_what_a_dead_worker_of_its_query_was_writing(
    broker: Broker, client: ClientSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run read on to the end before it took the id, and so waited for the dead worker's time-out."""
    monkeypatch.setattr("tailrace.spark.transaction_desk._READ_TIMEOUT_MS", 10_000)  # a third of that time-out
    query = Query(broker, client, "died")
    dead, alive = Worker(query), Worker(query)
    dead.commit("r1", 0, b"0")
    with tailrace.Producer(
        broker.bootstrap_servers, transactional_id=driver_name(query.sink), transaction_timeout_ms=60_000
    ) as producer:
        producer.begin_transaction()
        producer.send(TOPIC, b"unfinished", query.sink.encode(), partition=dead.desk._partition.partition).result()
        alive.commit("r2", 1, b"1")
    assert query.seen() == [b"0", b"1"]
    for worker in (dead, alive):
        worker.desk.close()


def test_the_next_run_goes_on_after_a_worker_that_took_the_id_and_died(broker: Broker, client: ClientSettings) -> None:
    """The desk that another worker had kept took its own claim for the newest, and the query failed a second time."""
    query = Query(broker, client, "half")
    kept, dead = Worker(query), Worker(query)
    kept.commit("r1", 0, b"0")
    dead.desk._take_id()
    kept.commit("r2", 1, b"1")
    assert query.seen() == [b"0", b"1"]
    for worker in (kept, dead):
        worker.desk.close()


def test_batches_without_rows_do_not_move_the_claim(broker: Broker, client: ClientSettings) -> None:
    query = Query(broker, client, "idle")
    first, second = Worker(query), Worker(query)
    first.commit("r", 0, b"0")
    second.commit("r", 1, b"1")
    end = decisions_end(broker)
    for batch_id in range(2, 6):
        (first, second)[batch_id % 2].commit("r", batch_id)
    assert decisions_end(broker) == end
    for worker in (first, second):
        worker.desk.close()


def decisions_end(broker: Broker) -> int:
    with tailrace.Consumer(broker.bootstrap_servers) as consumer:
        return sum(consumer.end_offsets([(TOPIC, index) for index in range(8)]).values())


def test_a_driver_that_was_succeeded_ends_nothing_that_has_begun_since(broker: Broker, client: ClientSettings) -> None:
    """Remains were ended by their ids alone, which the workers of its successor had in use again."""
    query = Query(broker, client, "late")
    again = query.write("r2", 0, b"again")
    late = TransactionDesk(client, query.sink)
    late.take("r1")
    remains = late.find_remains(None)
    assert remains == [again]
    query.commit("r2", 0, again)
    transaction = query.write("r2", 1, b"next")
    assert transaction.transactional_id == again.transactional_id
    late.end(remains, commit=False)
    late.close()
    query.commit("r2", 1, transaction)
    assert (query.seen(), query.left_open()) == ([b"again", b"next"], [])


def test_a_batch_that_failed_is_taken_back(broker: Broker, client: ClientSettings) -> None:
    query = Query(broker, client, "failed")
    transaction = query.write("r", 0, b"gone")
    with open_desk(client, query.sink) as desk:
        abort_batch(desk, Offer(query.sink, "r", 0, (transaction,), is_complete=False))
    assert query.left_open() == []
    query.commit("r2", 0, query.write("r2", 0, b"kept"))
    assert query.seen() == [b"kept"]


def test_a_task_without_rows_begins_no_transaction(broker: Broker, client: ClientSettings) -> None:
    query = Query(broker, client, "empty")
    empty = pa.record_batch({"value": pa.array([], pa.binary())})
    assert write_prepared(query.options, TaskPlace("q", "r", 0, 0), iter([empty])) == ({}, None)


def test_a_task_that_fails_leaves_nothing_open(broker: Broker, client: ClientSettings) -> None:
    query = Query(broker, client, "broken")

    def rows() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"value": [b"a"]})
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        write_prepared(query.options, TaskPlace(query.name, "r", 0, 0), rows())
    assert (query.seen(), query.left_open()) == ([], [])


def test_decisions_are_kept_in_a_compacted_topic(broker: Broker, client: ClientSettings) -> None:
    query = Query(broker, client, "decisions")
    query.commit("r", 0, query.write("r", 0, b"a"))
    with tailrace.Admin(broker.bootstrap_servers) as admin:
        configs = {config.name: config.value for config in admin.describe_configs(tailrace.ResourceType.TOPIC, TOPIC)}
    assert configs["cleanup.policy"] == "compact"
    assert configs["segment.bytes"] == str(16 * 1024 * 1024)  # all of the newest is read when a driver starts


def test_a_topic_of_decisions_that_somebody_else_made_is_refused() -> None:
    with Broker() as broker:
        broker.create_topic(TOPIC, 1)
        client = parse_client_settings({"kafka.bootstrap.servers": broker.bootstrap_servers})
        desk = TransactionDesk(client, "q")
        with pytest.raises(WriteError, match="has 1 partitions, but 8 are needed"):
            desk.take("r")
        desk.close()


def test_outside_of_a_task_nobody_knows_the_batch() -> None:
    with pytest.raises(WriteError, match="only by Spark tasks"):
        task_place()


def test_a_group_of_jobs_that_hides_the_run_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a group of its own in each run, a query that was killed between decision and commit was stuck for good."""
    run_id = "7c7e2a0e-6a53-4f0b-8a43-2f1c0d4d7d11"
    properties = {"sql.streaming.queryId": "q", "streaming.sql.batchId": "4", "spark.jobGroup.id": run_id}
    context = SimpleNamespace(getLocalProperty=properties.get, attemptNumber=lambda: 1)
    monkeypatch.setattr("pyspark.TaskContext.get", lambda: context)
    assert task_place() == TaskPlace("q", run_id, 4, 1)
    properties["spark.jobGroup.id"] = "nightly"
    with pytest.raises(WriteError, match="setJobGroup"):
        task_place()


def test_the_option_delivery() -> None:
    given = {"kafka.bootstrap.servers": "localhost:9092", "topic": "t"}
    assert parse_sink_options(given).delivery is Delivery.AT_LEAST_ONCE
    assert parse_sink_options(given | {"delivery": "exactly-once"}).delivery is Delivery.EXACTLY_ONCE
    with pytest.raises(OptionError, match="delivery"):
        parse_sink_options(given | {"delivery": "twice"})
    with pytest.raises(OptionError, match="acks=all"):
        parse_sink_options(given | {"delivery": "exactly-once", "kafka.acks": "1"})

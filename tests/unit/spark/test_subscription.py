"""Which partitions a query reads, given those that exist."""

from tailrace.client.topic_partition import TopicPartition
from tailrace.spark.subscription import Assigned, Matching, Named

COUNTS = {"views": 2, "views.eu": 1, "orders": 1}


def partitions(*names: str) -> set[TopicPartition]:
    return {TopicPartition(name.rpartition("-")[0], int(name.rpartition("-")[2])) for name in names}


def test_all_partitions_of_named_topics() -> None:
    assert Named(("views", "orders")).partitions(COUNTS) == partitions("views-0", "views-1", "orders-0")
    assert Named(("views",)).missing(COUNTS) is None
    assert Named(("views", "carts")).missing(COUNTS) == "topic carts does not exist"


def test_a_pattern_fits_whole_names() -> None:
    assert Matching("views").partitions(COUNTS) == partitions("views-0", "views-1")
    assert Matching("views.*").partitions(COUNTS) == partitions("views-0", "views-1", "views.eu-0")
    assert Matching("view").partitions(COUNTS) == set()


def test_topics_that_fit_a_pattern_may_come_later() -> None:
    assert Matching("carts").missing(COUNTS) is None
    assert Matching("carts").topics is None


def test_single_partitions() -> None:
    wanted = Assigned((TopicPartition("views", 1), TopicPartition("orders", 0)))
    assert wanted.topics == ("views", "orders")
    assert wanted.partitions(COUNTS) == partitions("views-1", "orders-0")
    assert wanted.missing(COUNTS) is None
    assert Assigned((TopicPartition("views", 2),)).missing(COUNTS) == "partition views-2 does not exist"
    assert Assigned((TopicPartition("carts", 0),)).missing(COUNTS) == "partition carts-0 does not exist"

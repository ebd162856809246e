"""Website activity as a pipeline: page views, searches and orders from topics to topics and Parquet files.

`tailrace demo` runs it over invented activity. With a broker and topics of your own, in a checkout:

    tailrace pipeline run examples/website.py --bootstrap-server localhost:9092 --output results
"""

from pyspark.sql import DataFrame
from pyspark.sql.functions import avg, col, count, expr, session_window, window

from tailrace.pipeline import files, flow, topic

EVERY = "2 seconds"
LATENESS = "10 seconds"  # later events are dropped

page_views = topic("page_views", schema="event bigint, user string, at timestamp, page string, ms int")
searches = topic("searches", schema="event bigint, user string, at timestamp, query string, results int")
orders = topic("orders", schema="event bigint, user string, at timestamp, product string, count int, cents bigint")
everything = topic("page_views", "searches", "orders")


def once(events: DataFrame) -> DataFrame:
    """Remove duplicates, which producers send when an acknowledgement is lost."""
    return events.withWatermark("at", LATENESS).dropDuplicatesWithinWatermark(["event"])


@flow(source=page_views, sink=topic("page_counts", key="page", partitions=3), every=EVERY)
def page_counts(views: DataFrame) -> DataFrame:
    """Return how often each page was seen, in windows of five seconds, and how long it took to load."""
    counts = (
        once(views).groupBy(window("at", "5 seconds"), "page").agg(count("*").alias("views"), avg("ms").alias("ms"))
    )
    return counts.select(col("window.start").alias("start"), "page", "views", "ms")


@flow(source=page_views, sink=files("sessions"), every=EVERY)
def sessions(views: DataFrame) -> DataFrame:
    """Return the visits of each user: views with less than three seconds between them."""
    visits = once(views).groupBy(session_window("at", "3 seconds"), "user").agg(count("*").alias("views"))
    return visits.select(
        "user", col("session_window.start").alias("start"), col("session_window.end").alias("end"), "views"
    )


@flow(source=(orders, searches), sink=topic("order_searches", key="user", partitions=3), every=EVERY)
def order_searches(orders: DataFrame, searches: DataFrame) -> DataFrame:
    """Return what people had searched for in the five seconds before they ordered."""
    placed = once(orders).select("user", "product", "cents", col("at").alias("ordered_at"))
    asked = once(searches).select(col("user").alias("asker"), "query", col("at").alias("searched_at"))
    return placed.join(
        asked, expr("user = asker AND searched_at BETWEEN ordered_at - INTERVAL 5 SECONDS AND ordered_at")
    ).drop("asker")


@flow(source=everything, sink=files("activity"), every=EVERY)
def activity(records: DataFrame) -> DataFrame:
    """Return every record as it came, with the place that it came from."""
    return records.select("topic", "partition", "offset", "timestamp", "key", col("value").cast("string"))

"""Benchmarks of a Kafka-protocol broker, each runnable alone from the checkout as `python -m bench.NAME`."""

"""Checkers of histories: pure functions from a history to its anomalies.

The list follows Jepsen's analyses of systems like Kafka. It leaves out the anomalies that only write isolation could
prevent, which Kafka does not have: cycles of write dependencies. Cycles of reads between transactions (G1c) need no
module of their own: a transaction reads before its commit is requested, so one of them has read uncommitted data, and
is found by that.
"""

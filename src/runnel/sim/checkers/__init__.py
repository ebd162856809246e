"""Checkers of histories: each is a pure function from a history to what is wrong with it.

The list is that of Jepsen's analyses of Kafka-like systems, as far as it needs no transactions. What stands in
none of these modules yet is what only transactions can break: precommitted reads, and cycles of writes and reads.
"""

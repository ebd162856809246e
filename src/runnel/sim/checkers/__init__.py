"""Checkers of histories: each is a pure function from a history to what is wrong with it.

The list is that of Jepsen's analyses of Kafka-like systems. What stands in none of these modules is what only
write isolation could give, and Kafka has none: cycles of writes and reads.
"""

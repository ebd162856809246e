"""Checkers of histories: each is a pure function from a history to what is wrong with it.

The list is that of Jepsen's analyses of Kafka-like systems. What stands in none of these modules is what only
write isolation could give, and Kafka has none: cycles in which one write comes before another. A cycle of reads alone,
in which transactions have read of each other (G1c), needs no module of its own: whoever reads in a transaction does so
before its commit is asked for, so one of them has read what was not committed yet, and is found by that.
"""

"""Quotas at the edge of the broker: what clients use is counted, and those that use too much have to pause."""

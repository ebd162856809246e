"""Replication's rules: what a leader knows of its followers, and what a follower does to agree with its leader."""

"""Mirrors: copies of topics in another cluster, made by tasks of Spark."""

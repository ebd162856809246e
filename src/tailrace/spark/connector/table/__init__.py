"""Compacted topics as tables: the newest row of each key, for joins with streams."""

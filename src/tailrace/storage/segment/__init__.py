"""One segment of a log: its files, indexes and checks."""

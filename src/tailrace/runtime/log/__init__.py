"""Background work on logs: flushing, retention and compaction."""

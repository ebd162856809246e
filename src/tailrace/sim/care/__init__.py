"""Simulated clients of logs that retention, compaction and DeleteRecords shorten all the time."""

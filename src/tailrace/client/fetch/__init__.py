"""The consumer: from a subscription to records and Arrow batches."""

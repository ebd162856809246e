"""The conversion between record batches and Arrow columns."""

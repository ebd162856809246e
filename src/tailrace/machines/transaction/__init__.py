"""The transaction coordinator's decisions, without a clock and without I/O."""

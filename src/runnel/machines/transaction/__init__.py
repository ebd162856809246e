"""Transactions: what their coordinator decides, without a clock and without I/O."""

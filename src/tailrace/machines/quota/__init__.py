"""Quotas of clients: which one applies, how much of it is used, and how long a client has to pause."""

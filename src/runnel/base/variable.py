"""Environment variables that both the command line and the Python client obey."""

BOOTSTRAP_VARIABLE = "RUNNEL_BOOTSTRAP_SERVER"
"""The brokers to begin with, for commands and clients that are told none."""

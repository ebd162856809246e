"""Environment variables that both the command line and the Python client use."""

BOOTSTRAP_VARIABLE = "TAILRACE_BOOTSTRAP_SERVER"
"""The bootstrap brokers for commands and clients that are not given any."""

REGISTRY_VARIABLE = "TAILRACE_REGISTRY_URL"
"""The schema registries for commands that are not given any."""

REGISTRY_USER_VARIABLE = "TAILRACE_REGISTRY_USER"
"""The user and password for the schema registry, so that they need not stand on the command line."""

"""Options of the commands that start an HTTP service."""

from pathlib import Path

import click


def check_http_options(certificate: Path | None, key: Path | None, users: Path | None, *, cluster_users: bool) -> None:
    """Raise `UsageError` if the options for HTTPS and for the users of a service do not go together."""
    if (certificate is None) != (key is None):
        raise click.UsageError("--certificate and --key go together")
    if users is not None and cluster_users:
        raise click.UsageError("--users and --cluster-users exclude each other")

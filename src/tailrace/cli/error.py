"""The error message that a command prints when it fails."""

import click


def explain(error: Exception) -> str | None:
    """Return the message for an expected error; None for a bug, which gets a traceback."""
    # Imported here, because a command that failed has loaded these modules already.
    from tailrace.client.error import ClientError
    from tailrace.config.error import ConfigError
    from tailrace.coordination.migration import MigrationRefused
    from tailrace.coordination.store import StoreUnreachableError
    from tailrace.coordination.zookeeper.server import ZooKeeperMissingError
    from tailrace.protocol.errors import ApiError, RemoteProtocolError
    from tailrace.records.error import RecordError
    from tailrace.runtime.membership import NotAdmitted
    from tailrace.runtime.registration import DuplicateBroker
    from tailrace.spark.error import SparkSourceError
    from tailrace.storage.error import StorageError
    from tailrace.storage.folder_identity import ForeignFolder

    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror or error}"
    known = (ApiError, ClientError, ConfigError, ForeignFolder, RecordError, RemoteProtocolError, SparkSourceError)
    of_stores = (MigrationRefused, StorageError, StoreUnreachableError, ZooKeeperMissingError)
    of_clusters = (DuplicateBroker, NotAdmitted)
    return " ".join(str(error).split()) if isinstance(error, (*known, *of_stores, *of_clusters)) else None

"""The one line that a user reads when a command fails."""

import click


def explain(error: Exception) -> str | None:
    """The line for an error that users can meet; None for a bug, which deserves its traceback."""
    # Imported here, where the modules that could have raised these are loaded already.
    from runnel.client.error import ClientError
    from runnel.config.error import ConfigError
    from runnel.coordination.migration import MigrationRefused
    from runnel.coordination.store import StoreUnreachableError
    from runnel.coordination.zookeeper_server import ZooKeeperMissingError
    from runnel.protocol.errors import ApiError, RemoteProtocolError
    from runnel.records.error import RecordError
    from runnel.runtime.error import DuplicateBroker, NotAdmitted
    from runnel.spark.error import SparkSourceError
    from runnel.storage.error import StorageError
    from runnel.storage.folder_identity import ForeignFolder

    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror or error}"
    known = (ApiError, ClientError, ConfigError, ForeignFolder, RecordError, RemoteProtocolError, SparkSourceError)
    of_stores = (MigrationRefused, StorageError, StoreUnreachableError, ZooKeeperMissingError)
    of_clusters = (DuplicateBroker, NotAdmitted)
    return " ".join(str(error).split()) if isinstance(error, (*known, *of_stores, *of_clusters)) else None

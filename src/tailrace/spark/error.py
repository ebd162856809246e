"""The errors of queries and pipelines; their messages say what to change."""

import json
from collections.abc import Mapping
from typing import Any

from tailrace.spark.message import shorten
from tailrace.spark.record_place import ORIGIN, RecordPlace


class SparkSourceError(Exception):
    """The base class of the data source's errors, whose messages are for users."""


class OptionError(SparkSourceError):
    """An option is unknown, forbidden or missing, or has an invalid value."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"option {name}: {reason}")
        self.name = name
        self.reason = reason


class BrokerError(SparkSourceError):
    """The brokers cannot be reached, or answered with an error."""


class RetriableBrokerError(BrokerError):
    """The brokers cannot be reached now; a stream can continue from its checkpoint later."""


class ColumnError(SparkSourceError):
    """A column is unknown or missing, or has the wrong type."""


class DataLossError(SparkSourceError):
    """Records that the query had not read were deleted, and failOnDataLoss is true."""


class WriteError(SparkSourceError):
    """Rows could not be written to a topic."""


class RetriableWriteError(WriteError):
    """Rows could not be written now; a stream can continue from its checkpoint later.

    Raised when brokers are temporarily unreachable, and when another producer has taken the transactional id. Create
    it with `retriable.write_error`, which checks the client's error.
    """


class RowRefused(WriteError):
    """A sink refused one row for a reason that a retry does not change, such as a constraint of a table.

    `row` is the row by column, and may have the column `ORIGIN`. Raise it, or hand it to `Rejects.refuse` of the flow,
    which does what errors= says.
    """

    def __init__(self, reason: str, row: Mapping[str, Any] | None = None) -> None:
        self.reason = reason
        self.row = None if row is None else {name: value for name, value in row.items() if name != ORIGIN}
        self.origin = RecordPlace.unpack((row or {}).get(ORIGIN))
        super().__init__(reason if row is None else f"{reason}: {shorten(json.dumps(self.row, default=str))}")


class UnreadableRecord(SparkSourceError):
    """A record in the topic of decisions is unreadable; a later version may have written it."""


class SessionError(SparkSourceError):
    """A requirement of a Spark session is missing on this machine."""


class MalformedValue(SparkSourceError):
    """A value has no frame or an unknown schema, or does not fit the schema. The message names the record."""


class RegistryRefusal(SparkSourceError):
    """The schema registry refused a request."""


class RetriableRegistryError(SparkSourceError):
    """No schema registry answers now; a stream can continue from its checkpoint later."""


class ConnectorError(SparkSourceError):
    """The system of a connector cannot be reached, or refused a request."""


class RetriableConnectorError(ConnectorError):
    """The system of a connector cannot be reached now; a stream can continue from its checkpoint later."""


class PipelineError(SparkSourceError):
    """A pipeline file cannot be run as it is."""

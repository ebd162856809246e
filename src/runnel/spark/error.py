"""What can be wrong with a query over topics, said so that the reader knows what to change."""


class SparkSourceError(Exception):
    """Base of the errors of the data source; the text is fit to be shown to a user."""


class OptionError(SparkSourceError):
    """An option is unknown, forbidden, missing or has a value that it cannot have."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"option {name}: {reason}")
        self.name = name
        self.reason = reason


class BrokerError(SparkSourceError):
    """The brokers cannot be reached, or do not answer as they should."""


class RetriableBrokerError(BrokerError):
    """The brokers cannot be reached now, but may be later; a stream can go on from its checkpoint."""


class ColumnError(SparkSourceError):
    """A schema has a column that is not there, is missing or has the wrong type."""


class DataLossError(SparkSourceError):
    """Records that the query still wanted are gone, and failOnDataLoss is true."""


class WriteError(SparkSourceError):
    """Rows could not be written to a topic."""


class RetriableWriteError(WriteError):
    """Rows could not be written now, but may be later; a stream can go on from its checkpoint.

    Raised where the brokers are unreachable for a while, and where another producer took over the
    transactional id. Make one with `retriable.write_error`, which looks at the client's error.
    """


class UnreadableRecord(SparkSourceError):  # noqa: N818 - says what it is
    """A record in the topic of decisions cannot be read; a later version may have written it."""


class SessionError(SparkSourceError):
    """Something that a Spark session needs is missing on this machine."""

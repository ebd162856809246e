"""What can go wrong between a client and its brokers, beside what a broker itself answers (`ApiError`)."""


class ClientError(Exception):
    """Base of the errors of this side; the text is fit to be shown to a user."""


class BrokerUnavailable(ClientError):  # noqa: N818 - it says what is the matter
    """No connection could be made, or the one there was is gone. Trying again may help."""


class RequestTimeout(ClientError):  # noqa: N818 - it says what is the matter
    """A broker did not answer in time. What was asked may have happened all the same."""


class BootstrapError(ClientError):
    """None of the addresses that the user gave answers as a Kafka broker would."""


class ClientClosed(ClientError):  # noqa: N818 - it says what is the matter
    """The client was closed before it was used, or while."""


class BufferFull(ClientError):  # noqa: N818 - it says what is the matter
    """A producer's memory for records stayed full for too long."""


class DeliveryTimeout(ClientError):  # noqa: N818 - it says what is the matter
    """A record could not be written in time. It may be in the log all the same if it was sent."""


class RecordTooLarge(ClientError):  # noqa: N818 - it says what is the matter
    """A record is larger than the producer is allowed to send."""


class OffsetMissing(ClientError):  # noqa: N818 - it says what is the matter
    """A group has committed nothing for a partition, and no setting says where to begin."""


class CommitFailed(ClientError):  # noqa: N818 - it says what is the matter
    """Offsets were not committed because the group has gone on without this member; what it read is read again."""


class TransactionStateError(ClientError):
    """A producer was asked for what its transaction cannot do at the moment."""


class TransactionFailed(ClientError):  # noqa: N818 - it says what is the matter
    """A transaction cannot be committed. It is aborted, or has to be; the producer can go on with another."""


class ProducerFenced(ClientError):  # noqa: N818 - it says what is the matter
    """Another producer has this one's transactional id, or its transaction took too long. Make a new producer."""

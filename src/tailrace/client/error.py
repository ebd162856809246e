"""Errors of the client, beside the errors in the answers of brokers (`ApiError`)."""


class ClientError(Exception):
    """Base class of the client's errors; the text can be shown to a user."""


class BrokerUnavailable(ClientError):
    """A connection could not be opened or was lost. A retry may succeed."""


class AuthenticationError(ClientError):
    """A broker refuses the client, or the client does not trust the broker: a login, a token or a certificate.

    The same attempt would fail again, so the client does not retry it.
    """


class RequestTimeout(ClientError):
    """A broker did not answer in time. It may have carried out the request all the same."""


class BootstrapError(ClientError):
    """None of the bootstrap addresses answers like a Kafka broker."""


class ClientClosed(ClientError):
    """The client was closed before or during the call."""


class BufferFull(ClientError):
    """The producer's `buffer_memory` stayed full for longer than `max_block_ms`."""


class DeliveryTimeout(ClientError):
    """A record was not acknowledged in time. If it was sent, it may be in the log all the same."""


class RecordTooLarge(ClientError):
    """A record is larger than the producer's `max_request_size`."""


class OffsetMissing(ClientError):
    """A group has no committed offset for a partition, and `auto_offset_reset` is none."""


class CommitFailed(ClientError):
    """Offsets were not committed because the group has excluded this member; its records are read again."""


class TransactionStateError(ClientError):
    """A call does not fit the current state of the producer's transaction."""


class TransactionFailed(ClientError):
    """A transaction cannot be committed and was, or must be, aborted. The producer can begin another."""


class ProducerFenced(ClientError):
    """Another producer took the transactional id, or the transaction timed out. Create a new producer."""

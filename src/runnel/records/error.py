"""What can be wrong with record bytes, whoever they came from.

These say nothing about a Kafka error code: a batch that is corrupt in a produce request is
the client's fault, the same bytes in a segment are the disk's. Each caller translates.
"""


class RecordError(Exception):
    """Base of everything that reading or decompressing a batch may raise."""


class TruncatedBatch(RecordError):  # noqa: N818  says what is wrong with the bytes
    """The buffer ends before the batch does; more bytes might make it whole."""


class CorruptBatch(RecordError):  # noqa: N818  says what is wrong with the bytes
    """The bytes are no batch, and more of them would not help."""


class LegacyBatch(CorruptBatch):
    """The message formats 0 and 1, which Kafka 4 does not write and Runnel does not read."""


class DecompressionLimit(RecordError):  # noqa: N818  says what is wrong with the bytes
    """The decompressed records would be larger than the caller allows."""

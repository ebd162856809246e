"""The errors of reading record bytes.

They carry no Kafka error code: a corrupt batch in a produce request is the client's fault, and the
same bytes in a segment are the disk's. Each caller translates.
"""


class RecordError(Exception):
    """Base class of the errors of reading or decompressing a batch."""


class TruncatedBatch(RecordError):
    """The buffer ends before the batch does; more bytes might complete it."""


class CorruptBatch(RecordError):
    """The bytes are not a batch, and more bytes would not help."""


class LegacyBatch(CorruptBatch):
    """A batch in message format 0 or 1, which Kafka 4 does not write and Tailrace does not read."""


class DecompressionLimit(RecordError):
    """The decompressed records would be larger than the caller allows."""

"""The errors of reading record bytes.

They carry no Kafka error code: a corrupt batch in a produce request is the client's fault, and the
same bytes in a segment are the disk's. Each caller translates.
"""

from typing import Self


class RecordError(Exception):
    """Base class of the errors of reading or decompressing a batch."""

    def at(self, place: object) -> Self:
        """Return the same error with the place of the batch, such as its partition, in front of the message."""
        return type(self)(f"{place}: {self}")


class TruncatedBatch(RecordError):
    """The buffer ends before the batch does; more bytes might complete it."""


class CorruptBatch(RecordError):
    """The bytes are not a batch, and more bytes would not help."""


class LegacyBatch(CorruptBatch):
    """A batch in message format 0 or 1, which Kafka 4 does not write and Tailrace does not read."""


class DecompressionLimit(RecordError):
    """The decompressed records would be larger than the caller allows."""

"""The errors of mirrors."""

from tailrace.spark.error import SparkSourceError


class MirrorError(SparkSourceError):
    """A mirror cannot run as it was asked to; nothing was changed."""


class MirrorReplaced(SparkSourceError):
    """A later run of the same mirror has replaced this one."""

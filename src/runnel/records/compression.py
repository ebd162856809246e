"""The five codecs a batch may name."""

from enum import IntEnum


class Compression(IntEnum):
    """The low three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def config_name(self) -> str:
        """The word for it in `compression.type`."""
        return self.name.lower()

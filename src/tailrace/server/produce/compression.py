"""The compression of stored batches where `compression.type` asks for another codec than the client used.

As in Kafka, a batch whose codec already is the topic's is stored as it came, whatever its level.
Otherwise the leader opens it and compresses the records again; offsets, timestamps, producer id
and sequence stay as they are. It is done batch by batch right before the append: a small batch may
become a large one, and a request may hold thousands.
"""

import asyncio

from tailrace.base.limits import RECOMPRESS_IN_LOOP_BYTES_MAX, RECOMPRESS_TURN_BYTES_MAX
from tailrace.config.policy import LZ4_LEVEL_DEFAULT
from tailrace.config.topic import TopicConfig
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.records.batch import read_header
from tailrace.records.compression import Compression
from tailrace.records.rewrite import recompress_batch
from tailrace.server.context import RequestContext
from tailrace.server.produce.batch import ValidatedBatch

_PRODUCER = "producer"
_CODECS = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


class Recompression:
    """Recompresses the batches of one request, on the event loop or in a worker thread."""

    def __init__(self, ctx: RequestContext) -> None:
        self._worker = ctx.broker.worker
        self._left_bytes = RECOMPRESS_TURN_BYTES_MAX  # how much more of the request the event loop recompresses

    async def convert(self, batch: ValidatedBatch, config: TopicConfig) -> ValidatedBatch:
        """Return the batch in its topic's codec, or raise `ApiError` if it is too large then.

        `config` is the one that `needs_recompression` was asked with; the topic's may change while this waits.
        """
        if batch.valid.records_size_bytes <= RECOMPRESS_IN_LOOP_BYTES_MAX and self._left_bytes > 0:
            self._left_bytes -= max(len(batch.buffer), batch.valid.records_size_bytes)
            stored = _recompress(batch, config)
        else:
            stored = await asyncio.get_running_loop().run_in_executor(self._worker, _recompress, batch, config)
        size_bytes_max = config.max_message_bytes
        if len(stored) > size_bytes_max:
            raise ApiError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"with compression.type {config.compression_type} the batch has {len(stored)} bytes, "
                f"more than the {size_bytes_max} of max.message.bytes",
            )
        return batch._replace(buffer=memoryview(stored), valid=batch.valid._replace(header=read_header(stored)))


def needs_recompression(batch: ValidatedBatch, config: TopicConfig) -> bool:
    """Return whether the topic asks for another codec than the batch has."""
    compression_type = config.compression_type
    return compression_type != _PRODUCER and _CODECS[compression_type] is not batch.valid.header.compression


def _recompress(batch: ValidatedBatch, config: TopicConfig) -> bytearray:
    codec = _CODECS[config.compression_type]
    return recompress_batch(
        batch.buffer,
        batch.valid.header,
        codec,
        _level(codec, config),
        decompressed_bytes_max=batch.valid.records_size_bytes,
    )


def _level(codec: Compression, config: TopicConfig) -> int | None:
    if codec is Compression.GZIP:
        return config.compression_gzip_level
    if codec is Compression.ZSTD:
        return config.compression_zstd_level
    if codec is Compression.LZ4 and config.compression_lz4_level != LZ4_LEVEL_DEFAULT:
        return config.compression_lz4_level
    return None  # as in Kafka, lz4's default level is its fast compressor
